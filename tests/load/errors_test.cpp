// SPDX-License-Identifier: Apache-2.0

// Reads that fail: which operations complete with the error, its text, and that no memory leaks.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

const boost::system::error_code io_error(EIO, boost::system::system_category());

std::vector<made_tensor> mixed_tensors() {
  return {{"a", 999}, f32("b", 20'000), {"c", 300'000}, f32("d", 5), {"e", 1}, f32("f", 10'000)};
}

read_script::rule failing(std::uint64_t n, int number) {
  return [=](const io_request&, std::uint64_t nth) {
    return nth == n ? read_fate{-number} : read_fate();
  };
}

// 1234567 -> "1,234,567"
std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

// Returns true if the text names a tensor that has bytes in the read.
bool names_a_tensor_of(const std::string& text, const io_request& read, const catalog& in) {
  for (const tensor_info& t : in.tensors) {
    const bool inside =
        read.file_offset < t.offset + t.bytes && t.offset < read.file_offset + read.bytes;
    if (inside && holds(text, "model.safetensors: tensor '" + t.name + "': ")) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("EIO at the n-th read: the load fails with the place, and frees its memory") {
  const made_file file(mixed_tensors(), 3);
  const catalog described = read_catalog(file.name());
  read_script counting;
  std::uint64_t reads = 0;
  {
    scripted_loader with(counting, small_options(1));
    reads = get(with.load_async(file.name(), {}, use_future)).stats().reads;
  }
  REQUIRE(reads >= 6);
  for (std::uint32_t slots = 1; slots <= 4; slots += 3) {
    for (std::uint64_t n = 0; n < reads; ++n) {
      CAPTURE(n);
      read_script script(failing(n, EIO));
      scripted_loader with(script, small_options(slots), counted_host());
      const auto failed = failure_of(with.load_async(file.name(), {}, use_future));
      CHECK(arenas_taken == 0);
      REQUIRE(failed);
      CHECK(failed->code() == io_error);
      const io_request at = script.log()[n];
      CHECK(names_a_tensor_of(failed->what(), at, described));
      CHECK(holds(failed->what(), ": byte " + with_commas(at.file_offset) + ":"));
      CHECK(holds(failed->what(), "Input/output error"));
      // The loader still works.
      CHECK(first_difference(get(with.load_async(file.name(), {}, use_future))) == "");
    }
  }
}

TEST_CASE("EIO at the n-th read: all operations fail with it, pending and later ones") {
  const made_file file(mixed_tensors(), 3);
  for (std::uint64_t n = 0; n < 6; ++n) {
    CAPTURE(n);
    read_script script([&](const io_request&, std::uint64_t nth) {
      return read_fate{nth == n ? -EIO : read_fate::as_read,
                       nth == 0 ? read_fate::hold::start : read_fate::hold::none};
    });
    scripted_loader with(script, small_options(1), counted_host());
    {
      load_operation load = get(with.start_async(file.name(), {}, use_future));
      std::vector<std::future<tensor>> tensors;
      std::vector<std::future<std::optional<tensor>>> nexts;
      for (const tensor_info& t : load.catalog().tensors) {
        tensors.push_back(load.tensor_async(t.name, use_future));
        nexts.push_back(load.next_async(use_future));
      }
      auto finish = load.finish_async(use_future);
      script.release_all();
      unsigned landed = 0;
      unsigned failed = 0;
      for (auto& one : tensors) {
        const auto code = code_of(std::move(one));
        (code ? failed : landed) += 1;
        CHECK((!code || code == io_error));
      }
      for (auto& one : nexts) {
        const auto code = code_of(std::move(one));
        (code ? failed : landed) += 1;
        CHECK((!code || code == io_error));
      }
      CHECK(failed > 0);
      CHECK(landed == 2 * load.progress().tensors);
      CHECK(code_of(std::move(finish)) == io_error);
      CHECK(code_of(load.finish_async(use_future)) == io_error);
      CHECK(code_of(load.tensor_async("a", use_future)) == io_error);
      CHECK(code_of(load.next_async(use_future)) == io_error);
    }
    with.close();
    CHECK(arenas_taken == 0);
  }
}

TEST_CASE("the first error is kept, and reported once no read is in flight") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script([](const io_request&, std::uint64_t nth) {
    return read_fate{nth == 0 ? -EIO : -ENXIO, read_fate::hold::completion};
  });
  scripted_loader with(script, small_options(3), counted_host());
  auto loaded = with.load_async(file.name(), {}, use_future);
  REQUIRE(script.wait_until_held(3));
  // The order of the starts is known, but the order of the reads is not.
  script.release(0);
  with.settle();
  CHECK_FALSE(ready(loaded));
  script.release_all();
  const auto code = code_of(std::move(loaded));
  CHECK((code == io_error || code.value() == ENXIO));
  CHECK(script.started() == 3);
  CHECK(arenas_taken == 0);
}

TEST_CASE("one load that fails does not harm the others of its loader") {
  const made_file bad(equal_tensors(8, small_slot));
  const made_file good(equal_tensors(8, small_slot));
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  scripted_loader with(script, small_options(1));
  load_operation failing_load =
      get(with.start_async(bad.name(), by(read_route::buffered), use_future));
  REQUIRE(script.wait_until_held(1));
  load_operation other = get(with.start_async(good.name(), by(read_route::buffered), use_future));
  script.follow([bad_fd = script.log()[0].fd](const io_request& what, std::uint64_t nth) {
    return what.fd == bad_fd && nth < 3 ? read_fate{-EIO} : read_fate();
  });
  auto whole = other.finish_async(use_future);
  auto never = failing_load.finish_async(use_future);
  script.release_all();
  CHECK(first_difference(get(std::move(whole))) == "");
  CHECK(code_of(std::move(never)) == io_error);
}

TEST_CASE("EINVAL at the first direct read: the automatic route goes on buffered and says so") {
  const made_file file(mixed_tensors(), 3);
  make_cold(file.path());
  read_script script([](const io_request& what, std::uint64_t) {
    return what.direct ? read_fate{-EINVAL} : read_fate();
  });
  scripted_loader with(script, small_options(2));
  const model loaded = get(with.load_async(file.name(), {}, use_future));
  CHECK(first_difference(loaded) == "");
  if (!script.log()[0].direct) return skip("no direct reads of files in the temporary folder");
  CHECK(loaded.stats().bytes_direct == 0);
  CHECK(loaded.stats().bytes_buffered > 0);
  CHECK(holds(loaded.stats().route_reason, "Invalid argument"));
  CHECK_FALSE(script.log().back().direct);
}

TEST_CASE("EINVAL at the first direct read: the direct route fails and says so") {
  const made_file file(mixed_tensors(), 3);
  read_script script([](const io_request&, std::uint64_t) { return read_fate{-EINVAL}; });
  scripted_loader with(script, small_options(2), counted_host());
  const auto failed = failure_of(with.load_async(file.name(), by(read_route::direct), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::direct_unavailable);
  CHECK(holds(failed->what(), "model.safetensors"));
  CHECK(arenas_taken == 0);
}

TEST_CASE("an exception thrown into the library fails the load, and is reported once") {
  const made_file file({f32("a", 100)});
  loader with(counted_host(), small_options());
  load_options how;
  how.dtype = dtype::bf16;
  SUBCASE("an error of its own kind") {
    how.converts = [](const tensor_info&) -> bool {
      throw error(errc::unsupported_dtype, "the place", "the cause");
    };
    const auto failed = failure_of(with.load_async(file.name(), how, use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::unsupported_dtype);
    CHECK(failed->place() == "the place");
    CHECK(std::string(failed->what()) == "the place: the cause");
  }
  SUBCASE("an error without a place") {
    how.converts = [](const tensor_info&) -> bool { throw error(errc::unsupported_dtype, "", ""); };
    const auto failed = failure_of(with.load_async(file.name(), how, use_future));
    REQUIRE(failed);
    CHECK(failed->place() == "");
    CHECK(failed->code().message() == failed->what());
  }
  SUBCASE("what is no exception of the standard's") {
    how.converts = [](const tensor_info&) -> bool { throw 42; };
    CHECK(failure_of(with.load_async(file.name(), how, use_future)));
  }
  CHECK(arenas_taken == 0);
}

TEST_CASE("a file whose name is no text makes a message of one line") {
  const temporary_folder folder;
  const auto path = folder.path() / "x\n\x1b[31m.safetensors";
  {
    const made_file made(equal_tensors(1, small_slot));
    std::filesystem::copy_file(made.path(), path);
  }
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::completion};
  });
  scripted_loader with(script, small_options());
  auto loaded = with.load_async(path.string(), {}, use_future);
  REQUIRE(script.wait_until_held(1));
  std::filesystem::resize_file(path, 100);
  script.release_all();
  const auto failed = failure_of(std::move(loaded));
  REQUIRE(failed);
  CHECK(failed->code() == errc::truncated_file);
  CHECK_FALSE(holds(failed->what(), "\n"));
  CHECK_FALSE(holds(failed->what(), "\x1b"));
}
