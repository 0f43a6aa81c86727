// SPDX-License-Identifier: Apache-2.0
#include "base/file_io.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

struct open_text {
  explicit open_text(std::string_view text)
      : fd(::open((folder.path() / "text").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    REQUIRE(write_fully(fd.get(), 0, std::as_bytes(std::span(text))).has_value());
  }
  temporary_folder folder;
  unique_fd fd;
};

}  // namespace

TEST_CASE("read_fully: returns the bytes at an offset, and fewer at the end of the file") {
  const open_text file("0123456789");
  std::string text(4, '.');
  CHECK(*read_fully(file.fd.get(), 3, std::as_writable_bytes(std::span(text))) == 4);
  CHECK(text == "3456");
  CHECK(*read_fully(file.fd.get(), 8, std::as_writable_bytes(std::span(text))) == 2);
  CHECK(text == "8956");
  CHECK(*read_fully(file.fd.get(), 10, std::as_writable_bytes(std::span(text))) == 0);
}

TEST_CASE("write_fully: replaces the bytes at an offset and leaves the others") {
  const open_text file("0123456789");
  const std::string_view replaced = "ab";
  REQUIRE(write_fully(file.fd.get(), 2, std::as_bytes(std::span(replaced))).has_value());
  std::string text(10, '.');
  CHECK(*read_fully(file.fd.get(), 0, std::as_writable_bytes(std::span(text))) == 10);
  CHECK(text == "01ab456789");
}

TEST_CASE("read_fully, write_fully: a refused call is an error with its number") {
  std::array<std::byte, 1> byte = {};
  CHECK(read_fully(-1, 0, byte).error().code == system_code(EBADF));
  CHECK(write_fully(-1, 0, byte).error().code == system_code(EBADF));
}

TEST_CASE("uninterrupted: repeats a call that a signal interrupts, and no other failure") {
  int calls = 0;
  CHECK(uninterrupted([&] {
          errno = EINTR;
          return ++calls < 3 ? -1 : 7;
        }) == 7);
  CHECK(calls == 3);
  CHECK(uninterrupted([&] {
          errno = EIO;
          ++calls;
          return -1;
        }) == -1);
  CHECK(errno == EIO);
  CHECK(calls == 4);
}
