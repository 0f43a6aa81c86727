// SPDX-License-Identifier: Apache-2.0

// ringload, the command-line tool: what was asked for is parsed, done, and turned into an exit
// code.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <ringload/error.hpp>
#include <string>
#include <variant>

#include "command_line.hpp"
#include "commands.hpp"
#include "interrupts.hpp"
#include "output.hpp"

namespace ringload::tool {

namespace {

struct run_command {
  output& out;

  void operator()(const text_request& request) const {
    out.write(request.text);
    out.flush();
  }
  void operator()(const ls_request& request) const { list_catalog(request, out); }
  void operator()(const load_request& request) const { load_checkpoint(request, out); }
  void operator()(const sum_request& request) const { sum_tensors(request, out); }
  void operator()(const verify_request& request) const { verify_checkpoint(request, out); }
  void operator()(const make_request& request) const { make_checkpoint(request, out); }
};

// Where a standard stream is closed, the first file that we open would take its number, and what is
// meant for the stream would be written into that file.
void keep_standard_streams_apart() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The wrong way round, so that using the stream fails, as it does on a closed one. It takes the
    // number `fd`, the lowest that is free.
    ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int run(int argc, const char* const* argv) {
  // A write past a pipe's reader or a file's size limit fails then, and is reported.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  keep_standard_streams_apart();
  try {
    const any_request asked = parse_command_line(argc, argv);
    output out;
    std::visit(run_command{out}, asked);
    return 0;
  } catch (const usage_error& wrong) {
    complain(std::string("usage: ") + wrong.what());
    return 2;
  } catch (const interrupted& by) {
    complain("interrupted");
    return 128 + by.signal;
  } catch (const reader_gone&) {
    return 1;
  } catch (const std::bad_alloc&) {
    complain("error: memory: out of memory");
    return 1;
  } catch (const error& failed) {
    complain(std::string(failed.place().empty() ? "error: ringload: " : "error: ") + failed.what());
    return 1;
  } catch (const std::exception& failed) {
    complain(std::string("error: ringload: ") + failed.what());
    return 1;
  }
}

}  // namespace

}  // namespace ringload::tool

int main(int argc, char** argv) { return ringload::tool::run(argc, argv); }
