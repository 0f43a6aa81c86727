// SPDX-License-Identifier: Apache-2.0

// A group over MPI. Pending messages are polled, because MPI cannot wait for one message together
// with a failure of another rank or a deadline.
//
// Messages pass through memory of the group. A message that is given up cannot always be cancelled,
// and MPI may access its memory at any later call. So that memory is given up too and never freed.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <ringload/error.hpp>
#include <ringload/mpi.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

namespace {

constexpr int message_tag = 1;
constexpr int failure_tag = 2;
// Small enough to stay in the CPU cache during the copy.
constexpr std::size_t piece_bytes = std::size_t{1} << 19;
// A message between two processes of one machine arrives within some hundred tests.
constexpr unsigned busy_tests = 2000;
constexpr std::chrono::microseconds between_tests{50};
// Takes some microseconds if the other rank is alive.
constexpr std::chrono::milliseconds telling_within{100};

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

std::string text_of(int returned) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(returned, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check(int returned, const char* call) {
  if (returned != MPI_SUCCESS) throw error(errc::rank_failed, call, text_of(returned));
}

// The last message of a failing rank, and the rank that caused the failure.
struct failure {
  std::int32_t rank = 0;
  std::array<char, 1000> reason = {};  // Zero-terminated.
};

failure failure_of(int rank, std::string_view reason) noexcept {
  failure out = {rank, {}};
  std::memcpy(out.reason.data(), reason.data(), std::min(reason.size(), out.reason.size() - 1));
  return out;
}

class mpi_ranks final : public group {
 public:
  mpi_ranks(MPI_Comm comm, std::chrono::milliseconds timeout) : comm_(comm), timeout_(timeout) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    piece_ = std::make_unique<std::byte[]>(piece_bytes);
  }

  ~mpi_ranks() override {
    int over = 0;
    MPI_Finalized(&over);
    if (over == 0 && !ended_ && piece_) MPI_Comm_free(&comm_);
  }

  std::uint32_t rank() const noexcept override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(size_); }

  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    check_ended();
    for (std::size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
      const auto piece = bytes.subspan(offset, std::min(piece_bytes, bytes.size() - offset));
      std::memcpy(piece_.get(), piece.data(), piece.size());
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(piece_.get(), static_cast<int>(piece.size()), MPI_BYTE, static_cast<int>(to),
                      message_tag, comm_, &request),
            "MPI_Isend");
      wait_for(request, static_cast<int>(to));
    }
  }

  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    check_ended();
    for (std::size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
      const auto piece = bytes.subspan(offset, std::min(piece_bytes, bytes.size() - offset));
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Irecv(piece_.get(), static_cast<int>(piece.size()), MPI_BYTE,
                      static_cast<int>(from), message_tag, comm_, &request),
            "MPI_Irecv");
      wait_for(request, static_cast<int>(from));
      std::memcpy(piece.data(), piece_.get(), piece.size());
    }
  }

  void fail(std::string_view reason) noexcept override {
    if (!ended_) end(rank_, reason);
  }

  void interrupt() noexcept override { interrupted_ = true; }

 private:
  static error interruption() {
    return {{ECANCELED, boost::system::system_category()}, "group", "interrupted"};
  }

  void check_ended() const {
    if (ended_) throw *ended_;
    if (interrupted_) throw interruption();
  }

  void wait_for(MPI_Request& request, int peer) {
    const auto until = std::chrono::steady_clock::now() + timeout_;
    for (unsigned tests = 0;; ++tests) {
      int done = 0;
      const int failed = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (failed != MPI_SUCCESS) give_up(request, peer, text_of(failed));
      if (done != 0) return;
      if (interrupted_) {
        abandon(request);
        throw interruption();
      }
      if (const auto reported = next_failure())
        give_up(request, reported->rank, reported->reason.data());
      if (tests < busy_tests) {
        std::this_thread::yield();
        continue;
      }
      if (std::chrono::steady_clock::now() > until) {
        give_up(request, peer,
                "no message arrived within " + std::to_string(timeout_.count()) + " ms");
      }
      std::this_thread::sleep_for(between_tests);
    }
  }

  // An error of MPI itself counts as a failure of this rank.
  std::optional<failure> next_failure() {
    int is_pending = 0;
    MPI_Status status = {};
    failure reported = {rank_, {}};
    int failed = MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, comm_, &is_pending, &status);
    if (failed == MPI_SUCCESS && is_pending == 0) return std::nullopt;
    if (failed == MPI_SUCCESS) {
      failed = MPI_Recv(&reported, sizeof reported, MPI_BYTE, status.MPI_SOURCE, failure_tag, comm_,
                        MPI_STATUS_IGNORE);
    }
    if (failed != MPI_SUCCESS) reported = failure_of(rank_, text_of(failed));
    reported.reason.back() = 0;
    return reported;
  }

  // A message without a sender can be cancelled; a message in transfer cannot.
  void abandon(MPI_Request& request) noexcept {
    if (request == MPI_REQUEST_NULL) return;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    (void)piece_.release();
  }

  [[noreturn]] void give_up(MPI_Request& request, int because_of, const std::string& reason) {
    abandon(request);
    end(because_of, reason);
    throw *ended_;
  }

  // The failure message stays allocated until the process ends, in case MPI has not sent it yet.
  void end(int because_of, std::string_view reason) noexcept {
    const auto* const message = new (std::nothrow) failure(failure_of(because_of, reason));
    for (int peer = 0; message != nullptr && peer < size_; ++peer) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (peer == rank_ || MPI_Isend(message, sizeof *message, MPI_BYTE, peer, failure_tag, comm_,
                                     &request) != MPI_SUCCESS) {
        continue;
      }
      const auto until = std::chrono::steady_clock::now() + telling_within;
      int done = 0;
      while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
             std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(between_tests);
      }
      if (done == 0) MPI_Request_free(&request);
    }
    ended_.emplace(errc::rank_failed, name_of(because_of), std::string(reason));
  }

  MPI_Comm comm_;
  const std::chrono::milliseconds timeout_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<std::byte[]> piece_;  // piece_bytes long; empty after a message was given up.
  std::optional<error> ended_;          // The error of every further call.
  std::atomic<bool> interrupted_ = false;
};

}  // namespace

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
  check(MPI_Comm_dup(among, &comm), "MPI_Comm_dup");
  return std::make_unique<mpi_ranks>(comm, timeout);
}

}  // namespace ringload::inline v0
