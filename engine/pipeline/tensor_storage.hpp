// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tensors and the model of one load share: catalog, placements, and the memory.

#include <cstdint>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/stats.hpp>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "pipeline/memory_account.hpp"
#include "pipeline/named_catalog.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class tensor_storage {
 public:
  tensor_storage(std::shared_ptr<const named_catalog> what, std::vector<placement> where,
                 std::shared_ptr<arena> memory, std::uint64_t memory_bytes, device on,
                 std::shared_ptr<memory_account> account) noexcept
      : named_(std::move(what)),
        where_(std::move(where)),
        memory_bytes_(memory ? memory_bytes : 0),
        accounted_(memory ? std::move(account) : nullptr, memory_bytes),
        memory_(std::move(memory)),
        on_(on) {}

  const named_catalog& named() const noexcept { return *named_; }
  const tensor_info& info(std::uint32_t t) const noexcept { return named_->catalog().tensors[t]; }
  // After conversion; info() has the file's.
  ringload::dtype dtype(std::uint32_t t) const noexcept;
  std::span<const std::uint64_t> shape(std::uint32_t t) const noexcept;
  std::uint64_t bytes(std::uint32_t t) const noexcept;
  const placement& where(std::uint32_t t) const noexcept { return where_[t]; }
  std::byte* data(std::uint32_t t) const noexcept {
    return memory_->data() + where_[t].destination_offset;
  }
  arena& memory() const noexcept { return *memory_; }
  std::uint64_t memory_bytes() const noexcept { return memory_bytes_; }
  bool has_memory() const noexcept { return memory_ != nullptr; }
  device on() const noexcept { return on_; }

  // Written once, before the first model is handed out.
  load_stats stats;

 private:
  const std::shared_ptr<const named_catalog> named_;
  const std::vector<placement> where_;
  const std::uint64_t memory_bytes_;
  const accounted_bytes accounted_;      // Destroyed after the memory.
  const std::shared_ptr<arena> memory_;  // Null, of a fill.
  const device on_;
};

}  // namespace ringload::inline v0::detail
