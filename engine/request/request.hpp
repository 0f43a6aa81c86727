// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/fill.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/source.hpp>
#include <ringload/tensor.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "catalog/source_name.hpp"

namespace ringload::inline v0 {
struct chosen_tensor;
}

namespace ringload::inline v0::detail {

// Loads tensors into memory of the caller.
struct fill_request {
  fill_request(std::vector<destination> d, fill_options h)
      : into(std::move(d)), rules(std::move(h)) {}

  std::vector<destination> into;
  fill_options rules;
};

// Copies a tensor into new memory.
struct copy_request {
  copy_request(tensor f, device t, std::optional<dtype> a)
      : from(std::move(f)), to(t), to_dtype(a) {}

  tensor from;
  device to;
  std::optional<dtype> to_dtype;  // Empty means the dtype of the tensor.
};

struct load_request {
  load_request() = default;
  explicit load_request(copy_request c) : copy(std::move(c)) {}
  load_request(const ringload::source& s, load_options o)
      : source(s.parts().name), opened(s.parts().opened), options(std::move(o)) {}
  load_request(const ringload::source& s, fill_request f)
      : load_request(s, std::move(f.rules.load)) {
    fill = std::move(f);
  }

  source_name source;
  checkpoint opened;  // If empty, the source must be opened.
  load_options options;
  // The memory limit of a tensor stream. 0 if the request starts no tensor stream.
  std::uint64_t window_bytes = 0;
  std::optional<fill_request> fill;  // If empty, the loader allocates the memory of the tensors.
  std::optional<copy_request> copy;  // If set, the request copies a tensor and has no source.
  // Set if the request is a part of a larger load. The request loads only the tensors
  // [chosen_begin, chosen_end) of the list `chosen`.
  std::shared_ptr<const std::vector<chosen_tensor>> chosen;
  std::uint32_t chosen_begin = 0;
  std::uint32_t chosen_end = 0;
};

inline load_request with_checksum_list(load_request request, const checksum_list* checksums) {
  request.options.verify.checksums = checksums;
  return request;
}

// Returns the name of the source for error texts.
inline std::string shown(const load_request& request) {
  if (request.copy) return tensor_place(request.copy->from.name());
  return request.opened ? request.opened.opened()->name : shown(request.source);
}

struct save_request {
  save_request(std::string p, std::vector<tensor_ref> t, save_options h)
      : path(std::move(p)), tensors(std::move(t)), options(std::move(h)) {}

  std::string path;
  std::vector<tensor_ref> tensors;
  save_options options;
};

}  // namespace ringload::inline v0::detail
