// SPDX-License-Identifier: Apache-2.0
#pragma once

// The threads of a run: each prepares, waits for the start, and reads until the supply ends.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "block_supply.hpp"
#include "config.hpp"
#include "target.hpp"

namespace ringload::bench {

/// What all threads of a run share.
struct course {
  const target& of;
  const cell& what;
  supply& blocks;
  std::byte* memory = nullptr;  // Set before the start; before prepare() unless it is `fresh`.
  std::uint64_t memory_bytes = 0;

  /// Where a block lands: in its own place, or in the slot that is free.
  std::byte* place(const block& one, std::uint64_t slot) const noexcept {
    const std::uint64_t number = what.into == destination::slots ? slot : one.place;
    return memory + number * what.block_bytes;
  }
};

class team_member {
 public:
  virtual ~team_member() = default;
  /// In the thread that will read, before the clock starts.
  virtual void prepare() {}
  /// Nothing is in flight when it returns, or throws.
  virtual void read() = 0;

  measurement found;
};

/// `index` counts the threads of a run. All refer to `on`, which outlives them.
std::unique_ptr<team_member> make_ring_member(const course& on, std::uint32_t index);
std::unique_ptr<team_member> make_pread_member(const course& on, std::uint32_t index);
std::unique_ptr<team_member> make_mmap_member(const course& on, std::uint32_t index);

/// What a read of a block asks for: for direct reads, whole blocks of the drive.
std::uint32_t bytes_to_ask(const cell& what, std::uint32_t bytes) noexcept;

/// How much of what has arrived counts when the rest is asked for.
std::uint32_t resumed_from(const cell& what, std::uint32_t arrived) noexcept;

[[noreturn]] void fail_read(const target& of, const block& one, std::uint32_t arrived, int res);

}  // namespace ringload::bench
