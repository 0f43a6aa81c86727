// SPDX-License-Identifier: Apache-2.0
#pragma once

// Limits the memory for names, shapes and metadata, because a small file can describe many items.

#include <cstddef>
#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// With `strictness::strict`, the limit is the size of the files plus `description_bytes_max`. With
// `strictness::reference`, there is no limit. A parser must call take_...() for each item, and must
// fail if the function returns false. The formulas for the cost of an item come from measurements
// of the peak memory that the item needs while a file is opened.
class description_budget {
 public:
  explicit description_budget(strictness strictness) noexcept : strictness_(strictness) {}
  description_budget(strictness strictness, std::uint64_t file_bytes) noexcept
      : strictness_(strictness), file_bytes_(file_bytes) {}

  void add_file(std::uint64_t file_bytes) noexcept { file_bytes_ += file_bytes; }

  bool take_tensor(std::size_t name_bytes, std::size_t rank) noexcept {
    return take(tensor_bytes + 2 * name_bytes + 4 * rank * sizeof(std::uint64_t));
  }
  // Takes the cost of a `piece`, which a tensor needs in addition to take_tensor().
  bool take_piece(std::size_t rank) noexcept {
    return take(piece_bytes + 3 * rank * sizeof(std::uint64_t));
  }
  bool take_attribute(std::size_t key_bytes, std::size_t value_bytes) noexcept {
    return take(attribute_bytes + 2 * key_bytes + 3 * value_bytes);
  }
  bool take_unreadable(std::size_t name_bytes) noexcept {
    return take(unreadable_bytes + 4 * name_bytes);
  }
  // Takes the cost of all items in `entries`. Returns false if the limit is exceeded.
  bool take(const file_entries& entries) noexcept;

  // Returns the cause for a fault with the code errc::header_too_large.
  std::string cause() const;

 private:
  static constexpr std::uint64_t tensor_bytes = 512;
  static constexpr std::uint64_t piece_bytes = 320;
  static constexpr std::uint64_t attribute_bytes = 256;
  static constexpr std::uint64_t unreadable_bytes = 768;

  std::uint64_t limit() const noexcept { return file_bytes_ + description_bytes_max; }
  bool take(std::uint64_t bytes) noexcept {
    taken_ += bytes;
    return strictness_ == strictness::reference || taken_ <= limit();
  }
  bool take(const attributes& pairs) noexcept;

  strictness strictness_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace ringload::inline v0
