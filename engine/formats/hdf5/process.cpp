// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <ringload/hdf5.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "formats/hdf5/pipe_protocol.hpp"

namespace ringload::inline v0::h5 {

namespace {

using clock = std::chrono::steady_clock;

fault system_fault(int error_number, std::string action) {
  return {{error_number, boost::system::system_category()}, std::move(action)};
}

// The start state of the process: descriptor 0 is the file, descriptor 1 is the pipe, and no signal
// is blocked or ignored.
class spawn_settings {
 public:
  spawn_settings(int file, int pipe) noexcept {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    // Copies the descriptors to unused numbers first, so that dup2() cannot close a descriptor that
    // is still needed.
    const int base = std::max({file, pipe, 2}) + 1;
    record_error(::posix_spawn_file_actions_adddup2(&actions_, file, base));
    record_error(::posix_spawn_file_actions_adddup2(&actions_, pipe, base + 1));
    record_error(::posix_spawn_file_actions_adddup2(&actions_, base, 0));
    record_error(::posix_spawn_file_actions_adddup2(&actions_, base + 1, 1));
    record_error(::posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0));
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    record_error(::posix_spawn_file_actions_addclosefrom_np(&actions_, 3));
#endif
    ::sigset_t signals;
    ::sigemptyset(&signals);
    record_error(::posix_spawnattr_setsigmask(&attributes_, &signals));
    ::sigfillset(&signals);
    record_error(::posix_spawnattr_setsigdefault(&attributes_, &signals));
    record_error(
        ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  spawn_settings(const spawn_settings&) = delete;
  spawn_settings& operator=(const spawn_settings&) = delete;
  ~spawn_settings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  // Returns 0 or an errno.
  int start(const hdf5_process& settings, pid_t& id) {
    if (error_number_ != 0) return error_number_;
    std::string memory = std::to_string(settings.memory_bytes_max);
    std::string name = settings.program;
    std::string first = process_argument;
    std::array<char*, 4> arguments = {name.data(), first.data(), memory.data(), nullptr};
    std::array<char*, 1> environment = {nullptr};
    return ::posix_spawn(&id, settings.program.c_str(), &actions_, &attributes_, arguments.data(),
                         environment.data());
  }

 private:
  void record_error(int error_number) noexcept {
    if (error_number_ == 0) error_number_ = error_number;
  }

  ::posix_spawn_file_actions_t actions_;
  ::posix_spawnattr_t attributes_;
  int error_number_ = 0;
};

// end() kills the process if the process is still running, and returns its wait status. If another
// part of the program has already read the status, end() returns 0. In this case, the process
// number may belong to another process. Therefore end() uses a process descriptor (pidfd) if the
// kernel supports pidfds.
class running_process {
 public:
  explicit running_process(pid_t id) noexcept
      : id_(id), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, id, 0))) {}
  running_process(const running_process&) = delete;
  running_process& operator=(const running_process&) = delete;
  ~running_process() { end(); }

  int end() noexcept {
    if (id_ < 0) return 0;
    // If the process has already ended, the signal has no effect.
    if (pidfd_) {
      ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
    } else {
      ::kill(id_, SIGKILL);
    }
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = 0;
      break;
    }
    id_ = -1;
    return status;
  }

 private:
  pid_t id_;
  const unique_fd pidfd_;  // Empty before Linux 5.3.
};

// Reads until the other end of the pipe is closed, or more than `bytes_max` bytes were read.
// Returns false if the deadline is reached.
result<bool> read_to_end(int pipe, clock::time_point deadline, std::size_t bytes_max,
                         std::vector<std::byte>& out) {
  std::size_t arrived = 0;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    if (left.count() <= 0) return false;
    constexpr std::chrono::milliseconds once{1'000'000};
    ::pollfd waiting = {pipe, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min(left, once).count()));
    if (ready < 0 && errno != EINTR) return system_fault(errno, "poll");
    if (ready <= 0) continue;
    if (out.size() - arrived < (std::size_t{64} << 10)) {
      out.resize(std::max(std::size_t{64} << 10, 2 * out.size()));
    }
    const ssize_t got = ::read(pipe, out.data() + arrived, out.size() - arrived);
    if (got < 0 && errno != EINTR) return system_fault(errno, "read");
    if (got < 0) continue;
    arrived += static_cast<std::size_t>(got);
    if (got == 0 || arrived > bytes_max) {
      out.resize(arrived);
      return true;
    }
  }
}

fault no_answer(int status, const std::string& program) {
  std::string cause = "the parsing process (" + program + ") returned no result";
  if (WIFSIGNALED(status)) {
    cause = "libhdf5 crashed while it parsed the file: its process was ended by signal " +
            std::to_string(WTERMSIG(status));
  } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    cause += ": it ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return {errc::malformed_header, "", std::move(cause)};
}

}  // namespace

result<hdf5_contents> describe_in_process(int file, const hdf5_process& settings,
                                          std::size_t message_bytes) {
  std::array<int, 2> pipe_ends = {};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return system_fault(errno, "pipe");
  const unique_fd reading(pipe_ends[0]);
  unique_fd writing(pipe_ends[1]);
  pid_t id = -1;
  const int refused = spawn_settings(file, writing.get()).start(settings, id);
  if (refused != 0) {
    return fault{{refused, boost::system::system_category()},
                 "hdf5_process::program",
                 "'" + settings.program + "' cannot be run: " + std::strerror(refused)};
  }
  running_process process(id);
  writing = unique_fd();
  std::vector<std::byte> message;
  // A longer time could overflow the clock.
  const auto limit =
      std::min<std::chrono::milliseconds>(settings.time_max, std::chrono::hours(24 * 365));
  auto ended = read_to_end(reading.get(), clock::now() + limit, message_bytes, message);
  const int status = process.end();
  if (!ended) return ended.error();
  if (!*ended) {
    return fault{errc::malformed_header, "",
                 "libhdf5 was still parsing after " + std::to_string(settings.time_max.count()) +
                     " ms, so its process was ended"};
  }
  if (message.size() > message_bytes) {
    return fault{errc::header_too_large, "",
                 "the parsing process (" + settings.program + ") returned more than " +
                     grouped(message_bytes) + " bytes, so it was ended"};
  }
  if (!is_whole_message(message)) return no_answer(status, settings.program);
  return decode_message(message);
}

}  // namespace ringload::inline v0::h5

namespace ringload::inline v0 {

namespace {

class library_in_process final : public hdf5_library {
 public:
  explicit library_in_process(hdf5_process settings) : settings_(std::move(settings)) {}

  result<hdf5_contents> describe(int file) const override {
    return h5::describe_in_process(file, settings_);
  }

 private:
  const hdf5_process settings_;
};

}  // namespace

extension hdf5(hdf5_process settings) {
  return extension(std::make_shared<const library_in_process>(std::move(settings)));
}

}  // namespace ringload::inline v0
