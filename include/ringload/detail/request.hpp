// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load or a save is asked for, on its way to the engine.

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/fill.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/selection.hpp>
#include <ringload/tensor.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ringload::inline v0 {
struct chosen_tensor;
}

namespace ringload::inline v0::detail {

// A class, because libstdc++ 12 thinks that a std::variant of std::string and std::vector is never
// valueless, and destroys what is none when copying one finds no memory.
struct path_list {
  std::vector<std::string> paths;
};

// What a user may write for a checkpoint: a name, the paths of several files, or what is found.
using source_name = std::variant<std::string, path_list, found_source>;

// Memory of the caller's that is to be filled.
struct fill_request {
  fill_request(std::vector<destination> d, fill_options h)
      : into(std::move(d)), how(std::move(h)) {}

  std::vector<destination> into;
  fill_options how;
};

// A tensor that is to have memory of its own.
struct copy_request {
  copy_request(tensor f, device t, std::optional<dtype> a) : from(std::move(f)), to(t), as(a) {}

  tensor from;
  device to;
  std::optional<dtype> as;  // Empty: the same.
};

struct load_request {
  load_request() = default;
  explicit load_request(copy_request c) : copy(std::move(c)) {}
  load_request(source_name s, selection w, load_options o)
      : source(std::move(s)), wanted(std::move(w)), options(o) {}
  load_request(checkpoint c, selection w, load_options o)
      : opened(std::move(c)), wanted(std::move(w)), options(o) {}
  load_request(checkpoint c, fill_request f, selection w, load_options o)
      : opened(std::move(c)), wanted(std::move(w)), options(o), fill(std::move(f)) {}

  source_name source;
  checkpoint opened;  // Empty: the source is to be opened.
  bool independent_files = false;
  selection wanted;
  load_options options;
  std::optional<fill_request> fill;  // Empty: the loader allocates the memory.
  std::optional<copy_request> copy;  // In place of a source.
  // A part of a larger load: of these, which it has chosen, the tensors [only_first, only_last).
  std::shared_ptr<const std::vector<chosen_tensor>> chosen;
  std::uint32_t only_first = 0;
  std::uint32_t only_last = 0;
};

// A load whose manifest is `own`.
inline load_request with_listed(load_request what, const manifest* own) {
  what.options.verify.checksums = own;
  return what;
}

struct save_request {
  save_request(std::string p, std::vector<tensor_ref> t, save_options h)
      : path(std::move(p)), tensors(std::move(t)), how(std::move(h)) {}

  std::string path;
  std::vector<tensor_ref> tensors;
  save_options how;
};

}  // namespace ringload::inline v0::detail
