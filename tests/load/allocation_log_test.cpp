// SPDX-License-Identifier: Apache-2.0

// The log of the memory that a loader allocates and frees.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <ringload/ringload.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/logged_allocation.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

struct logged_row {
  std::string call;
  std::string pointer;
  std::uint64_t bytes = 0;
  std::string stack;
};

// The rows of a log, and the memory that is still allocated after the last row.
struct read_log {
  std::vector<logged_row> rows;
  std::map<std::string, logged_row> taken;  // By pointer.

  explicit read_log(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    REQUIRE(std::getline(lines, line));
    CHECK(line == "timestamp,call,pointer,size,stack");
    double last = 0;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string time;
      std::string size;
      logged_row row;
      std::getline(fields, time, ',');
      std::getline(fields, row.call, ',');
      std::getline(fields, row.pointer, ',');
      std::getline(fields, size, ',');
      std::getline(fields, row.stack);
      CHECK(std::stod(time) >= last);
      last = std::stod(time);
      row.bytes = std::stoull(size);
      CHECK(row.pointer.starts_with("0x"));
      REQUIRE(row.stack.size() >= 2);
      CHECK(row.stack.front() == '"');
      CHECK(row.stack.back() == '"');
      follow(row);
      rows.push_back(row);
    }
  }

  std::uint64_t taken_bytes(const std::string& call) const {
    std::uint64_t sum = 0;
    for (const auto& [pointer, row] : taken) sum += row.call == call ? row.bytes : 0;
    return sum;
  }

 private:
  void follow(const logged_row& row) {
    if (row.call == "mmap" || row.call == "pin") {
      CHECK(row.bytes > 0);
      CHECK(taken.try_emplace(row.pointer, row).second);
      return;
    }
    REQUIRE(taken.contains(row.pointer));
    const logged_row before = taken.at(row.pointer);
    CHECK(row.call == (before.call == "mmap" ? "munmap" : "unpin"));
    CHECK(row.bytes == before.bytes);
    taken.erase(row.pointer);
  }
};

[[gnu::noinline]] logged_allocation log_of_caller(const allocation_log& log) {
  return {log, {"pin", "unpin"}, &log, 1};
}

}  // namespace

TEST_CASE("allocation log: the first frame of a stack is the caller's") {
  std::ostringstream text;
  const allocation_log log(text);
  log_of_caller(log).release();
  const read_log found(text.str());
  REQUIRE(found.rows.size() == 2);
  if (found.rows.front().stack == "\"\"") return;  // The C library has no backtrace().
  // A frame is PROGRAM(FUNCTION+OFFSET) [ADDRESS].
  const std::string first = found.rows.front().stack.substr(0, found.rows.front().stack.find(';'));
  REQUIRE(first.find('[') != std::string::npos);
  const std::uint64_t address = std::stoull(first.substr(first.find('[') + 1), nullptr, 16);
  const auto function = reinterpret_cast<std::uint64_t>(&log_of_caller);
  CHECK(address > function);
  CHECK(address < function + 4096);
}

