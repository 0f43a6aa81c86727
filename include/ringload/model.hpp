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

/// A region of memory with tensors, for registration with another library, such as a library for
/// RDMA.
struct memory_region {
  void* data = nullptr;     // The first byte of the region.
  std::uint64_t bytes = 0;  // The size of the region.
  /// The device of the memory.
  ringload::device device = host();
  /// The descriptor of the memfd that contains the region, or -1 if the region is not in a memfd.
  /// Host memory that a keeper can publish is in memfds (`ringload/keeper.hpp`). The region starts
  /// at offset 0 of the memfd. The descriptor is open only for reading, and stays open as long as
  /// the memory exists.
  int descriptor = -1;
};

/// The version of a model that a keeper has published (`ringload/keeper.hpp`). The name and the
/// version together identify the model. Two models with equal names have different versions, even
/// if different keepers have published the models. Two models with different names may have equal
/// versions.
struct kept_version {
  std::uint64_t keeper = 0;  // A random number of the keeper. 0 means no version.
  std::uint64_t number = 0;  // 1 for the first model of its name, plus 1 for each later model.

  /// Returns true if both versions are equal.
  friend bool operator==(const kept_version&, const kept_version&) = default;
};

/// A handle to all tensors of a load, cheap to copy. All functions are thread-safe.
class RINGLOAD_EXPORT model {
 public:
  class iterator;

  /// Creates an empty handle without tensors.
  model() noexcept = default;
  /// Internal: called by the library only.
  explicit model(std::shared_ptr<const detail::model_storage> storage) noexcept;

  /// Returns the tensor `name`. Throws `errc::no_such_tensor` if the model does not have the
  /// tensor.
  tensor at(std::string_view name) const;
  /// Returns the tensor `name`, or an empty handle if the model does not have the tensor.
  tensor find(std::string_view name) const noexcept;

  /// Returns the tensor `name` on one device. `device_position` is the index in loader::devices().
  /// Throws `errc::no_such_tensor` if the tensor is not on this device. If a tensor is on several
  /// devices, as a whole or in shards, the functions without this parameter return the tensor on
  /// the first of its devices.
  tensor at(std::string_view name, std::uint32_t device_position) const;
  /// Returns the tensor `name` on one device, or an empty handle if the tensor is not on this
  /// device.
  tensor find(std::string_view name, std::uint32_t device_position) const noexcept;

  /// Returns the number of tensors. The tensors are sorted by file and offset, as in
  /// `catalog().tensors`. A tensor on several devices counts once for each device.
  std::size_t size() const noexcept;
  /// Returns true if the model has no tensors.
  bool empty() const noexcept { return size() == 0; }
  /// Returns a tensor by its position in this order. The position must be less than size().
  tensor operator[](std::size_t position) const noexcept;
  /// Returns an iterator to the tensor at position 0.
  iterator begin() const noexcept;
  /// Returns the iterator behind the last tensor.
  iterator end() const noexcept;

  /// Returns all memory of the tensors, including padding. Each allocation is one region, and each
  /// mapping of a file is one region. A region is valid as long as the model or a tensor in the
  /// region exists.
  std::vector<memory_region> regions() const;

  /// Returns the catalog of the checkpoint. The reference is valid as long as the model or one of
  /// its tensors exists.
  const ringload::catalog& catalog() const noexcept;
  /// Returns the statistics of the load.
  const load_stats& stats() const noexcept;
  /// Returns the statistics of each file, in the order of `catalog().files`. The reference is valid
  /// as long as the model exists.
  const std::vector<file_stats>& stats_of_files() const noexcept;

  /// Internal: called by the library only.
  const std::shared_ptr<const detail::model_storage>& storage() const noexcept { return storage_; }

 private:
  std::shared_ptr<const detail::model_storage> storage_;
};

/// Iterates over the tensors of a model. The model must outlive the iterator.
class model::iterator {
 public:
  /// Dereferencing creates a handle, so the iterator is an input iterator.
  using iterator_category = std::input_iterator_tag;
  /// A handle to a tensor.
  using value_type = tensor;
  /// The difference of two positions.
  using difference_type = std::ptrdiff_t;
  /// The iterator has no operator->.
  using pointer = void;
  /// operator* returns a handle by value.
  using reference = tensor;

  /// Creates an iterator that may only be assigned to or destroyed.
  iterator() noexcept = default;
  /// Creates an iterator to the tensor at the position `position` of the model `owner`.
  iterator(const model& owner, std::size_t position) noexcept
      : owner_(&owner), position_(position) {}

  /// Returns a handle to the tensor at the position.
  tensor operator*() const noexcept { return (*owner_)[position_]; }
  /// Moves to the next position.
  iterator& operator++() noexcept {
    ++position_;
    return *this;
  }
  /// Moves to the next position, and returns the iterator of the previous position.
  iterator operator++(int) noexcept {
    iterator before = *this;
    ++position_;
    return before;
  }
  /// Compares positions. Both iterators must belong to the same model.
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
