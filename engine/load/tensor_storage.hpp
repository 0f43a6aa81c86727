// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tensors and the model of one load share.
//
//   loaded_tensors   the catalog, and where each tensor lies: facts
//   tensor_storage   one arena, with what its tensors are: a tensor holds this, and no other arena
//   model_storage    all arenas of a load

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/named_catalog.hpp"
#include "device/backend.hpp"
#include "plan/plan.hpp"
#include "runtime/memory_account.hpp"

namespace ringload::inline v0::detail {

class loaded_tensors {
 public:
  loaded_tensors(std::shared_ptr<const named_catalog> what, std::vector<placement> where) noexcept
      : named_(std::move(what)), where_(std::move(where)) {}

  const named_catalog& named() const noexcept { return *named_; }
  const tensor_info& info(std::uint32_t t) const noexcept { return named_->catalog().tensors[t]; }
  // After conversion; info() has the file's.
  ringload::dtype dtype(std::uint32_t t) const noexcept;
  std::span<const std::uint64_t> shape(std::uint32_t t) const noexcept;
  std::uint64_t bytes(std::uint32_t t) const noexcept;
  const placement& where(std::uint32_t t) const noexcept { return where_[t]; }

 private:
  const std::shared_ptr<const named_catalog> named_;
  const std::vector<placement> where_;
};

// An arena that a load has taken.
struct taken_arena {
  std::shared_ptr<arena> memory;  // Null: nothing lies there.
  std::uint64_t bytes = 0;
  bool mapped = false;  // From a file.
  device on = host();
  std::uint32_t position = 0;  // Of the device, among the loader's.
};

class tensor_storage {
 public:
  tensor_storage(std::shared_ptr<const loaded_tensors> what, taken_arena in,
                 std::shared_ptr<memory_account> account) noexcept
      : of_(std::move(what)),
        accounted_(std::move(account), in.bytes),
        memory_bytes_(in.bytes),
        mapped_(in.mapped),
        on_(in.on),
        position_(in.position),
        memory_(std::move(in.memory)) {}

  const loaded_tensors& of() const noexcept { return *of_; }
  std::byte* data(std::uint32_t t) const noexcept {
    return memory_->data() + of_->where(t).destination_offset;
  }
  arena& memory() const noexcept { return *memory_; }
  std::uint64_t memory_bytes() const noexcept { return memory_bytes_; }
  bool mapped() const noexcept { return mapped_; }
  device on() const noexcept { return on_; }
  std::uint32_t position() const noexcept { return position_; }

 private:
  const std::shared_ptr<const loaded_tensors> of_;
  const accounted_bytes accounted_;  // Destroyed after the memory.
  const std::uint64_t memory_bytes_;
  const bool mapped_;
  const device on_;
  const std::uint32_t position_;
  const std::shared_ptr<arena> memory_;
};

class model_storage {
 public:
  // `memory` is by destination of the plan; of a fill it is empty.
  model_storage(std::shared_ptr<const loaded_tensors> what, std::vector<taken_arena> memory,
                const memory_accounts& in);

  const loaded_tensors& of() const noexcept { return *of_; }
  tensor at(std::uint32_t t) const noexcept { return {arenas_[of_->where(t).destination], t}; }
  // The tensor of that name; on the device at that position of the loader's, or on the first.
  tensor find(std::string_view name, std::optional<std::uint32_t> on = std::nullopt) const noexcept;
  // By destination; null where nothing lies.
  std::span<const std::shared_ptr<const tensor_storage>> arenas() const noexcept { return arenas_; }
  arena& memory(std::uint32_t destination) const noexcept { return arenas_[destination]->memory(); }
  bool mapped(std::uint32_t destination) const noexcept { return arenas_[destination]->mapped(); }

  // Written once, before the first model is handed out.
  load_stats stats;
  std::vector<file_stats> stats_of_files;

 private:
  const std::shared_ptr<const loaded_tensors> of_;
  std::vector<std::shared_ptr<const tensor_storage>> arenas_;
};

}  // namespace ringload::inline v0::detail