TEST_CASE(
    "allocation log: all that was taken is given back, tensors that outlive the loader last") {
  const made_file file({{"a", 999}, f32("b", 20'000), {"c", 3'000'000}}, 3);
  std::ostringstream text;
  const allocation_log log(text);
  tensor kept;
  {
    loader with(host(), small_options(2), {}, log);
    load_options how;
    how.dtype = dtype::bf16;  // So that slots are needed.
    const model loaded = get(with.load_async(file.name(), how, use_future));
    const read_log now(text.str());
    CHECK(now.taken_bytes("mmap") >= loaded.catalog().size_bytes() - 40'000);
    CHECK(now.taken_bytes("pin") == with.stats().pinned_bytes_peak);
    CHECK(now.taken_bytes("pin") > 0);
    kept = loaded.at("c");
  }
  const read_log after(text.str());
  CHECK(after.taken.size() == 1);
  CHECK(after.taken_bytes("mmap") >= 3'000'000);
  kept = {};
  CHECK(read_log(text.str()).taken.empty());
  CHECK_FALSE(log.failed());
}

TEST_CASE(
    "allocation log: memory that is kept for the next load is not released before the loader") {
  const made_file file(equal_tensors(3, 1'000'000));
  std::ostringstream text;
  {
    loader_options within = small_options(2);
    within.cached_bytes = 64 << 20;
    loader with(host(), within, {}, allocation_log(text));
    for (int i = 0; i < 3; ++i) get(with.load_async(file.name(), use_future));
    const read_log now(text.str());
    CHECK(now.rows.size() == now.taken.size());
    CHECK(now.taken_bytes("mmap") >= 3'000'000);
  }
  CHECK(read_log(text.str()).taken.empty());
}

TEST_CASE("allocation log: memory that came back through a window is not taken anew") {
  // Each tensor is a group of the window, and has its own allocation.
  constexpr int count = 24;
  constexpr std::uint64_t bytes = 3'000'000;
  const made_file file(equal_tensors(count, bytes));
  const auto times_taken = [&](std::uint64_t cached_bytes) {
    std::ostringstream text;
    {
      loader_options within = small_options(2);
      within.cached_bytes = cached_bytes;
      loader with(host(), within, {}, allocation_log(text));
      tensor_stream load = get(with.stream_async(file.name(), 34 << 20, use_future));
      while (get(load.next_async(use_future))) {
      }
    }
    const read_log log(text.str());
    CHECK(log.taken.empty());
    return std::count_if(log.rows.begin(), log.rows.end(), [](const logged_row& row) {
      return row.call == "mmap" && row.bytes >= bytes;
    });
  };
  CHECK(times_taken(0) == count);
  CHECK(times_taken(16 << 20) < count);
}

TEST_CASE("allocation log: failed, cancelled and windowed loads balance as well") {
  const made_file file(equal_tensors(40, 300'000));
  std::ostringstream text;
  {
    loader with(host(), small_options(2), {}, allocation_log(text));
    for (int turn = 0; turn < 8; ++turn) {
      load_operation load = get(with.start_async(file.name(), use_future));
      load.cancel();
    }
    tensor_stream load = get(with.stream_async(file.name(), 32 << 20, use_future));
    while (get(load.next_async(use_future))) {
    }
    CHECK(read_log(text.str()).rows.size() > 10);
  }
  CHECK(read_log(text.str()).taken.empty());
}

TEST_CASE("allocation log: what is taken during a pause is in it neither then nor later") {
  const made_file file(equal_tensors(2, 1'000'000));
  std::ostringstream text;
  const allocation_log log(text);
  {
    loader with(host(), small_options(2), {}, log);
    const model before = get(with.load_async(file.name(), use_future));
    const std::size_t rows = read_log(text.str()).rows.size();
    model during;
    {
      const allocation_log::pause paused(log);
      const allocation_log::pause and_again(log);
      during = get(with.load_async(file.name(), use_future));
      CHECK(read_log(text.str()).rows.size() == rows);
    }
    during = {};
    CHECK(read_log(text.str()).rows.size() == rows);
    const model after = get(with.load_async(file.name(), use_future));
    CHECK(read_log(text.str()).rows.size() == rows + 1);
  }
  CHECK(read_log(text.str()).taken.empty());
}

TEST_CASE("allocation log: a file, one that cannot be made, and a sink that fails") {
  const made_file file(equal_tensors(2, 1'000'000));
  const temporary_folder folder;
  const auto path = folder.path() / "log.csv";
  {
    loader with(host(), small_options(2), {}, allocation_log(path));
    get(with.load_async(file.name(), use_future));
  }
  const read_log written(file_bytes(path.string(), 0, std::filesystem::file_size(path)));
  CHECK(written.rows.size() >= 2);
  CHECK(written.taken.empty());

  try {
    const allocation_log nowhere(folder.path() / "no folder" / "log.csv");
    FAIL("it was made");
  } catch (const error& e) {
    CHECK(e.code().value() == ENOENT);
    CHECK(holds(e.what(), "no folder"));
  }
  CHECK_FALSE(allocation_log());
  CHECK_FALSE(allocation_log().failed());
  std::ostringstream broken;
  const allocation_log log(broken);
  broken.setstate(std::ios::badbit);
  loader with(host(), small_options(2), {}, log);
  CHECK(get(with.load_async(file.name(), use_future)).size() == 2);
  CHECK(log.failed());
}

TEST_CASE("allocation log: a FIFO is refused, and does not block") {
  const temporary_folder in;
  const std::string path = (in.path() / "fifo").string();
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  boost::system::error_code code;
  try {
    const allocation_log log(path);
  } catch (const error& failure) {
    code = failure.code();
  }
  CHECK(code == errc::not_a_regular_file);
}
