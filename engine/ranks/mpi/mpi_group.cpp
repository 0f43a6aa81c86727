// SPDX-License-Identifier: Apache-2.0

// A group over MPI. Messages that are on their way are asked after again and again, since MPI has
// no way to wait for one of them or for a failure of another rank or for the time to be over.

#include <algorithm>
#include <array>
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
// A count of MPI is an int.
constexpr std::size_t piece_bytes = std::size_t{1} << 30;
// A message between two processes of one machine comes within some hundred of these.
constexpr unsigned busy_tests = 2000;
constexpr std::chrono::microseconds between_tests{50};

std::string name_of(int rank) { return "rank " + std::to_string(rank); }

void check(int returned, const char* what) {
  if (returned == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(returned, text.data(), &length);
  throw error(errc::rank_failed, what, {text.data(), static_cast<std::size_t>(length)});
}

// A rank's last words, and whom they are about.
struct failure {
  std::int32_t rank = 0;
  std::array<char, 1000> reason = {};  // Ends with a zero.
};

class mpi_ranks final : public group {
 public:
  mpi_ranks(MPI_Comm own, std::chrono::milliseconds timeout) : own_(own), timeout_(timeout) {
    check(MPI_Comm_set_errhandler(own_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(own_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(own_, &size_), "MPI_Comm_size");
  }

  ~mpi_ranks() override {
    int over = 0;
    MPI_Finalized(&over);
    if (over == 0 && !ended_) MPI_Comm_free(&own_);
  }

  std::uint32_t rank() const noexcept override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(size_); }

  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    if (ended_) throw *ended_;
    for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
      const auto piece = bytes.subspan(at, std::min(piece_bytes, bytes.size() - at));
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, static_cast<int>(to),
                      message_tag, own_, &request),
            "MPI_Isend");
      wait_for(request, static_cast<int>(to));
    }
  }

  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    if (ended_) throw *ended_;
    for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
      const auto piece = bytes.subspan(at, std::min(piece_bytes, bytes.size() - at));
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE,
                      static_cast<int>(from), message_tag, own_, &request),
            "MPI_Irecv");
      wait_for(request, static_cast<int>(from));
    }
  }

  void fail(std::string_view reason) noexcept override {
    if (!ended_) end(rank_, reason);
  }

 private:
  void wait_for(MPI_Request& request, int other) {
    const auto until = std::chrono::steady_clock::now() + timeout_;
    for (unsigned tests = 0;; ++tests) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return;
      if (const auto said = next_failure()) give_up(request, said->rank, said->reason.data());
      if (tests < busy_tests) {
        std::this_thread::yield();
        continue;
      }
      if (std::chrono::steady_clock::now() > until) {
        give_up(request, other,
                "it did not come within " + std::to_string(timeout_.count()) + " ms");
      }
      std::this_thread::sleep_for(between_tests);
    }
  }

  std::optional<failure> next_failure() {
    int there = 0;
    MPI_Status of = {};
    check(MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, own_, &there, &of), "MPI_Iprobe");
    if (there == 0) return std::nullopt;
    failure said;
    check(
        MPI_Recv(&said, sizeof said, MPI_BYTE, of.MPI_SOURCE, failure_tag, own_, MPI_STATUS_IGNORE),
        "MPI_Recv");
    said.reason.back() = 0;
    return said;
  }

  // A message that nobody receives any more can be given back, one that nobody sends too.
  [[noreturn]] void give_up(MPI_Request& request, int because_of, const std::string& reason) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    end(because_of, reason);
    throw *ended_;
  }

  // The packets of failures are small enough that MPI copies them, and stay until the process ends
  // in case it does not.
  void end(int because_of, std::string_view reason) noexcept {
    auto* const said = new (std::nothrow) failure;
    if (said != nullptr) {
      said->rank = because_of;
      std::memcpy(said->reason.data(), reason.data(),
                  std::min(reason.size(), said->reason.size() - 1));
      for (int other = 0; other < size_; ++other) {
        if (other == rank_) continue;
        MPI_Request request = MPI_REQUEST_NULL;
        if (MPI_Isend(said, sizeof *said, MPI_BYTE, other, failure_tag, own_, &request) ==
            MPI_SUCCESS) {
          MPI_Request_free(&request);
        }
      }
    }
    ended_.emplace(errc::rank_failed, name_of(because_of), std::string(reason));
  }

  MPI_Comm own_;
  const std::chrono::milliseconds timeout_;
  int rank_ = 0;
  int size_ = 1;
  std::optional<error> ended_;  // What every call fails with.
};

}  // namespace

std::unique_ptr<group> mpi_group(MPI_Comm among, std::chrono::milliseconds timeout) {
  int begun = 0;
  MPI_Initialized(&begun);
  int level = MPI_THREAD_SINGLE;
  if (begun != 0) MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) {
    throw error(errc::invalid_limits, "MPI",
                "it was not begun with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
  }
  MPI_Comm own = MPI_COMM_NULL;
  check(MPI_Comm_dup(among, &own), "MPI_Comm_dup");
  return std::make_unique<mpi_ranks>(own, timeout);
}

}  // namespace ringload::inline v0
