// SPDX-License-Identifier: Apache-2.0
#include "run_program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <ringload/error.hpp>
#include <string>

#include "interrupts.hpp"
#include "output.hpp"

namespace ringload::tool {

namespace {

// If a standard stream is closed, the next file opened would get its descriptor, and output meant
// for the stream would be written into that file. So /dev/null takes its place.
void keep_standard_streams_apart() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // Opened in the wrong direction, so that using the stream still fails. It gets the descriptor
    // `fd`, the lowest free one.
    ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int run_program(std::string_view program, const std::function<void()>& command) {
  // So that writes to a closed pipe or past a file's size limit fail with an error instead.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  keep_standard_streams_apart();
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
    complain(program, std::string("error: ") + failed.what());
    return 1;
  } catch (const boost::system::system_error& failed) {
    // Of Asio's: its own words name its source file.
    complain(program, std::string("error: ") + error(failed.code(), {}, {}).what());
    return 1;
  } catch (const std::exception& failed) {
    complain(program, std::string("error: ") + failed.what());
    return 1;
  }
}

}  // namespace ringload::tool
