// SPDX-License-Identifier: Apache-2.0
#include "base/fault.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/system/generic_category.hpp>
#include <boost/system/system_category.hpp>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <fstream>
#include <set>
#include <string>

using namespace ringload;

namespace {

// The codes have all values from 1 to this one.
constexpr int last_code = static_cast<int>(errc::not_restored);

std::string message(int value) { return category().message(value); }

}  // namespace

TEST_CASE("errc: every code has a message of its own, and no other number has one") {
  std::set<std::string> messages;
  for (int value = 1; value <= last_code; ++value) {
    CAPTURE(value);
    CHECK(message(value).find("unknown error") == std::string::npos);
    CHECK_FALSE(message(value).empty());
    messages.insert(message(value));
  }
  CHECK(messages.size() == static_cast<std::size_t>(last_code));
  CHECK(message(0) == "unknown error 0");
  CHECK(message(last_code + 1) == "unknown error " + std::to_string(last_code + 1));
  CHECK(message(-1) == "unknown error -1");
}

TEST_CASE("errc: becomes an error_code of ringload's category, and is a failure") {
  const boost::system::error_code code = errc::truncated_file;
  CHECK(code.category() == category());
  CHECK(std::string(code.category().name()) == "ringload");
  CHECK(code.failed());
  CHECK(code == errc::truncated_file);
  CHECK(code != errc::changed_file);
  CHECK(code.message() == "the file became shorter while it was read");
}

TEST_CASE("message_of: is the place, a colon and the cause") {
  CHECK(message_of({errc::extent_outside_file, "a.safetensors: tensor 'w'", "it ends at 4,096"}) ==
        "a.safetensors: tensor 'w': it ends at 4,096");
  CHECK(message_of({errc::extent_outside_file, "a.safetensors"}) ==
        "a.safetensors: tensor data ends past the end of the file");
  CHECK(message_of({errc::memory_exceeded, "", "it needs 2 bytes"}) == "it needs 2 bytes");
  CHECK(message_of({errc::memory_exceeded, ""}) == "not enough memory");
}

TEST_CASE("message_of: a limit that was reached is named") {
  CHECK(message_of({system_code(EMFILE), "a.safetensors"}) ==
        "a.safetensors: Too many open files: the limit of this process is reached (RLIMIT_NOFILE, "
        "ulimit -n)");
  CHECK(message_of({system_code(ENFILE), ""}) ==
        "Too many open files in system: the system's limit is reached (fs.file-max)");
  CHECK(message_of({system_code(EMFILE), "", "a cause of its own"}) == "a cause of its own");
  CHECK(message_of(thread_refused(EAGAIN)) ==
        "a thread could not be started: Resource temporarily unavailable: a limit of threads is "
        "reached (ulimit -u, or the control group's pids.max)");
  CHECK(message_of(thread_refused(EPERM)) ==
        "a thread could not be started: Operation not permitted");
  CHECK(thread_refused(EAGAIN).code == system_code(EAGAIN));
}

TEST_CASE("thread_refused: the limit of address space is named if it leaves no room for a stack") {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  if (!(statm >> pages)) {
    MESSAGE("skipped: there is no /proc");
    return;
  }
  const ::rlim_t taken = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  ::rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  const ::rlimit tight = {taken + (1 << 20), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_AS, &tight) == 0);
  const fault refused = thread_refused(EAGAIN);
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(refused.cause().find("ulimit -v") != std::string::npos);
  CHECK(refused.cause().find("ulimit -u") == std::string::npos);
}

TEST_CASE("fault: each layer puts its place before those further in") {
  const fault inner{errc::truncated_file, "byte 4,000", "gone"};
  const fault outer = inner.in("tensor 'w'").in("model.safetensors");
  CHECK(outer.where() == "model.safetensors: tensor 'w': byte 4,000");
  CHECK(outer.cause() == "gone");
  CHECK(outer.code == errc::truncated_file);
  CHECK(inner.where() == "byte 4,000");

  const fault placeless{errc::truncated_file, ""};
  CHECK(placeless.in("model.safetensors").where() == "model.safetensors");
}

TEST_CASE("system_code: errno keeps the system's category and words") {
  const boost::system::error_code code = system_code(ENOENT);
  CHECK(code.category() == boost::system::system_category());
  CHECK(code.value() == ENOENT);
  CHECK(code == boost::system::errc::no_such_file_or_directory);
  CHECK(message_of({code, "x.safetensors"}) == "x.safetensors: No such file or directory");
  CHECK_FALSE(system_code(0).failed());
}

TEST_CASE("error: carries the code, the place and one sentence") {
  const error e =
      to_error({errc::malformed_header, "a.safetensors: byte 12", "a comma is missing"});
  CHECK(e.code() == errc::malformed_header);
  CHECK(e.place() == "a.safetensors: byte 12");
  CHECK(std::string(e.what()) == "a.safetensors: byte 12: a comma is missing");

  const error of_system = to_error({system_code(EACCES), "a.safetensors"});
  CHECK(of_system.code().category() == boost::system::system_category());
  CHECK(std::string(of_system.what()) == "a.safetensors: Permission denied");
}

TEST_CASE("error: is caught as a system_error, and a copy says the same") {
  std::string said;
  try {
    throw to_error({errc::no_such_tensor, "tensor 'w'"});
  } catch (const boost::system::system_error& e) {
    CHECK(e.code() == errc::no_such_tensor);
    said = e.what();
  }
  CHECK(said == "tensor 'w': no such tensor");

  const error first({errc::no_such_tensor}, "tensor 'w'", "");
  const error copy = first;
  CHECK(std::string(copy.what()) == first.what());
  CHECK(copy.place() == "tensor 'w'");
}

TEST_CASE("result: value() of a failed one throws ringload::error") {
  const result<int> failed = fault{errc::memory_exceeded, "the arena", "too large"};
  CHECK_FALSE(failed.has_value());
  CHECK_THROWS_WITH_AS(failed.value(), "the arena: too large", error);
  const result<int> good = 7;
  CHECK(good.value() == 7);
}

TEST_CASE("grouped: puts a comma before every three digits") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(4096) == "4,096");
  CHECK(grouped(123'456) == "123,456");
  CHECK(grouped(1'000'000) == "1,000,000");
  CHECK(grouped(UINT64_MAX) == "18,446,744,073,709,551,615");
}
