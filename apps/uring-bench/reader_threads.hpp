// SPDX-License-Identifier: Apache-2.0
#pragma once

// The threads of a run. Each thread prepares, waits for the start, and reads until the supply ends.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "block_supply.hpp"
#include "config.hpp"
#include "target.hpp"

namespace ringload::bench {

/// The data that all threads of a run share.
struct course {
  const target& source;
  const cell& config;
  supply& blocks;
  // Set before prepare(), or before the start if the memory is `fresh`.
  std::byte* memory = nullptr;
  std::uint64_t memory_bytes = 0;

  /// Returns the memory for a block: the slot `slot`, or the block's own place in the memory.
  std::byte* place(const block& one, std::uint64_t slot) const noexcept {
    const std::uint64_t number = config.into == destination::slots ? slot : one.place;
    return memory + number * config.block_bytes;
  }
};

class team_member {
 public:
  virtual ~team_member() = default;
  /// Called in the reading thread, before the clock starts.
  virtual void prepare() {}
  /// Must return or throw only when no read is in flight.
  virtual void read() = 0;

  measurement measured;
};

/// `index` is the number of the thread in the run. `on` must outlive the member.
std::unique_ptr<team_member> make_ring_member(const course& on, std::uint32_t index);
std::unique_ptr<team_member> make_pread_member(const course& on, std::uint32_t index);
std::unique_ptr<team_member> make_mmap_member(const course& on, std::uint32_t index);

/// Returns the number of bytes to request. Direct reads request whole blocks of the drive.
std::uint32_t bytes_to_ask(const cell& config, std::uint32_t bytes) noexcept;

/// Returns the number of received bytes that need not be requested again.
std::uint32_t resumed_from(const cell& config, std::uint32_t arrived) noexcept;

[[noreturn]] void fail_read(const target& source, const block& one, std::uint32_t arrived, int res);

}  // namespace ringload::bench
