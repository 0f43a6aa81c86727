// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that other processes can map (a memfd). A process creates the memory, writes the content,
// and then seals the memory. Afterwards, no process can write to, shrink or grow the memory, or
// punch holes into the memory. A process that receives the descriptor can check the seal.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "base/mapping.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

class shared_memory {
 public:
  // Creates zeroed memory of whole pages without populating the pages. Memory of 2 MiB or more is
  // aligned to 2 MiB. Fails for `hugetlb` if too few reserved pages are free.
  static result<shared_memory> make(std::uint64_t bytes, page_kind kind);

  // Maps the memory of the descriptor for reading. Fails if the memory is not sealed, is empty, or
  // has more than `bytes_max` bytes.
  static result<shared_memory> open_sealed(unique_fd memory, std::uint64_t bytes_max);

  // Makes the memory read-only at the same addresses. The caller must call seal() only once. No
  // thread may write to the memory during or after this call: the write can be an access violation.
  result<void> seal();

  std::span<std::byte> span() const noexcept { return memory_.span(); }
  // Returns a descriptor that is open only for reading.
  int descriptor() const noexcept { return reading_.get(); }

  mapping& mapped() noexcept { return memory_; }

  void note_in(const allocation_log& log) noexcept { memory_.note_in(log); }

 private:
  mapping memory_;
  unique_fd writing_;  // Closed by seal().
  unique_fd reading_;
};

}  // namespace ringload::inline v0
