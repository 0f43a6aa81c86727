// SPDX-License-Identifier: Apache-2.0
#pragma once

// The requests of loads and saves on their way to the engine.

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

// A class, because libstdc++ 12 assumes that a std::variant of std::string and std::vector is never
// valueless. If a copy of the variant runs out of memory, libstdc++ 12 destroys a member that does
// not exist.
struct path_list {
  std::vector<std::string> paths;
};

// The name of a checkpoint: a name, the paths of several files, or a resolved source.
using source_name = std::variant<std::string, path_list, found_source>;

// Caller memory to be filled.
struct fill_request {
  fill_request(std::vector<destination> d, fill_options h)
      : into(std::move(d)), rules(std::move(h)) {}

  std::vector<destination> into;
  fill_options rules;
};

// A tensor to be copied into its own memory.
struct copy_request {
  copy_request(tensor f, device t, std::optional<dtype> a)
      : from(std::move(f)), to(t), to_dtype(a) {}

  tensor from;
  device to;
  std::optional<dtype> to_dtype;  // Empty: the dtype of the tensor.
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
  checkpoint opened;  // Empty: the source must be opened.
  bool independent_files = false;
  selection wanted;
  load_options options;
  std::optional<fill_request> fill;  // Empty: the loader allocates the memory.
  std::optional<copy_request> copy;  // Replaces a source.
  // A part of a larger load: the tensors [only_first, only_last) of the list `chosen`.
  std::shared_ptr<const std::vector<chosen_tensor>> chosen;
  std::uint32_t only_first = 0;
  std::uint32_t only_last = 0;
};

// Returns the load with the manifest `checksums`.
inline load_request with_listed(load_request request, const manifest* checksums) {
  request.options.verify.checksums = checksums;
  return request;
}

struct save_request {
  save_request(std::string p, std::vector<tensor_ref> t, save_options h)
      : path(std::move(p)), tensors(std::move(t)), options(std::move(h)) {}

  std::string path;
  std::vector<tensor_ref> tensors;
  save_options options;
};

}  // namespace ringload::inline v0::detail
