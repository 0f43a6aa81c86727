// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that other processes can map: a memfd. Its creator writes it and then seals it. After
// that, no process can write, shrink, grow or punch it through any descriptor or mapping, and a
// process that receives the descriptor can check this.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "base/mapping.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class shared_memory {
 public:
  // Creates zeroed, unpopulated memory of whole pages, aligned to 2 MiB from that size on.
  // `hugetlb` fails if too few reserved pages are free.
  static result<shared_memory> make(std::uint64_t bytes, page_kind kind);

  // Maps all memory of another process for reading. Fails if the memory is not sealed, is empty or
  // has more than `bytes_max` bytes.
  static result<shared_memory> open_sealed(unique_fd memory, std::uint64_t bytes_max);

  // Makes the memory read-only at the same addresses. Must be called once. A thread that writes to
  // the memory during or after this call causes an access violation.
  result<void> seal();

  std::span<std::byte> span() const noexcept { return memory_.span(); }
  // Open for reading only.
  int descriptor() const noexcept { return reading_.get(); }

  void note_in(const allocation_log& log) noexcept { memory_.note_in(log); }

 private:
  mapping memory_;
  unique_fd writing_;  // Closed by seal().
  unique_fd reading_;
};

}  // namespace ringload::inline v0
