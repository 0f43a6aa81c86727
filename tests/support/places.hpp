// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory for all tensors of a checkpoint with guards around each tensor, and the expected bytes.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <ringload/checkpoint.hpp>
#include <ringload/fill.hpp>
#include <ringload/model.hpp>
#include <string>
#include <vector>

#include "support/guarded_memory.hpp"
#include "support/made_checkpoint.hpp"

namespace ringload::testing {

// The bytes in the file of a tensor without an encoding.
inline std::string stored_bytes(const checkpoint& from, const std::string& name) {
  const tensor_info& info = from.at(name);
  return file_bytes(from.catalog().files[info.file].path, info.offset, info.bytes);
}

class places {
 public:
  // For tensors without an encoding.
  explicit places(const checkpoint& from, std::size_t misalignment = 0) {
    for (const tensor_info& t : from) {
      add(t.name, t.dtype, t.shape, stored_bytes(from, t.name), misalignment);
    }
  }
  // For any tensors, which were loaded before.
  explicit places(const model& from, std::size_t misalignment = 0) {
    for (const tensor& t : from) {
      add(std::string(t.name()), t.dtype(), {t.shape().begin(), t.shape().end()},
          std::string(bytes_of(t)), misalignment);
    }
  }

  const std::vector<destination>& into() const { return into_; }
  bool untouched() const { return std::ranges::all_of(all_, &guarded_memory::as_expected); }
  // Returns true if the guards are unchanged.
  bool guards_are_whole() const {
    return std::ranges::all_of(all_, &guarded_memory::guards_are_whole);
  }
  // Returns true if the tensor has the bytes of the file, and its guards are unchanged.
  bool whole(std::size_t i) {
    all_[i].expect(0, bytes_[i]);
    return all_[i].as_expected();
  }
  bool whole(const std::string& name) {
    for (std::size_t i = 0; i < into_.size(); ++i) {
      if (into_[i].name == name) return whole(i);
    }
    return false;
  }
  bool all_whole() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!whole(i)) return false;
    }
    return true;
  }

 private:
  void add(const std::string& name, dtype type, std::vector<std::uint64_t> shape, std::string bytes,
           std::size_t misalignment) {
    guarded_memory& memory = all_.emplace_back(bytes.size(), misalignment);
    into_.emplace_back(name, memory.data(), type, std::move(shape));
    bytes_.push_back(std::move(bytes));
  }

  std::deque<guarded_memory> all_;
  std::vector<destination> into_;
  std::vector<std::string> bytes_;
};

}  // namespace ringload::testing
