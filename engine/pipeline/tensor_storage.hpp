// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tensors and the model of one load share: catalog, placements, and the memory.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/stats.hpp>
#include <string_view>
#include <vector>

#include "device/backend.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

// An immutable catalog with a lookup by name. Any thread.
class named_catalog {
 public:
  explicit named_catalog(ringload::catalog what)
      : catalog_(std::move(what)), by_name_(catalog_.tensors.size()) {}

  const ringload::catalog& catalog() const noexcept { return catalog_; }
  // The first call sorts the names.
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;

 private:
  const ringload::catalog catalog_;
  mutable std::once_flag sorted_;
  mutable std::vector<std::uint32_t> by_name_;  // Written under sorted_.
};

class tensor_storage {
 public:
  tensor_storage(std::shared_ptr<const named_catalog> what, std::vector<placement> where,
                 std::shared_ptr<arena> memory, device on) noexcept
      : named_(std::move(what)), where_(std::move(where)), memory_(std::move(memory)), on_(on) {}

  const named_catalog& named() const noexcept { return *named_; }
  const tensor_info& info(std::uint32_t t) const noexcept { return named_->catalog().tensors[t]; }
  // After conversion; info() has the file's.
  ringload::dtype dtype(std::uint32_t t) const noexcept;
  std::uint64_t bytes(std::uint32_t t) const noexcept;
  const placement& where(std::uint32_t t) const noexcept { return where_[t]; }
  std::byte* data(std::uint32_t t) const noexcept {
    return memory_->data() + where_[t].destination_offset;
  }
  arena& memory() const noexcept { return *memory_; }
  device on() const noexcept { return on_; }

  // Written once, before the first model is handed out.
  load_stats stats;

 private:
  const std::shared_ptr<const named_catalog> named_;
  const std::vector<placement> where_;
  const std::shared_ptr<arena> memory_;
  const device on_;
};

}  // namespace ringload::inline v0::detail
