// SPDX-License-Identifier: Apache-2.0
#include "run_program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <ringload/error.hpp>
#include <string>

#include "interrupts.hpp"
#include "output.hpp"

namespace ringload::tool {

namespace {

// Opens /dev/null for each standard stream that is closed. Otherwise the next file that the program
// opens would get the descriptor of the stream. Output to the stream would then be written to that
// file.
void keep_standard_streams_apart() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // /dev/null is opened for the opposite direction, so that the use of the stream still fails.
    // The new descriptor is `fd`, because `fd` is the lowest free descriptor.
    ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Raises the soft limit for open files to the hard limit, which the administrator has set. A
// checkpoint with a thousand shards usually needs more files than the soft limit allows.
void raise_limit_of_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Returns the text of the error. A place such as "loader_options::slot_bytes" becomes the option of
// the command line, "--slot-bytes".
std::string message_of(const error& failed) {
  constexpr std::string_view options = "loader_options::";
  std::string text = failed.what();
  if (!failed.place().starts_with(options)) return text;
  text.replace(0, options.size(), "--");
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(text.find(':'));
  std::replace(text.begin(), end, '_', '-');
  return text;
}

}  // namespace

int run_program(std::string_view program, const std::function<void()>& command) {
  // Ignores two signals, so that a write to a closed pipe, or beyond the limit for file sizes,
  // returns an error.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  keep_standard_streams_apart();
  raise_limit_of_open_files();
  try {
    command();
    return 0;
  } catch (const usage_error& wrong) {
    complain(program, std::string("usage: ") + wrong.what());
    return 2;
  } catch (const interrupted& by) {
    complain(program, "interrupted");
    return 128 + by.signal;
  } catch (const reader_gone&) {
    return 1;
  } catch (const std::bad_alloc&) {
    complain(program, "error: memory: out of memory");
    return 1;
  } catch (const error& failed) {
    complain(program, "error: " + message_of(failed));
    return 1;
  } catch (const boost::system::system_error& failed) {
    // An error of Asio. Its own text would contain the name of a source file of Asio.
    complain(program, std::string("error: ") + error(failed.code(), {}, {}).what());
    return 1;
  } catch (const std::exception& failed) {
    complain(program, std::string("error: ") + failed.what());
    return 1;
  }
}

}  // namespace ringload::tool
