// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ranks of one program: threads or processes that load a checkpoint together
// (`ringload/group_load.hpp`).
//
//   // One group for each thread of a process:
//   std::vector<std::unique_ptr<ringload::group>> groups = ringload::make_thread_ranks(4);
//
//   // This process' group, of the processes of a machine:
//   std::unique_ptr<ringload::group> group = ringload::join_group("/run/job7", rank, ranks);
//
// `ringload/mpi.hpp` has groups of MPI processes. All functions block.

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

/// The group as one rank uses it. All ranks must make the same calls in the same order, each from
/// one thread at a time.
///
/// A call fails with `errc::rank_failed` if another rank failed or ended. The error has the rank
/// and, if the rank could send it, the reason. A call also fails so if a rank does not answer
/// within the group's time limit. All later calls then fail too.
///
/// On an interrupted rank, calls fail with `operation_aborted`. The other ranks are notified when
/// the interrupted rank fails or ends.
///
/// Messages are host memory unless `memory()` returns another kind.
///
/// To implement another transport, derive from this class: only the pure functions are required.
class RINGLOAD_EXPORT group {
 public:
  group() = default;
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  virtual ~group();

  virtual std::uint32_t rank() const noexcept = 0;
  /// The number of ranks, at least 1.
  virtual std::uint32_t size() const noexcept = 0;
  /// The kind of memory of all messages.
  virtual device_kind memory() const noexcept;

  /// Sends to another rank, which must receive exactly as many bytes. May return before the bytes
  /// are received. A load and the functions below never send or receive an empty message.
  virtual void send(std::span<const std::byte> bytes, std::uint32_t to) = 0;
  virtual void receive(std::span<std::byte> bytes, std::uint32_t from) = 0;

  /// Ends the group for all ranks, with the reason of this rank. Never throws, and may be called
  /// twice.
  virtual void fail(std::string_view reason) noexcept = 0;

  /// Ends the current call and all later calls of this rank. May be called from any thread, also
  /// during a call in another thread, and may be called twice.
  virtual void interrupt() noexcept = 0;

  /// Copies the bytes of `root` to all other ranks. The number of bytes must be the same on each
  /// rank.
  virtual void broadcast(std::span<std::byte> bytes, std::uint32_t root);
  /// Distributes the parts of `root`, one for each rank including `root`, into the memory of each
  /// rank, which must be as long as its part. Other ranks pass no parts.
  virtual void scatter(std::span<const std::span<const std::byte>> parts, std::span<std::byte> into,
                       std::uint32_t root);
  /// Returns when all ranks have called it.
  virtual void barrier();
};

/// The default time limit for a rank that has neither failed nor ended.
inline constexpr std::chrono::minutes rank_timeout{5};

/// Creates a group of threads of this process: one element for each thread, to be moved into it. 1
/// to 127 ranks. Throws `ringload::error`.
RINGLOAD_EXPORT std::vector<std::unique_ptr<group>> make_thread_ranks(
    std::uint32_t ranks, std::chrono::milliseconds timeout = rank_timeout);

/// Creates a group of processes of this machine and this user, which connect through a Unix socket.
/// Rank 0 creates the socket at a path that must not exist, and removes it when all ranks are
/// connected. Each rank waits for the time limit of a rank, or until `stop` is requested:
/// `operation_aborted`. 1 to 127 ranks. Throws `ringload::error`, and then leaves no file at the
/// path.
RINGLOAD_EXPORT std::unique_ptr<group> join_group(std::string_view socket, std::uint32_t rank,
                                                  std::uint32_t ranks,
                                                  std::chrono::milliseconds timeout = rank_timeout,
                                                  std::stop_token stop = {});

}  // namespace ringload::inline v0
