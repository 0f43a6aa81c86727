// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a loader may use, and what a load is asked to do. All of these are trivially destructible on
// purpose: g++ 12 destroys other aggregates twice when they are named inside a co_await expression.

#include <cstdint>
#include <limits>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>
#include <ringload/verify.hpp>

namespace ringload::inline v0 {

/// What reads the files.
enum class read_engine : std::uint8_t {
  automatic,  // io_uring if this machine lets us, else threads. `load_stats` says which, and why.
  ring,       // io_uring, or the loader's constructor throws `errc::engine_unavailable`.
  threads,    // A pool of threads that call pread.
};

/// How the bytes of a file reach us.
enum class read_route : std::uint8_t {
  automatic,  // Chunk by chunk: buffered where the page cache has it already, else direct.
  direct,     // O_DIRECT for every byte, or the load fails with `errc::direct_unavailable`.
  buffered,   // Through the page cache.
};

/// The pages that memory of the host lies on. Those that an administrator has reserved
/// (`vm.nr_hugepages`) were meant for somebody, a database or DPDK, so they are taken only if asked
/// for.
enum class huge_pages : std::uint8_t {
  transparent,  // Huge ones where the kernel has some; never reserved ones.
  reserved,     // Slots on reserved ones of 2 MiB, else as `transparent`; `load_stats` says why.
                // Tensors as `transparent`.
  none,         // Small ones only.
};

/// What a drive is given at once to begin with, where `limits::bytes_in_flight` is left to the
/// loader.
inline constexpr std::uint64_t bytes_in_flight_at_first = std::uint64_t{32} << 20;

/// What a loader may hold at any one time, however large the checkpoints are.
struct limits {
  /// Pinned buffers, each read by one worker at a time: 1 to 1,024. A slot's memory is taken when
  /// it is first needed, and kept until the loader goes.
  std::uint32_t slots = 16;
  /// The size of one slot, and so of the largest read: a power of two, 64 KiB to 64 MiB.
  /// `slots * slot_bytes` is all the memory that a loader ever pins.
  std::uint64_t slot_bytes = std::uint64_t{4} << 20;
  /// Reads that the drive works on at once, in bytes: direct ones by io_uring, of all loads
  /// together. What the page cache has, and what threads read in its place, are bounded by
  /// `copy_threads` and `reader_threads`. More than the drive needs costs latency, and on some
  /// drives throughput. At least one read is always allowed. 0: found while it works, between two
  /// slots and all of them; more while that brings more, fewer while it costs nothing.
  std::uint64_t bytes_in_flight = 0;
  /// The largest memory that the tensors of one load may take on the device.
  std::uint64_t arena_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// Memory of tensors that nobody has any more, kept for the next loads up to this much in all: a
  /// load takes what has enough, and at most a quarter too much. It is then not zeroed, so what
  /// lies between two tensors may be of an earlier one. New memory costs time: the kernel zeroes
  /// the host's, and a GPU comes to rest before it gives some back. 0: all is given back at once.
  std::uint64_t kept_bytes = 0;
  /// Threads that copy what the page cache already has, and make host memory ready: 1 to 64. More
  /// than two are worth it even where there are two processors.
  std::uint32_t copy_threads = 3;
  /// Threads that read in place of io_uring, where there is none: 1 to 64.
  std::uint32_t reader_threads = 8;
  read_engine engine = read_engine::automatic;
  ringload::huge_pages huge_pages = ringload::huge_pages::transparent;
};

/// How one checkpoint is to be loaded.
struct load_options {
  profile strictness = profile::strict;
  read_route route = read_route::automatic;

  /// Converts as they land: tensors of f32, f16, bf16, f8_e4m3 and f8_e5m2 become tensors of this
  /// type, which is f32, f16 or bf16; any other is `errc::unsupported_dtype`. All other tensors
  /// land as they are. A tensor says what it has become; the catalog, what it is in the file.
  ///
  /// A number is rounded once, to nearest, ties to even, subnormal numbers too. What is larger than
  /// the largest by half a step or more becomes infinity: 65,520 as f16. Infinities and the sign of
  /// 0 are kept. A NaN becomes the quiet one of its sign that has no further payload: 0x7FC00000,
  /// 0x7E00 or 0x7FC0. Every device gives the same bits.
  std::optional<ringload::dtype> dtype = std::nullopt;

  /// Which of the tensors that could be converted are; null: all. Called with `converts_with` once
  /// for each of them, in a thread of ours, before the first read. It may throw, and then the load
  /// fails.
  bool (*converts)(const tensor_info& which, void* with) = nullptr;
  void* converts_with = nullptr;  // Lives until the load has started, or failed.

  /// What the tensors must hash to; null: nothing is checked. Copied when the operation begins, so
  /// it must live until then, and with a token that begins it later, as `deferred` does, so long.
  /// The bytes in the files are meant, so of a tensor that is converted it cannot be asked:
  /// `errc::digest_unavailable`.
  const manifest* verify = nullptr;
};

}  // namespace ringload::inline v0
