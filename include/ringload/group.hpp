// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ranks of one program: threads, or processes, that load a checkpoint together
// (`ringload/group_load.hpp`).
//
//   // One group for each thread of a process:
//   std::vector<std::unique_ptr<ringload::group>> groups = ringload::make_thread_ranks(4);
//
//   // This process' group, of the processes of a machine:
//   std::unique_ptr<ringload::group> group = ringload::join_group("/run/job7", rank, ranks);
//
// `ringload/mpi.hpp` has groups of the processes of MPI.
// All functions block.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/export.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

/// What a rank has of its group. All ranks make the same calls in the same order, each from one
/// thread at a time.
///
/// A call fails with `errc::rank_failed` as soon as another rank has failed or has ended, with its
/// rank and, if there was time for that, its reason; or if a rank that is waited for does not come
/// within the group's time limit. From then on every call fails so.
///
/// On a rank that was interrupted calls fail with `operation_aborted`; the others learn of it when
/// it fails, or ends.
///
/// Its messages are memory of the host, unless `memory()` says otherwise.
///
/// To carry ranks by other means, derive from this: only the pure functions are needed.
class RINGLOAD_EXPORT group {
 public:
  group() = default;
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  virtual ~group();

  virtual std::uint32_t rank() const noexcept = 0;
  /// The number of ranks, at least 1.
  virtual std::uint32_t size() const noexcept = 0;
  /// What the bytes of all calls lie in.
  virtual device_kind memory() const noexcept;

  /// To one other rank, which receives exactly as many bytes. May return before it has them. A load
  /// and the functions below never send or receive an empty message.
  virtual void send(std::span<const std::byte> bytes, std::uint32_t to) = 0;
  virtual void receive(std::span<std::byte> bytes, std::uint32_t from) = 0;

  /// Ends the group for all ranks, with this rank's reason. Never throws, and may be called twice.
  virtual void fail(std::string_view reason) noexcept = 0;

  /// From any thread, also while a call runs in another: ends this rank's calls, that one and all
  /// that follow. May be called twice.
  virtual void interrupt() noexcept = 0;

  /// The bytes of `root` into all others'. Of the same number on each rank.
  virtual void broadcast(std::span<std::byte> bytes, std::uint32_t root);
  /// Of `root` the parts, one for each rank, its own too; into the memory of each, which is as long
  /// as its part. Others give no parts.
  virtual void scatter(std::span<const std::span<const std::byte>> parts, std::span<std::byte> into,
                       std::uint32_t root);
  /// Returns when all ranks have called it.
  virtual void barrier();
};

/// How long a rank is waited for that has neither failed nor ended.
inline constexpr std::chrono::minutes rank_timeout{5};

/// A group of threads of this process: one for each, to be moved into it. 1 to 127 ranks. Throws
/// `ringload::error`.
RINGLOAD_EXPORT std::vector<std::unique_ptr<group>> make_thread_ranks(
    std::uint32_t ranks, std::chrono::milliseconds timeout = rank_timeout);

/// A group of processes of this machine and this user, which meet at a Unix socket: rank 0 makes
/// it, at a path that is free, and removes it when all have come. They are waited for as long as
/// for a rank, or until `stop` is requested: `operation_aborted`. 1 to 127 ranks. Throws
/// `ringload::error`; nothing is left at the path then.
RINGLOAD_EXPORT std::unique_ptr<group> join_group(std::string_view socket, std::uint32_t rank,
                                                  std::uint32_t ranks,
                                                  std::chrono::milliseconds timeout = rank_timeout,
                                                  std::stop_token stop = {});

}  // namespace ringload::inline v0
