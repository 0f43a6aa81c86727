// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which tensors of a load are to be hashed, and the digests that they must have. Not thread safe,
// but for expected().

#include <cstdint>
#include <optional>
#include <ringload/verify.hpp>
#include <utility>
#include <vector>

#include "pipeline/work_list.hpp"

namespace ringload::inline v0::detail {

class tensor_checks {
 public:
  // Nothing is checked.
  tensor_checks() = default;
  // By tensor; whoever owns the manifest owns the digests. Empty: nothing is checked.
  explicit tensor_checks(std::vector<const tensor_digest*> expected)
      : expected_(std::move(expected)), tensors_(static_cast<std::uint32_t>(expected_.size())) {}

  bool enabled() const noexcept { return !expected_.empty(); }
  const tensor_digest& expected(std::uint32_t tensor) const noexcept { return *expected_[tensor]; }

  // The tensor has all its bytes; prioritize() where somebody awaits it.
  void add(std::uint32_t tensor) { tensors_.add(tensor); }
  void prioritize(std::uint32_t tensor) { tensors_.prioritize(tensor); }

  std::optional<std::uint32_t> take_prioritized() { return tensors_.take_prioritized(); }
  std::optional<std::uint32_t> take_next() { return tensors_.take_next(); }
  // A check that was taken is in progress until end_check(), whatever its outcome.
  void end_check() noexcept { tensors_.done(); }
  std::uint32_t in_progress() const noexcept { return tensors_.in_progress(); }

 private:
  std::vector<const tensor_digest*> expected_;
  work_list tensors_;
};

}  // namespace ringload::inline v0::detail
