// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state that the tensors and the model of one load share:
//
//   loaded_tensors   the catalog and the placement of each tensor; constant
//   tensor_storage   one arena (allocation) with its tensors; a tensor keeps no other arena alive
//   model_storage    all arenas of a load

#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/model.hpp>
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
  loaded_tensors(std::shared_ptr<const named_catalog> catalog,
                 std::vector<placement> placements) noexcept
      : named_(std::move(catalog)), where_(std::move(placements)) {}

  const named_catalog& named() const noexcept { return *named_; }
  const tensor_info& info(std::uint32_t t) const noexcept { return named_->catalog().tensors[t]; }
  // The dtype, shape and size after conversion. info() returns the values before conversion.
  ringload::dtype dtype(std::uint32_t t) const noexcept;
  std::span<const std::uint64_t> shape(std::uint32_t t) const noexcept;
  std::uint64_t bytes(std::uint32_t t) const noexcept;
  const placement& where(std::uint32_t t) const noexcept { return where_[t]; }

 private:
  const std::shared_ptr<const named_catalog> named_;
  const std::vector<placement> where_;
};

struct taken_arena {
  std::shared_ptr<arena> memory;  // Null if the arena has no tensor.
  std::uint64_t bytes = 0;
  bool mapped = false;  // True if the memory is mapped from a file.
  device on = host();
  std::uint32_t position = 0;  // Index of `on` in the loader's list of devices.
  // True if another model also owns the memory. In this case, only the other model counts the
  // bytes.
  bool is_shared = false;
};

// Returns a pointer to the same arena. `account` counts the bytes until the arena is freed. If
// `account` is null, returns `memory`.
std::shared_ptr<arena> count_memory(std::shared_ptr<arena> memory, std::uint64_t bytes,
                                    std::shared_ptr<memory_account> account);

class tensor_storage {
 public:
  tensor_storage(std::shared_ptr<const loaded_tensors> tensors, taken_arena taken,
                 std::shared_ptr<memory_account> account)
      : tensors_(std::move(tensors)),
        memory_bytes_(taken.bytes),
        mapped_(taken.mapped),
        on_(taken.on),
        position_(taken.position),
        memory_(count_memory(std::move(taken.memory), taken.bytes, std::move(account))) {}

  const loaded_tensors& tensors() const noexcept { return *tensors_; }
  std::byte* data(std::uint32_t t) const noexcept {
    return memory_->data() + tensors_->where(t).destination_offset;
  }
  arena& memory() const noexcept { return *memory_; }
  // The returned pointer keeps the arena and its account alive, but not this storage and its
  // catalog.
  const std::shared_ptr<arena>& shared_memory() const noexcept { return memory_; }
  std::uint64_t memory_bytes() const noexcept { return memory_bytes_; }
  bool mapped() const noexcept { return mapped_; }
  device on() const noexcept { return on_; }
  std::uint32_t position() const noexcept { return position_; }

 private:
  const std::shared_ptr<const loaded_tensors> tensors_;
  const std::uint64_t memory_bytes_;
  const bool mapped_;
  const device on_;
  const std::uint32_t position_;
  const std::shared_ptr<arena> memory_;
};

class model_storage {
 public:
  // `memory` is indexed by destination of the plan, and is empty for a fill.
  model_storage(std::shared_ptr<const loaded_tensors> tensors, std::vector<taken_arena> memory,
                const memory_accounts& accounts);

  const loaded_tensors& tensors() const noexcept { return *tensors_; }
  tensor tensor_at(std::uint32_t t) const noexcept {
    return {arenas_[tensors_->where(t).destination], t};
  }
  // Returns the tensor with this name on the device at position `on` of the loader's devices.
  // Without `on`, returns the first tensor with this name.
  tensor find(std::string_view name, std::optional<std::uint32_t> on = std::nullopt) const noexcept;
  // Indexed by destination. Null if the destination has no tensor.
  std::span<const std::shared_ptr<const tensor_storage>> arenas() const noexcept { return arenas_; }
  arena& memory(std::uint32_t destination) const noexcept { return arenas_[destination]->memory(); }
  bool mapped(std::uint32_t destination) const noexcept { return arenas_[destination]->mapped(); }

  // These members are written once, before the caller receives a model.
  kept_version version;  // Set only for models that a keeper holds in its memory.
  // The version that the index of the last applied delta states. Empty if the model is not the
  // result of a delta with an index.
  std::string delta_identity;
  load_stats stats;
  std::vector<file_stats> stats_of_files;

 private:
  const std::shared_ptr<const loaded_tensors> tensors_;
  std::vector<std::shared_ptr<const tensor_storage>> arenas_;
};

std::shared_ptr<model_storage> make_model_storage(catalog contents,
                                                  std::vector<placement> placements,
                                                  std::vector<taken_arena> memory,
                                                  const memory_accounts& accounts = {});

}  // namespace ringload::inline v0::detail
