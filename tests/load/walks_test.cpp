// SPDX-License-Identifier: Apache-2.0

// In a fill, a load with a window, and a load of compressed tensors, each awaited operation fails
// once, and the load is cancelled at each. The load must end with the right error, and must write
// only to its destinations.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <functional>
#include <ringload/ringload.hpp>
#include <span>
#include <string>
#include <vector>

#include "formats/codec/zstd_frame.hpp"
#include "formats/zt_text.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/places.hpp"
#include "support/scripted_device.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

const boost::system::error_code walk_error(EIO, boost::system::system_category());
const boost::system::error_code lacks_memory = errc::memory_exceeded;
const boost::system::error_code fine_end;

// A .zt file of one tensor, compressed by zstd.
std::string zstd_file_text(const std::string& content) {
  std::vector<std::byte> frame;
  auto encoder = zstd_frame_encoder::make(zstd_level_default);
  REQUIRE(encoder.has_value());
  REQUIRE((*encoder)->encode(std::as_bytes(std::span(content)), frame).has_value());
  const std::string blob(reinterpret_cast<const char*>(frame.data()), frame.size());
  const std::string component = zt_component_text(
      "u8", 64, blob.size(),
      {{"encoding", cbor_text("zstd")}, {"uncompressed_length", cbor_number(content.size())}});
  const std::string object = zt_object_text({content.size()}, "dense", {{"data", component}});
  return zt_text(zt_index_text({{"t", object}}), blob);
}

