// SPDX-License-Identifier: Apache-2.0

// load_async and start_async: their results and statistics.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <ringload/ringload.hpp>
#include <set>

#include "support/checkpoint_folder.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<std::string> names(const model& of) {
  std::vector<std::string> all;
  for (const tensor t : of) all.emplace_back(t.name());
  return all;
}

}  // namespace

TEST_CASE("load_async: loads one file") {
  const made_file file({{"a", 1000}, f32("b", 30'000), {"c", 7}});
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(names(loaded) == std::vector<std::string>{"a", "b", "c"});
  CHECK(first_difference(loaded) == "");
  CHECK(loaded.at("b").dtype() == dtype::f32);
  CHECK(loaded.at("b").shape().size() == 1);
  CHECK(loaded.at("b").shape()[0] == 30'000);
  CHECK(loaded.at("b").size_bytes() == 120'000);
  CHECK(loaded.at("b").device() == host());
  CHECK(with.device() == host());
}

TEST_CASE("load_async: loads shards by their index, and by their folder") {
  const temporary_folder folder;
  write_file(folder.path() / "model-00001-of-00002.safetensors",
             checkpoint_text({{"a", 70'000}, {"b", 3}}, 1, 1));
  write_file(folder.path() / "model-00002-of-00002.safetensors",
             checkpoint_text({{"c", 5}, {"d", 200'001}}, 2, 2));
  write_file(folder.path() / "model.safetensors.index.json",
             index_text({{"a", "model-00001-of-00002.safetensors"},
                         {"b", "model-00001-of-00002.safetensors"},
                         {"c", "model-00002-of-00002.safetensors"},
                         {"d", "model-00002-of-00002.safetensors"}}));
  loader with(host(), small_options());
  for (const auto& source : {folder.path(), folder.path() / "model.safetensors.index.json"}) {
    const model loaded = get(with.load_async(source.string(), use_future));
    CHECK(loaded.size() == 4);
    CHECK(loaded.catalog().files.size() == 2);
    CHECK(first_difference(loaded) == "");
  }
}

TEST_CASE("load_async: loads a checkpoint without tensors") {
  const made_file file(std::vector<made_tensor>{});
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(loaded.empty());
  CHECK(loaded.begin() == loaded.end());
  CHECK(loaded.stats().reads == 0);
  load_operation load = get(with.start_async(file.name(), use_future));
  CHECK_FALSE(get(load.next_async(use_future)).has_value());
  CHECK(get(load.finish_async(use_future)).empty());
}

TEST_CASE("load_async: loads a checkpoint of tensors of 0 bytes") {
  const made_file file({{"none", 0}, f32("nothing", 0)});
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(loaded.size() == 2);
  CHECK(loaded.at("none").size_bytes() == 0);
  CHECK(loaded.at("none").data() != nullptr);
  CHECK(loaded.at("nothing").data() != nullptr);
  CHECK(loaded.stats().reads == 0);
  CHECK(loaded.stats().tensors == 2);
  load_operation load = get(with.start_async(file.name(), use_future));
  CHECK(get(load.tensor_async("nothing", use_future)).name() == "nothing");
  CHECK(get(load.next_async(use_future)).has_value());
  CHECK(get(load.next_async(use_future)).has_value());
  CHECK_FALSE(get(load.next_async(use_future)).has_value());
}

TEST_CASE("load_async: says what is wrong with the source") {
  const made_file bad(made_file::as_it_is::text, std::string("\x04\0\0\0\0\0\0\0nope", 12));
  loader with(host(), small_options());
  const auto missing = failure_of(with.load_async("/no/such/file", use_future));
  REQUIRE(missing);
  CHECK(missing->code() == errc::source_not_found);
  CHECK(holds(missing->what(), "/no/such/file"));
  const auto malformed = failure_of(with.start_async(bad.name(), use_future));
  REQUIRE(malformed);
  CHECK(malformed->code() == errc::malformed_header);
  CHECK(holds(malformed->what(), "model.safetensors"));
}

TEST_CASE("model: finds tensors by name and by position, in the order of the file") {
  const made_file file({{"z", 10}, {"a", 20}, {"", 30}});
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(names(loaded) == std::vector<std::string>{"z", "a", ""});
  CHECK(loaded[1].name() == "a");
  CHECK(loaded.at("").size_bytes() == 30);
  CHECK(loaded.find("a").data() == loaded.at("a").data());
  CHECK_FALSE(loaded.find("b"));
  try {
    loaded.at("b");
    FAIL("a tensor that is not there was given");
  } catch (const error& e) {
    CHECK(e.code() == errc::no_such_tensor);
    CHECK(holds(e.what(), "'b'"));
  }
  auto it = loaded.begin();
  CHECK((*it++).name() == "z");
  CHECK((*it).name() == "a");
}

TEST_CASE("model: one that was made empty has no tensors") {
  const model empty;
  CHECK(empty.empty());
  CHECK(empty.catalog().tensors.empty());
  CHECK(empty.stats().bytes == 0);
  CHECK_FALSE(empty.find("a"));
  CHECK_THROWS_AS(empty.at("a"), const error&);
}

TEST_CASE("stats: bytes, route, engine and reasons") {
  const std::uint64_t bytes = 5 * 100'000;
  const made_file file(equal_tensors(5, 100'000));
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), by(read_route::buffered), use_future));
  REQUIRE(loaded.stats_of_files().size() == 1);
  CHECK(model().stats_of_files().empty());
  const load_stats& s = loaded.stats();
  CHECK(loaded.stats_of_files().front().bytes_read == s.bytes_buffered);
  CHECK(loaded.stats_of_files().front().seconds_device_wait == 0);  // No copy was needed.
  CHECK(s.seconds_device_wait == 0);
  const file_info& info = loaded.catalog().files.front();
  CHECK(info.header_bytes == info.bytes - bytes);
  CHECK(s.header_bytes == info.header_bytes);
  CHECK(s.bytes == bytes);
  CHECK(s.bytes_total == bytes);
  CHECK(s.tensors == 5);
  CHECK(s.tensors_total == 5);
  CHECK(s.bytes_direct == 0);
  CHECK(s.bytes_buffered >= bytes);
  CHECK(s.bytes_unstaged == s.bytes_buffered);  // U8 needs no alignment.
  CHECK(s.reads >= bytes / small_slot);
  CHECK(s.short_reads == 0);
  CHECK(s.retries == 0);
  CHECK(s.seconds > 0);
  CHECK(s.seconds_opening > 0);
  CHECK(s.seconds_to_first_tensor >= s.seconds_opening);
  CHECK(s.seconds >= s.seconds_to_first_tensor);
  CHECK(s.engine != read_engine::automatic);
  CHECK(s.engine_reason != "");
  CHECK(s.route_reason == "");
  CHECK(s.pinned_bytes_peak == 0);  // No slot was needed.
  CHECK_FALSE(s.slots_registered);
  CHECK(s.registration_reason != "");
}

TEST_CASE("stats: of a loader are its own part") {
  loader with;
  const load_stats s = with.stats();
  CHECK(s.engine != read_engine::automatic);
  CHECK(s.engine_reason != "");
  CHECK(s.pinned_bytes_peak == 0);
  CHECK(s.page_kind == "");
  CHECK(s.bytes_total == 0);
}

TEST_CASE("stats: of a load through slots say what these are") {
  const made_file file({f32("a", 200'000)});
  loader with(host(), small_options());
  load_options converting;
  converting.dtype = dtype::f16;
  const load_stats s = get(with.load_async(file.name(), converting, use_future)).stats();
  CHECK(s.bytes_unstaged == 0);
  CHECK(s.pinned_bytes_peak == 4 * small_slot);
  CHECK(s.page_kind == "4k");
  CHECK(s.page_kind_reason == "");
  if (s.engine == read_engine::ring) CHECK(s.slots_registered == (s.registration_reason == ""));
}

TEST_CASE("several loads on one loader are served in turn") {
  const made_file one(equal_tensors(8, small_slot));
  const made_file other(equal_tensors(8, small_slot));
  read_script script([](const io_request&, std::uint64_t nth) {
    return read_fate{.until_released = nth == 0 ? read_fate::hold::start : read_fate::hold::none};
  });
  scripted_loader with(script, small_options(1));
  // One route, so that each load uses one descriptor.
  load_operation first = get(with.start_async(one.name(), by(read_route::buffered), use_future));
  REQUIRE(script.wait_until_held(1));
  load_operation second = get(with.start_async(other.name(), by(read_route::buffered), use_future));
  script.release_all();
  CHECK(first_difference(get(first.finish_async(use_future))) == "");
  CHECK(first_difference(get(second.finish_async(use_future))) == "");

  const std::vector<io_request> log = script.log();
  REQUIRE(log.size() % 2 == 0);
  // The first part was read before the second load started, and the last part after its end.
  for (std::size_t i = 1; i + 2 < log.size(); ++i) {
    CAPTURE(i);
    CHECK(log[i].fd != log[i + 1].fd);
  }
}

TEST_CASE("a loader makes as many reads at once as it has slots") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  scripted_loader with(script, small_options(3));
  auto loaded = with.load_async(file.name(), {}, use_future);
  REQUIRE(script.wait_until_held(3));
  with.settle();
  CHECK(script.started() == 3);
  script.release(1);
  with.settle();
  REQUIRE(script.wait_until_held(3));
  CHECK(script.started() == 4);
  script.release_all();
  CHECK(first_difference(get(std::move(loaded))) == "");
}

TEST_CASE("tensor::as gives elements of its own type, and refuses others") {
  const made_file file(std::vector<made_tensor>{f32("f", 3'000), {"i", 8'000, "I64", 8}, {"b", 5}});
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  const std::span<const float> floats = loaded.at("f").as<const float>();
  CHECK(floats.size() == 3'000);
  CHECK(std::as_bytes(floats).data() == loaded.at("f").data());
  CHECK(loaded.at("i").as<std::int64_t>().size() == 1'000);
  CHECK(loaded.at("i").as<long long>().data() == loaded.at("i").data());
  CHECK(loaded.at("b").as<std::uint8_t>().size() == 5);
  CHECK(loaded.at("f").as<std::byte>().size() == 12'000);
  const auto refused = [&](const auto& use) {
    try {
      use();
    } catch (const error& e) {
      return e.code();
    }
    return boost::system::error_code();
  };
  CHECK(refused([&] { (void)loaded.at("f").as<std::int32_t>(); }) == errc::wrong_dtype);
  CHECK(refused([&] { (void)loaded.at("i").as<std::uint64_t>(); }) == errc::wrong_dtype);
}

TEST_CASE("model::regions: every tensor lies in one of them") {
  const made_file file(equal_tensors(7, 30'001));
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  const std::vector<memory_region> regions = loaded.regions();
  REQUIRE(regions.size() == 1);
  CHECK(regions[0].device == host());
  const auto begin = reinterpret_cast<std::uintptr_t>(regions[0].data);
  for (const tensor t : loaded) {
    const auto at = reinterpret_cast<std::uintptr_t>(t.data());
    CHECK(at >= begin);
    CHECK(at + t.size_bytes() <= begin + regions[0].bytes);
  }
  CHECK(model().regions().empty());
}
