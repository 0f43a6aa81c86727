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

/// Memory that tensors lie in, for those who register it elsewhere: for RDMA, say.
struct memory_region {
  void* data = nullptr;
  std::uint64_t bytes = 0;
  ringload::device device = host();
  /// The memfd that begins at `data`, of memory that other processes can map
  /// (`ringload/keeper.hpp`): open for reading as long as the memory lives. -1: of other memory.
  int descriptor = -1;
};

/// A handle, cheap to copy. Its functions may be called from any thread.
class RINGLOAD_EXPORT model {
 public:
  class iterator;

  /// Holds no tensors.
  model() noexcept = default;
  explicit model(std::shared_ptr<const detail::model_storage> storage) noexcept;

  /// The tensor of that name; throws `errc::no_such_tensor`.
  tensor at(std::string_view name) const;
  /// The tensor of that name, or an empty handle.
  tensor find(std::string_view name) const noexcept;

  /// The same on the device at that position of loader::devices(), where a tensor is on several of
  /// them, whole or in shards. The functions above give the one on the first of these.
  tensor at(std::string_view name, std::uint32_t device_position) const;
  tensor find(std::string_view name, std::uint32_t device_position) const noexcept;

  /// Tensors by position, in the order of (file, offset), as in `catalog().tensors`. What is on
  /// several devices is there once for each.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }
  tensor operator[](std::size_t position) const noexcept;
  iterator begin() const noexcept;
  iterator end() const noexcept;

  /// All memory that tensors lie in, padding included: a region for each allocation, or mapping of
  /// a file. Valid as long as the model; each, as long as a tensor in it.
  std::vector<memory_region> regions() const;

  /// The checkpoint's catalog. Valid as long as the model or one of its tensors.
  const ringload::catalog& catalog() const noexcept;
  /// The statistics of the load.
  const load_stats& stats() const noexcept;
  /// The same of each file, by position in `catalog().files`. Valid as long as the model.
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
  iterator(const model& of, std::size_t position) noexcept : of_(&of), position_(position) {}

  tensor operator*() const noexcept { return (*of_)[position_]; }
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
  const model* of_ = nullptr;
  std::size_t position_ = 0;
};

inline model::iterator model::begin() const noexcept { return {*this, 0}; }
inline model::iterator model::end() const noexcept { return {*this, size()}; }

}  // namespace ringload::inline v0