// The files of the tests: a staged tensor, and tensors compressed by deflate and zstd.
struct walked_files {
  made_file plain{{{"a", 999}, f32("b", 10'000), {"c", 150'000}, {"d", 70'001}}, 3};
  npz_file deflated{
      {member("long", npy_text("|u1", false, "400000,", compressible(400'000, 3)), true),
       member("raw", npy_text("|u1", false, "90000,", noise(90'000, 4)), false),
       member("short", npy_text("|u1", false, "999,", compressible(999, 5)), true)}};
  made_file zstd{made_file::as_it_is::text, zstd_file_text(compressible(400'000, 6))};
  std::vector<std::string> names{plain.name(), deflated.name(), zstd.name()};
};

checkpoint opened_plainly(const std::string& name) {
  loader with(host(), small_options());
  return get(with.open_async(name, use_future));
}

model loaded_plainly(const checkpoint& from) {
  loader with(host(), small_options());
  return get(with.load_async(from, use_future));
}

// Checks a fill that has ended: the tensors that it reports as whole are correct, and no other byte
// has changed.
void check_filled(places& memory, const std::exception_ptr& failure) {
  CHECK(memory.guards_are_whole());
  if (!failure) {
    CHECK(memory.all_whole());
    return;
  }
  try {
    std::rethrow_exception(failure);
  } catch (const fill_error& e) {
    CHECK(e.whole().size() + e.torn().size() == memory.into().size());
    for (const std::string& name : e.whole()) CHECK(memory.whole(name));
  } catch (const error&) {
    CHECK(memory.untouched());
  }
}

// A fill whose handler runs in this thread, and that can be cancelled.
struct watched_fill {
  asio::io_context context;
  asio::cancellation_signal signal;
  int calls = 0;
  std::exception_ptr failure;

  auto handler() {
    return asio::bind_executor(
        context,
        asio::bind_cancellation_slot(
            signal.slot(), as_exception([this](std::exception_ptr how, const fill_result&) {
              ++calls;
              failure = std::move(how);
            })));
  }
  void end() {
    context.run_for(patience);
    CHECK(calls == 1);
  }
};

constexpr std::uint64_t walked_window = 32 << 20;

// Takes all tensors in order, or until the load fails, and checks each tensor.
boost::system::error_code take_all(tensor_stream& load, const model& whole) {
  for (std::size_t i = 0;; ++i) {
    std::optional<tensor> next;
    try {
      next = get(load.next_async(use_future));
    } catch (const error& e) {
      return e.code();
    } catch (const boost::system::system_error& e) {
      return e.code();
    }
    if (!next) {
      CHECK(i == whole.size());
      return {};
    }
    REQUIRE(i < whole.size());
    CHECK(next->name() == whole[i].name());
    CHECK((bytes_of(*next) == bytes_of(whole[i])));
  }
}

std::vector<read_engine> walked_engines() { return {read_engine::automatic, read_engine::threads}; }

}  // namespace

TEST_CASE("walk: at each read of a fill in turn an error, and then it is cancelled there") {
  const walked_files files;
  for (const std::string& name : files.names) {
    const checkpoint opened = opened_plainly(name);
    const model whole = loaded_plainly(opened);
    for (const read_engine engine : walked_engines()) {
      for (const std::uint32_t slots : {1U, 3U}) {
        CAPTURE(name);
        CAPTURE(slots);
        places all(whole, 77);
        read_script counting;
        {
          scripted_loader with(counting, small_options(slots, engine));
          get(with.fill_async(opened, all.into(), {}, use_future));
          CHECK(all.all_whole());
        }
        const std::uint64_t reads = counting.started();
        REQUIRE(reads >= 3);
        for (std::uint64_t n = 0; n < reads; ++n) {
          CAPTURE(n);
          {
            places memory(whole, 77);
            read_script script([n](const io_request&, std::uint64_t nth) {
              return read_fate{nth == n ? -EIO : read_fate::as_read};
            });
            scripted_loader with(script, small_options(slots, engine));
            watched_fill one;
            with.fill_async(opened, memory.into(), {}, one.handler());
            one.end();
            CHECK(code_of(one.failure) == walk_error);
            check_filled(memory, one.failure);
            places again(whole, 77);
            get(with.fill_async(opened, again.into(), {}, use_future));
            CHECK(again.all_whole());
          }
          for (const auto hold : {read_fate::hold::start, read_fate::hold::completion}) {
            places memory(whole, 77);
            read_script script([n, hold](const io_request&, std::uint64_t nth) {
              return read_fate{.until_released = nth == n ? hold : read_fate::hold::none};
            });
            scripted_loader with(script, small_options(slots, engine));
            watched_fill one;
            with.fill_async(opened, memory.into(), {}, one.handler());
            REQUIRE(script.wait_until_held(1));
            one.signal.emit(asio::cancellation_type::terminal);
            with.settle();
            one.context.poll();
            CHECK(one.calls == 0);
            script.release_all();
            one.end();
            CHECK(code_of(one.failure) == asio::error::operation_aborted);
            check_filled(memory, one.failure);
          }
        }
      }
    }
  }
}

TEST_CASE("walk: at each read through a window an error, and then it is cancelled there") {
  const walked_files files;
  for (const std::string& name : files.names) {
    const model whole = loaded_plainly(opened_plainly(name));
    for (const read_engine engine : walked_engines()) {
      CAPTURE(name);
      read_script counting;
      {
        scripted_loader with(counting, small_options(2, engine), counted_host());
        tensor_stream load = get(with.stream_async(name, walked_window, use_future));
        CHECK(!take_all(load, whole));
      }
      CHECK(arenas_taken == 0);
      for (std::uint64_t n = 0; n < counting.started(); ++n) {
        CAPTURE(n);
        {
          read_script script([n](const io_request&, std::uint64_t nth) {
            return read_fate{nth == n ? -EIO : read_fate::as_read};
          });
          scripted_loader with(script, small_options(2, engine), counted_host());
          tensor_stream load = get(with.stream_async(name, walked_window, use_future));
          CHECK(take_all(load, whole) == walk_error);
          CHECK(code_of(load.next_async(use_future)) == walk_error);
          load = {};
          with.close();
          CHECK(arenas_taken == 0);
        }
        read_script script([n](const io_request&, std::uint64_t nth) {
          return read_fate{.until_released =
                               nth == n ? read_fate::hold::completion : read_fate::hold::none};
        });
        scripted_loader with(script, small_options(2, engine), counted_host());
        tensor_stream load = get(with.stream_async(name, walked_window, use_future));
        auto first = load.next_async(use_future);
        REQUIRE(script.wait_until_held(1));
        load.cancel();
        with.settle();
        script.release_all();
        const auto code = code_of(std::move(first));
        CHECK((!code || code == asio::error::operation_aborted));
        CHECK(code_of(load.next_async(use_future)) == asio::error::operation_aborted);
        load = {};
        with.close();
        CHECK(arenas_taken == 0);
      }
    }
  }
}

TEST_CASE(
    "walk: memory, slots and copies fail each in turn, and it is cancelled while each waits") {
  using fate = device_script::fate;
  const walked_files files;
  for (const std::string& name : files.names) {
    const checkpoint opened = opened_plainly(name);
    const model whole = loaded_plainly(opened);
    for (const bool windowed : {false, true}) {
      bool more = true;
      for (std::uint64_t n = 0; more; ++n) {
        CAPTURE(name);
        CAPTURE(windowed);
        CAPTURE(n);
        REQUIRE(n < 1000);
        for (const fate what : {fate::fails, fate::held}) {
          loader with(scripted_host(), small_options(2));
          the_device_script.begin(n, what);
          make_cold(name);
          if (windowed) {
            tensor_stream load = get(with.stream_async(opened, walked_window, use_future));
            auto next = load.next_async(use_future);
            if (what == fate::held) {
              const auto goes_on = [&] { return !ready(next); };
              if (the_device_script.wait_until_held(goes_on)) load.cancel();
              the_device_script.release();  // Also releases a call that has not started yet.
            }
            auto code = code_of(std::move(next));
            for (std::size_t i = 1; i < whole.size() && !code; ++i) {
              code = code_of(load.next_async(use_future));
            }
            const bool come = the_device_script.calls() > n;
            if (what == fate::fails) CHECK(code == (come ? lacks_memory : fine_end));
            more = come;
          } else {
            places memory(whole, 5);
            watched_fill one;
            with.fill_async(opened, memory.into(), one.handler());
            const auto goes_on = [&] {
              one.context.poll();
              return one.calls == 0;
            };
            if (what == fate::held) {
              if (the_device_script.wait_until_held(goes_on)) {
                one.signal.emit(asio::cancellation_type::terminal);
              }
              the_device_script.release();
            }
            one.context.restart();
            if (one.calls == 0) one.context.run_for(patience);
            CHECK(one.calls == 1);
            const bool come = the_device_script.calls() > n;
            if (what == fate::fails) {
              CHECK(code_of(one.failure) == (come ? lacks_memory : fine_end));
            }
            check_filled(memory, one.failure);
            more = come;
          }
        }
        CHECK(arenas_taken == 0);
      }
    }
  }
}
