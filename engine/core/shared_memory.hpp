// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that other processes can map: a memfd. Its first owner writes it and then seals it. From
// then on nobody can write, shrink, grow or punch it, by whatever descriptor or mapping, and who is
// given the descriptor can check that this is so.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/fault.hpp"
#include "core/mapping.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

class shared_memory {
 public:
  // Zeroed memory, not populated, of whole pages, 2 MiB aligned from that size on. `hugetlb` fails
  // where too few such pages are reserved and free.
  static result<shared_memory> make(std::uint64_t bytes, page_kind kind);

  // Maps memory of another process, all of it, for reading. A fault where it is not sealed, or has
  // more than `bytes_max` bytes, or none.
  static result<shared_memory> open_sealed(unique_fd memory, std::uint64_t bytes_max);

  // No thread may write to it while this runs, or later: that is an access violation. Addresses
  // stay as they are. Once.
  result<void> seal();

  std::span<std::byte> span() const noexcept { return memory_.span(); }
  // Open for reading.
  int descriptor() const noexcept { return reading_.get(); }

  void note_in(const allocation_log& log) noexcept { memory_.note_in(log); }

 private:
  mapping memory_;
  unique_fd writing_;  // Closed once it is sealed.
  unique_fd reading_;
};

}  // namespace ringload::inline v0
