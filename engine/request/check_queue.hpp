// SPDX-License-Identifier: Apache-2.0
#pragma once

// A queue of the tensors whose digest or indices must be checked. All functions except check_of()
// must be called in the engine thread.

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
  // The expected digest. Empty if no digest is compared. The checksum list or the opened checkpoint
  // owns the bytes.
  std::span<const std::byte> digest;
  // True if `digest` is from the checksum list. False if `digest` is from the file.
  bool from_list = false;
  std::optional<index_rule> indices;

  bool has_digest() const noexcept { return !digest.empty(); }
  bool needed() const noexcept { return has_digest() || indices; }
};

class check_queue {
 public:
  check_queue() = default;
  // `checks` is indexed by tensor. If `checks` is empty, no tensor is checked.
  explicit check_queue(std::vector<tensor_check> checks)
      : checks_(std::move(checks)), tensors_(static_cast<std::uint32_t>(checks_.size())) {}

  bool needed(std::uint32_t tensor) const noexcept {
    return !checks_.empty() && checks_[tensor].needed();
  }
  const tensor_check& check_of(std::uint32_t tensor) const noexcept { return checks_[tensor]; }

  // Adds a tensor whose bytes are all loaded. If an operation waits for the tensor, the caller must
  // call prioritize() instead of add().
  void add(std::uint32_t tensor) { tensors_.add(tensor); }
  void prioritize(std::uint32_t tensor) { tensors_.prioritize(tensor); }

  std::optional<std::uint32_t> take_prioritized() { return tensors_.take_prioritized(); }
  std::optional<std::uint32_t> take_next() { return tensors_.take_next(); }
  // Must be called at the end of each check that was taken from the queue. Until this call, the
  // check counts as in progress.
  void end_check() noexcept { tensors_.done(); }
  std::uint32_t in_progress() const noexcept { return tensors_.in_progress(); }

 private:
  std::vector<tensor_check> checks_;
  work_list tensors_;
};

}  // namespace ringload::inline v0::detail
