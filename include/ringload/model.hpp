// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint whose tensors are all loaded.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

namespace detail {
class model_storage;
}

/// Memory of tensors, for registration with other libraries such as RDMA.
struct memory_region {
  void* data = nullptr;
  std::uint64_t bytes = 0;
  ringload::device device = host();
  /// The memfd that begins at `data`, if other processes can map the memory
  /// (`ringload/keeper.hpp`). The descriptor is open for reading as long as the memory lives. -1:
  /// other memory.
  int descriptor = -1;
};

/// A handle, cheap to copy. Its functions may be called from any thread.
class RINGLOAD_EXPORT model {
 public:
  class iterator;

  /// An empty handle without tensors.
  model() noexcept = default;
  explicit model(std::shared_ptr<const detail::model_storage> storage) noexcept;

  /// Returns the tensor `name`, or throws `errc::no_such_tensor`.
  tensor at(std::string_view name) const;
  /// Returns the tensor `name`, or an empty handle.
  tensor find(std::string_view name) const noexcept;

  /// Returns the tensor on the device at `device_position` of loader::devices(), for tensors that
  /// are on several devices, whole or in shards. The functions above return the tensor on the first
  /// of its devices.
  tensor at(std::string_view name, std::uint32_t device_position) const;
  tensor find(std::string_view name, std::uint32_t device_position) const noexcept;

  /// Tensors by position, in the order of (file, offset), as in `catalog().tensors`. A tensor on
  /// several devices appears once for each device.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  tensor operator[](std::size_t position) const noexcept;
  iterator begin() const noexcept;
  iterator end() const noexcept;

  /// Returns all tensor memory, padding included: one region for each allocation or file mapping.
  /// The list is valid as long as the model. A region is valid as long as a tensor in it.
  std::vector<memory_region> regions() const;

  /// The checkpoint's catalog. Valid as long as the model or one of its tensors.
  const ringload::catalog& catalog() const noexcept;
  /// The statistics of the load.
  const load_stats& stats() const noexcept;
  /// The statistics of each file, by position in `catalog().files`. Valid as long as the model.
  const std::vector<file_stats>& stats_of_files() const noexcept;

  const std::shared_ptr<const detail::model_storage>& storage() const noexcept { return storage_; }

 private:
  std::shared_ptr<const detail::model_storage> storage_;
};

/// Iterates over the tensors of a model, which must outlive it.
class model::iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = tensor;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = tensor;

  iterator() noexcept = default;
  iterator(const model& owner, std::size_t position) noexcept
      : owner_(&owner), position_(position) {}

  tensor operator*() const noexcept { return (*owner_)[position_]; }
  iterator& operator++() noexcept {
    ++position_;
    return *this;
  }
  iterator operator++(int) noexcept {
    iterator before = *this;
    ++position_;
    return before;
  }
  friend bool operator==(const iterator& a, const iterator& b) noexcept {
    return a.position_ == b.position_;
  }

 private:
  const model* owner_ = nullptr;
  std::size_t position_ = 0;
};

inline model::iterator model::begin() const noexcept { return {*this, 0}; }
inline model::iterator model::end() const noexcept { return {*this, size()}; }

}  // namespace ringload::inline v0
