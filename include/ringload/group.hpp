// SPDX-License-Identifier: Apache-2.0
#pragma once

// A group of ranks: threads or processes that load a checkpoint together
// (`ringload/group_load.hpp`).
//
//   // The ranks are threads of this process. Each thread gets one element:
//   std::vector<std::unique_ptr<ringload::group>> groups = ringload::make_thread_ranks(4);
//
//   // The ranks are processes on one machine. Each process calls:
//   std::unique_ptr<ringload::group> group = ringload::join_group("/run/job7", rank, ranks);
//
//   // The ranks are processes on several machines. Each process calls:
//   auto machines = ringload::join_group("tcp://10.0.0.1:29500", rank, ranks);
//
// `ringload/mpi.hpp` creates groups of MPI processes. All functions block.

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

/// Bytes that group::all_gather() copies from one rank to all other ranks.
struct gathered_part {
  std::span<std::byte> bytes;  ///< The memory, which has the same size on all ranks.
  std::uint32_t root = 0;      ///< The rank that has the bytes.
};

/// A group, as seen by one rank. All ranks must call broadcast(), all_gather(), scatter() and
/// barrier() in the same order. For each send(), the other rank must call receive(). Only one
/// thread of a rank may make calls at a time.
///
/// If another rank fails or ends, a call fails with `errc::rank_failed`. The error names the failed
/// rank. If the failed rank could send a reason, the error also contains the reason. A call also
/// fails with `errc::rank_failed` if a rank does not answer within the time limit of the group. The
/// time limit is the argument `timeout` of the function that created the group. After a failed
/// call, all later calls fail too.
///
/// After interrupt(), calls of this rank fail with `operation_aborted`. The other ranks are not
/// notified until this rank calls fail() or ends.
///
/// The messages are in host memory unless `memory()` returns another device.
///
/// To use another transport, derive a class from this class. The derived class must implement only
/// the pure virtual functions.
class RINGLOAD_EXPORT group {
 public:
  group() = default;
  group(const group&) = delete;
  group& operator=(const group&) = delete;
  virtual ~group();

  /// Returns the index of this rank, from 0.
  virtual std::uint32_t rank() const noexcept = 0;
  /// Returns the number of ranks, at least 1.
  virtual std::uint32_t size() const noexcept = 0;
  /// Returns the device whose memory all messages must be in. The default is the host.
  virtual device memory() const noexcept;
  /// Returns a group of the same ranks whose messages are in host memory. The default is this
  /// group. A class whose messages are in GPU memory must override this function, because loads by
  /// ranks also exchange host memory. The reference is valid as long as this object exists.
  virtual group& host_group() noexcept;

  /// Sends a message to the rank `receiver`. The other rank must receive a message of the same
  /// size. The function may return before the other rank has received the bytes. The library never
  /// sends or receives an empty message.
  virtual void send(std::span<const std::byte> bytes, std::uint32_t receiver) = 0;
  /// Receives a message from the rank `sender`. The size of `bytes` must be the size of the
  /// message.
  virtual void receive(std::span<std::byte> bytes, std::uint32_t sender) = 0;

  /// Ends the group for all ranks. The errors of the other ranks contain `reason`. Never throws.
  /// May be called more than once.
  virtual void fail(std::string_view reason) noexcept = 0;

  /// Throws the error of the group if this rank has been notified that another rank has failed.
  /// Never waits. The default does nothing.
  virtual void check_ranks();

  /// Makes the current call and all later calls of this rank fail. Thread-safe, also during a call
  /// in another thread. May be called more than once.
  virtual void interrupt() noexcept = 0;

  /// Copies `bytes` from the rank `root` to all other ranks. The size of `bytes` must be the same
  /// on all ranks.
  virtual void broadcast(std::span<std::byte> bytes, std::uint32_t root);
  /// Copies each part from its root to all other ranks. The number of parts, their sizes and their
  /// roots must be the same on all ranks. The default calls broadcast() for each part. Groups over
  /// sockets, and MPI groups on several machines, send several parts at the same time around a
  /// ring.
  virtual void all_gather(std::span<const gathered_part> parts);
  /// Sends one part from the rank `root` to each rank: rank i receives parts[i]. The rank `root`
  /// receives a part too. The size of `received` must be the size of the received part. All ranks
  /// except `root` pass an empty `parts`.
  virtual void scatter(std::span<const std::span<const std::byte>> parts,
                       std::span<std::byte> received, std::uint32_t root);
  /// Waits until all ranks have called this function.
  virtual void barrier();
};

/// The default time limit for the answer of another rank. If the other rank fails or ends, a call
/// fails earlier.
inline constexpr std::chrono::minutes rank_timeout{5};

/// Creates a group of threads of this process. The result has one element for each rank. Pass
/// element i to the thread of rank i. `ranks` is 1 to 127. `timeout` is the time limit of the
/// group. A group of n threads uses n * (2 * n - 1) file descriptors. Throws `ringload::error`.
RINGLOAD_EXPORT std::vector<std::unique_ptr<group>> make_thread_ranks(
    std::uint32_t ranks, std::chrono::milliseconds timeout = rank_timeout);

/// Creates a group of processes that meet at `address`. `ranks` is 1 to 127. A group of n ranks
/// uses 2 * n - 1 file descriptors in each process. While the ranks join, rank 0 uses n more file
/// descriptors.
///
/// If `address` is a path, the ranks are processes of the same user on this machine. Rank 0 creates
/// a Unix socket at the path, and removes the socket when all ranks are connected. The path must
/// not exist before.
///
/// If `address` is `tcp://host:port` or `tcp://host:port/token`, the ranks are processes on one or
/// several machines, which connect over TCP. Rank 0 listens at the host and port. The other ranks
/// connect to rank 0, and may start earlier than rank 0. Each of the other ranks also listens, at
/// the address from which the rank connects to rank 0, and at a port that the kernel chooses. Each
/// rank must be able to connect to the address and port of every other rank. `host` is a name, an
/// IPv4 address, or an IPv6 address in brackets. The token has at most 64 bytes. Rank 0 refuses
/// ranks with another token. Therefore two jobs that use the same port by mistake do not become one
/// group.
///
/// TCP connections are neither encrypted nor authenticated, and the token is sent as plain text.
/// Everybody who can connect to the ports can disturb the group, and everybody who can read the
/// network traffic can read the tensors. Therefore the network must be trusted. If a machine stops
/// answering, calls of the other ranks fail within about 30 seconds, or after `timeout` if
/// `timeout` is shorter.
///
/// Waits for the other ranks until `timeout` has passed, or until a stop is requested through
/// `stop`. The lookup of a host name may take longer. `timeout` is also the time limit of the
/// group. After a stop, throws `operation_aborted`. After any other failure, throws
/// `ringload::error`. If rank 0 fails, rank 0 removes its socket.
RINGLOAD_EXPORT std::unique_ptr<group> join_group(std::string_view address, std::uint32_t rank,
                                                  std::uint32_t ranks,
                                                  std::chrono::milliseconds timeout = rank_timeout,
                                                  std::stop_token stop = {});

}  // namespace ringload::inline v0
