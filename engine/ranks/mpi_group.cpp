// SPDX-License-Identifier: Apache-2.0

// Implements `group` over MPI. The group polls, because MPI cannot wait for a message, the failure
// of another rank and a deadline at the same time.
//
// broadcast() uses MPI_Ibcast if all ranks are on one machine, or if the bytes are few. Otherwise
// the bytes travel around a ring (ranks/ring_pieces.hpp). With 8 machines, a ring takes 0.41 of the
// time of MPI_Ibcast (bench/results/2026-11-26-machines.md). scatter() uses MPI_Iscatterv.
// barrier() is inherited from `group` and uses messages. MPI_Ibarrier takes the same time
// (bench/results/2026-11-24-group-calls.md), and cannot report which rank is missing.
//
// All messages are copied through one buffer. broadcast() uses two pieces of the buffer: this rank
// copies one piece while MPI transfers the other. A ring uses one half of the buffer to receive and
// the other half to send. MPI forbids MPI_Cancel and MPI_Request_free for a collective call, and
// cannot cancel every message. So MPI may access the buffer after a failure: then the buffer and
// requests leak.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <ringload/error.hpp>
#include <ringload/mpi.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/bounded_timeout.hpp"
#include "base/retry_allocation.hpp"
#include "ranks/broadcast_route.hpp"
#include "ranks/mpi_errors.hpp"
#include "ranks/ring_pieces.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

constexpr int message_tag = 1;
constexpr int failure_tag = 2;
// A piece of this size stays in the processor's cache during the copy.
constexpr std::size_t piece_bytes = std::size_t{1} << 19;
constexpr std::size_t pieces_max = 2;  // Pieces of a broadcast in flight.
// In a ring between machines, MPI must send the bytes of a piece before the receiver answers.
// Therefore a piece and its header must not exceed a limit of MPI. Over TCP, Open MPI's limit is
// 64 KiB. The answer to a larger message waits behind the bytes that the receiver sends, and
// meanwhile the sender's link is idle (bench/results/2026-11-27-ranks.md).
constexpr std::size_t ring_piece_bytes = (std::size_t{1} << 16) - 1024;
constexpr std::size_t ring_pieces_max = 16;  // Pieces in flight, in each direction.
constexpr std::size_t buffer_bytes = std::size_t{1} << 21;
static_assert(pieces_max * piece_bytes <= buffer_bytes);
static_assert(2 * ring_pieces_max * ring_piece_bytes <= buffer_bytes);
// Number of calls of MPI_Testany without a pause. A message within a machine arrives after a few
// hundred calls.
constexpr unsigned busy_tests = 2000;
constexpr std::chrono::microseconds test_interval{50};
// Time limit for reporting a failure to one rank. A report to a running rank takes some
// microseconds.
constexpr std::chrono::milliseconds notify_timeout{100};

