// SPDX-License-Identifier: Apache-2.0
#pragma once

// Queue of the landed tensors that are checked, with their expected digests. Only of() is thread
// safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/verify.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/work_list.hpp"
#include "formats/sparse_indices.hpp"

namespace ringload::inline v0::detail {

struct tensor_check {
  digest_algorithm algorithm = digest_algorithm::crc32c;
  // Memory of the manifest or the opened checkpoint. Empty if nothing is compared.
  std::span<const std::byte> digest;
  bool of_manifest = false;  // Origin of the digest: the manifest, or the file.
  std::optional<index_rule> indices;

  bool compares() const noexcept { return !digest.empty(); }
  bool needed() const noexcept { return compares() || indices; }
};

class check_queue {
 public:
  // Nothing is checked.
  check_queue() = default;
  // By tensor; empty: nothing is checked.
  explicit check_queue(std::vector<tensor_check> checks)
      : checks_(std::move(checks)), tensors_(static_cast<std::uint32_t>(checks_.size())) {}

  bool needed(std::uint32_t tensor) const noexcept {
    return !checks_.empty() && checks_[tensor].needed();
  }
  const tensor_check& of(std::uint32_t tensor) const noexcept { return checks_[tensor]; }

  // Adds a complete tensor. The caller uses prioritize() if a consumer awaits the tensor.
  void add(std::uint32_t tensor) { tensors_.add(tensor); }
  void prioritize(std::uint32_t tensor) { tensors_.prioritize(tensor); }

  std::optional<std::uint32_t> take_prioritized() { return tensors_.take_prioritized(); }
  std::optional<std::uint32_t> take_next() { return tensors_.take_next(); }
  // A check that was taken is in progress until end_check(), whatever its outcome.
  void end_check() noexcept { tensors_.done(); }
  std::uint32_t in_progress() const noexcept { return tensors_.in_progress(); }

 private:
  std::vector<tensor_check> checks_;
  work_list tensors_;
};

}  // namespace ringload::inline v0::detail
