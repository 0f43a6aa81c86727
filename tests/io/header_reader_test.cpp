// SPDX-License-Identifier: Apache-2.0

// Headers read by threads. tests/real_faults/distant_mount.sh has reads that stall.

#include "io/header_reader.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"
#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"
#include "support/written_file.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr ::dev_t mount = 1;

class noise_header {
 public:
  explicit noise_header(std::size_t bytes) : text_(noise(bytes, 1)) { write_file(path_, text_); }

  // Open for direct reads. Empty if the file system refuses them.
  unique_fd open() const {
    return unique_fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  }
  // The number of bytes that arrive, or -errno. -1 if the bytes are not those of the file.
  std::ptrdiff_t read(header_reader& reader, int fd, std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> into(bytes);
    const auto arrived = reader.read(fd, mount, offset, into, counts);
    if (!arrived) return -arrived.error().code.value();
    const bool equal = *arrived == 0 || std::memcmp(into.data(), &text_[offset], *arrived) == 0;
    return equal ? static_cast<std::ptrdiff_t>(*arrived) : -1;
  }

  second_read_counts counts;

 private:
  const temporary_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "header";
  const std::string text_;
};

}  // namespace

TEST_CASE("header_reader: reads any range, up to the end of the file") {
  noise_header header(10'000);
  header_reader reader;
  CHECK(reader.thread_count() == 0);
  const unique_fd fd = header.open();
  if (!fd) return skip("no direct reads of files in the temporary folder");
  CHECK(header.read(reader, fd.get(), 0, 8) == 8);
  CHECK(header.read(reader, fd.get(), 4095, 2) == 2);
  CHECK(header.read(reader, fd.get(), 5000, 5000) == 5000);
  CHECK(header.read(reader, fd.get(), 0, 10'000) == 10'000);
  CHECK(header.read(reader, fd.get(), 9999, 4096) == 1);
  CHECK(header.read(reader, fd.get(), 10'000, 10) == 0);
  CHECK(reader.thread_count() > 0);
  CHECK(header.counts.issued == 0);
}

TEST_CASE("header_reader: an error is the error of the file") {
  header_reader reader;
  second_read_counts counts;
  const temporary_folder folder;
  const unique_fd fd(::open(folder.path().c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  std::vector<std::byte> into(8);
  const auto arrived = reader.read(fd.get(), mount, 0, into, counts);
  REQUIRE(!arrived);
  CHECK(arrived.error().code == system_code(EISDIR));
}

TEST_CASE("header_reader: a call after the end is refused") {
  noise_header header(100);
  header_reader reader;
  reader.join();
  CHECK(reader.thread_count() == 0);
  const unique_fd fd = header.open();
  if (!fd) return skip("no direct reads of files in the temporary folder");
  CHECK(header.read(reader, fd.get(), 1, 7) == -EAGAIN);
}

TEST_CASE("header_reader: of more callers than threads, some are refused") {
  noise_header header(100'000);
  header_reader reader;
  const unique_fd fd = header.open();
  if (!fd) return skip("no direct reads of files in the temporary folder");
  std::vector<std::thread> callers;
  std::vector<int> wrong(20);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    callers.emplace_back([&, i] {
      for (std::size_t n = 0; n < 50; ++n) {
        const std::ptrdiff_t arrived = header.read(reader, fd.get(), 1000 * n + i, 3000);
        if (arrived != 3000 && arrived != -EAGAIN) ++wrong[i];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const int count : wrong) CHECK(count == 0);
}