class mpi_ranks final : public group {
 public:
  mpi_ranks(MPI_Comm comm, std::chrono::milliseconds timeout)
      : comm_(comm), timeout_(bounded_timeout(timeout)) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    MPI_Comm machine = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine),
              "MPI_Comm_split_type");
    int ranks_of_machine = 0;
    check_mpi(MPI_Comm_size(machine, &ranks_of_machine), "MPI_Comm_size");
    is_one_machine_ = ranks_of_machine == size_;
    MPI_Comm_free(&machine);
    buffer_ = std::make_unique<std::byte[]>(buffer_bytes);
    scatter_sizes_ = std::make_unique<int[]>(2 * std::size_t{size()});
  }

  ~mpi_ranks() override {
    int over = 0;
    MPI_Finalized(&over);
    if (over == 0 && !ended_ && buffer_) MPI_Comm_free(&comm_);
    if (ended_ || !buffer_) {  // After a failure or an interruption, MPI may still use this memory.
      (void)buffer_.release();
      (void)scatter_sizes_.release();
    }
  }

  std::uint32_t rank() const noexcept override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(size_); }

  void send(std::span<const std::byte> bytes, std::uint32_t receiver) override {
    check_ended();
    for (std::size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
      const auto piece = bytes.subspan(offset, std::min(piece_bytes, bytes.size() - offset));
      std::memcpy(buffer_.get(), piece.data(), piece.size());
      MPI_Request request = MPI_REQUEST_NULL;
      require(MPI_Isend(buffer_.get(), static_cast<int>(piece.size()), MPI_BYTE,
                        static_cast<int>(receiver), message_tag, comm_, &request),
              "MPI_Isend");
      wait_for(request, static_cast<int>(receiver));
    }
  }

  void receive(std::span<std::byte> bytes, std::uint32_t sender) override {
    check_ended();
    for (std::size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
      const auto piece = bytes.subspan(offset, std::min(piece_bytes, bytes.size() - offset));
      MPI_Request request = MPI_REQUEST_NULL;
      require(MPI_Irecv(buffer_.get(), static_cast<int>(piece.size()), MPI_BYTE,
                        static_cast<int>(sender), message_tag, comm_, &request),
              "MPI_Irecv");
      wait_for(request, static_cast<int>(sender));
      std::memcpy(piece.data(), buffer_.get(), piece.size());
    }
  }

  void broadcast(std::span<std::byte> bytes, std::uint32_t root) override {
    check_ended();
    if (!is_one_machine_ && is_chain_faster(bytes.size(), size(), ring_piece_bytes)) {
      const gathered_part whole = {bytes, root};
      return send_around_ring({&whole, 1});
    }
    const bool is_root = rank() == root;
    const std::size_t count = (bytes.size() + piece_bytes - 1) / piece_bytes;
    std::array<MPI_Request, pieces_max> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (std::size_t i = 0; i < count + pieces_max; ++i) {
      // Piece i uses the memory of piece i - 2, whose transfer must be complete.
      if (i >= pieces_max) {
        wait_for(requests[i % pieces_max], is_root ? unknown_rank : static_cast<int>(root), true);
        const auto received = piece_of(bytes, i - pieces_max);
        if (!is_root) std::memcpy(received.data(), buffer_for(i), received.size());
      }
      if (i >= count) continue;
      const auto piece = piece_of(bytes, i);
      if (is_root) std::memcpy(buffer_for(i), piece.data(), piece.size());
      require(MPI_Ibcast(buffer_for(i), static_cast<int>(piece.size()), MPI_BYTE,
                         static_cast<int>(root), comm_, &requests[i % pieces_max]),
              "MPI_Ibcast");
    }
  }

  void all_gather(std::span<const gathered_part> parts) override {
    check_ended();
    if (is_one_machine_ || parts.size() == 1) return group::all_gather(parts);
    send_around_ring(parts);
  }

  void scatter(std::span<const std::span<const std::byte>> parts, std::span<std::byte> into,
               std::uint32_t root) override {
    const bool is_root = rank() == root;
    // The largest part determines the number of rounds. Only the root knows its size.
    std::uint64_t bytes_max = 0;
    for (const auto& part : parts) bytes_max = std::max<std::uint64_t>(bytes_max, part.size());
    broadcast(std::as_writable_bytes(std::span(&bytes_max, 1)), root);
    const std::size_t round_bytes = std::max<std::size_t>(piece_bytes / size(), 1);
    for (std::size_t offset = 0; offset < bytes_max; offset += round_bytes) {
      const auto own = round_of(into, offset, round_bytes);
      int* const counts = scatter_sizes_.get();
      int* const offsets = counts + size();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto sent = round_of(parts[i], offset, round_bytes);
        offsets[i] = static_cast<int>(i * round_bytes);
        counts[i] = static_cast<int>(sent.size());
        std::copy_n(sent.begin(), sent.size(), buffer_for(0) + offsets[i]);
      }
      MPI_Request request = MPI_REQUEST_NULL;
      require(MPI_Iscatterv(buffer_for(0), counts, offsets, MPI_BYTE, buffer_for(1),
                            static_cast<int>(own.size()), MPI_BYTE, static_cast<int>(root), comm_,
                            &request),
              "MPI_Iscatterv");
      wait_for(request, is_root ? unknown_rank : static_cast<int>(root), true);
      std::copy_n(buffer_for(1), own.size(), own.begin());
    }
  }

  void check_ranks() override {
    check_ended();
    if (const auto reported = next_failure()) {
      end(reported->rank, reported->reason.data());
      throw *ended_;
    }
  }

  void fail(std::string_view reason) noexcept override {
    if (!ended_) end(rank_, reason);
  }

  void interrupt() noexcept override { interrupted_ = true; }

 private:
  // Sends the pieces of this rank to the next rank, and forwards each other piece after its
  // arrival, while later pieces arrive. MPI_Issend completes only after the next rank has called
  // MPI_Irecv for the piece, so at most `ring_pieces_max` pieces wait in the next rank without
  // MPI_Irecv.
  void send_around_ring(std::span<const gathered_part> parts) {
    const ring_pieces ring = ring_pieces_of(parts, rank(), size(), ring_piece_bytes);
    const int previous = (rank_ + size_ - 1) % size_;
    const int next = (rank_ + 1) % size_;
    // The first half of the requests receives, and the second half sends.
    std::array<MPI_Request, 2 * ring_pieces_max> requests;
    requests.fill(MPI_REQUEST_NULL);
    std::size_t started = ring.receive_begin;   // The first piece without MPI_Irecv.
    std::size_t received = ring.receive_begin;  // The first piece that has not arrived.
    std::size_t sent = 0;
    while (received < ring.pieces.size() || sent < ring.send_end) {
      for (; started < std::min(received + ring_pieces_max, ring.pieces.size()); ++started) {
        const std::size_t slot = started % ring_pieces_max;
        require(MPI_Irecv(ring_slot(slot), static_cast<int>(ring.pieces[started].size()), MPI_BYTE,
                          previous, message_tag, comm_, &requests[slot]),
                "MPI_Irecv");
      }
      for (; sent < std::min(received, ring.send_end); ++sent) {
        const std::size_t slot = ring_pieces_max + sent % ring_pieces_max;
        if (requests[slot] != MPI_REQUEST_NULL) break;
        const auto piece = ring.pieces[sent];
        std::memcpy(ring_slot(slot), piece.data(), piece.size());
        require(MPI_Issend(ring_slot(slot), static_cast<int>(piece.size()), MPI_BYTE, next,
                           message_tag, comm_, &requests[slot]),
                "MPI_Issend");
      }
      const int blamed = received < started ? previous : next;
      wait_for_any(requests, blamed);
      for (; received < started; ++received) {
        const std::size_t slot = received % ring_pieces_max;
        if (requests[slot] != MPI_REQUEST_NULL) break;
        std::memcpy(ring.pieces[received].data(), ring_slot(slot), ring.pieces[received].size());
      }
    }
    for (MPI_Request& request : std::span(requests).last(ring_pieces_max)) wait_for(request, next);
  }

  // Ends the group if the call has failed. Leaks the buffer, which earlier calls may still use.
  void require(int returned, const char* call) {
    if (returned == MPI_SUCCESS) return;
    (void)buffer_.release();
    end(rank_, std::string(call) + ": " + mpi_error_text(returned));
    throw *ended_;
  }

  static error interrupted_error() {
    return {{ECANCELED, boost::system::system_category()}, "group", "interrupted"};
  }

  void check_ended() const {
    if (ended_) throw *ended_;
    if (interrupted_) throw interrupted_error();
  }

  std::byte* buffer_for(std::size_t piece) const noexcept {
    return buffer_.get() + piece % pieces_max * piece_bytes;
  }

  std::byte* ring_slot(std::size_t slot) const noexcept {
    return buffer_.get() + slot * ring_piece_bytes;
  }

  static std::span<std::byte> piece_of(std::span<std::byte> bytes, std::size_t piece) noexcept {
    return round_of(bytes, piece * piece_bytes, piece_bytes);
  }

  // Returns the bytes from `offset` on, at most `bytes_max` bytes. Returns an empty span if
  // `offset` is past the end.
  template <class Byte>
  static std::span<Byte> round_of(std::span<Byte> bytes, std::size_t offset,
                                  std::size_t bytes_max) noexcept {
    const std::size_t begin = std::min(offset, bytes.size());
    return bytes.subspan(begin, std::min(bytes_max, bytes.size() - begin));
  }

  // `peer` is the rank that the error names if no message arrives in time, or if MPI_Testany fails.
  void wait_for(MPI_Request& request, int peer, bool is_collective = false) {
    wait_for_any({&request, 1}, peer, is_collective);
  }

  // Waits until one of the requests is complete. Returns at once if all requests are null.
  void wait_for_any(std::span<MPI_Request> requests, int peer, bool is_collective = false) {
    const auto until = std::chrono::steady_clock::now() + timeout_;
    for (unsigned tests = 0;; ++tests) {
      int done = 0;
      int index = 0;
      const int failed = MPI_Testany(static_cast<int>(requests.size()), requests.data(), &index,
                                     &done, MPI_STATUS_IGNORE);
      if (failed != MPI_SUCCESS) give_up(requests, is_collective, peer, mpi_error_text(failed));
      if (done != 0) return;
      if (interrupted_) {
        abandon(requests, is_collective);
        throw interrupted_error();
      }
      if (const auto reported = next_failure())
        give_up(requests, is_collective, reported->rank, reported->reason.data());
      if (std::chrono::steady_clock::now() > until) {
        give_up(requests, is_collective, peer,
                "no message arrived within " + std::to_string(timeout_.count()) + " ms");
      }
      // On a busy machine, a yield takes milliseconds, so the deadline is checked first.
      if (tests < busy_tests) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(test_interval);
    }
  }

  // Returns a failure that another rank has reported, or an empty optional. If MPI itself returns
  // an error, this rank is the failed rank.
  std::optional<rank_failure> next_failure() {
    int is_pending = 0;
    MPI_Status status = {};
    rank_failure reported = {rank_, {}};
    int failed = MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, comm_, &is_pending, &status);
    if (failed == MPI_SUCCESS && is_pending == 0) return std::nullopt;
    if (failed == MPI_SUCCESS) {
      failed = MPI_Recv(&reported, sizeof reported, MPI_BYTE, status.MPI_SOURCE, failure_tag, comm_,
                        MPI_STATUS_IGNORE);
    }
    if (failed != MPI_SUCCESS) reported = make_rank_failure(rank_, mpi_error_text(failed));
    reported.reason.back() = 0;
    return reported;
  }

  // Stops waiting for the requests. MPI can cancel only a message whose transfer has not begun, so
  // the buffer is leaked. The request of a collective call cannot be freed, and is leaked too.
  void abandon(std::span<MPI_Request> requests, bool is_collective) noexcept {
    for (MPI_Request& request : requests) {
      if (request == MPI_REQUEST_NULL && !is_collective) continue;
      if (!is_collective) {
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
      (void)buffer_.release();
    }
  }

  [[noreturn]] void give_up(std::span<MPI_Request> requests, bool is_collective, int because_of,
                            const std::string& reason) {
    abandon(requests, is_collective);
    end(because_of, reason);
    throw *ended_;
  }

  // Ends the group, and reports the failure to all other ranks. The failure message is never freed,
  // because MPI may send it later.
  void end(int because_of, std::string_view reason) noexcept {
    const auto* const message =
        new (std::nothrow) rank_failure(make_rank_failure(because_of, reason));
    for (int peer = 0; message != nullptr && peer < size_; ++peer) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (peer == rank_ || MPI_Isend(message, sizeof *message, MPI_BYTE, peer, failure_tag, comm_,
                                     &request) != MPI_SUCCESS) {
        continue;
      }
      const auto until = std::chrono::steady_clock::now() + notify_timeout;
      int done = 0;
      while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
             std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(test_interval);
      }
      if (done == 0) MPI_Request_free(&request);
    }
    retry_allocation(
        [&] { ended_.emplace(errc::rank_failed, mpi_rank_name(because_of), std::string(reason)); });
  }

  MPI_Comm comm_;
  const std::chrono::milliseconds timeout_;
  int rank_ = 0;
  int size_ = 1;
  bool is_one_machine_ = true;
  // Buffer for all messages. Null after the buffer was leaked.
  std::unique_ptr<std::byte[]> buffer_;
  // The sizes of the parts of a scatter(), then their offsets. MPI reads them during the call.
  std::unique_ptr<int[]> scatter_sizes_;
  std::optional<error> ended_;  // Every later call throws this error.
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

}  // namespace detail

std::unique_ptr<group> mpi_group(MPI_Comm among, std::chrono::milliseconds timeout) {
  int begun = 0;
  MPI_Initialized(&begun);
  int level = MPI_THREAD_SINGLE;
  if (begun != 0) MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) {
    throw error(errc::invalid_options, "MPI",
                "MPI was initialized without MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
  }
  MPI_Comm comm = MPI_COMM_NULL;
  detail::check_mpi(MPI_Comm_dup(among, &comm), "MPI_Comm_dup");
  return std::make_unique<detail::mpi_ranks>(comm, timeout);
}

}  // namespace ringload::inline v0
