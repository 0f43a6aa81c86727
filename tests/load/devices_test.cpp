// SPDX-License-Identifier: Apache-2.0

// Loads to several devices: the position of each tensor, and that each byte is read once. The
// devices are arenas of the host, and a device whose copies follow a script.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/scripted_device.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> some_tensors() {
  return {{"a", 999}, f32("b", 20'000), {"c", 300'000}, {"d", 70'001}, {"e", 0}, f32("f", 1001)};
}

// Returns an empty string if every tensor exists `copies` times and has the bytes of the file.
// Otherwise returns the difference.
std::string wrong_in(const model& loaded, std::size_t copies) {
  if (loaded.size() != copies) return "there are " + std::to_string(loaded.size());
  return first_difference(loaded);
}

std::uint64_t read_by(const load_stats& s) { return s.bytes_direct + s.bytes_buffered; }

std::vector<device> two_hosts() { return {host(), host()}; }

// The host, and a device into which files cannot be read directly, such as a GPU.
class staged_backend final : public backend {
 public:
  placement_rules rules() const noexcept override {
    placement_rules rules;
    rules.tensor_alignment = 256;
    return rules;
  }
  void keep(std::uint64_t) override {}
  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    if (the_device_script.next_fails()) return fault{errc::memory_exceeded, "", "as the test says"};
    auto real = real_->allocate(bytes);
    if (!real) return real.error();
    return std::shared_ptr<arena>(std::make_shared<counted_arena>(std::move(*real)));
  }
  result<std::string> pin(std::span<std::byte>) override {
    if (the_device_script.next_fails()) return fault{errc::memory_exceeded, "", "as the test says"};
    return std::string();
  }
  result<void> attach(boost::asio::io_context& loop, slot_region slots) override {
    loop_ = &loop;
    return real_->attach(loop, slots);
  }
  // Copies decoded bytes. The calling thread waits.
  bool copy_now(const copy_operation& op) noexcept override { return real_->copy_now(op); }
  void start(copy_operation& op) noexcept override {
    boost::asio::post(op.threads, [this, &op] {
      const bool fails = the_device_script.next_fails();
      if (!fails) real_->copy_now(op);
      boost::asio::post(*loop_, [&op, fails] {
        op.done(op, fails ? errc::memory_exceeded : boost::system::error_code());
      });
    });
  }
  void detach() noexcept override { real_->detach(); }

 private:
  const std::unique_ptr<backend> real_ = host().maker()(0);
  boost::asio::io_context* loop_ = nullptr;
};

device staged_device(int index) {
  return {device_kind::cuda, index,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<staged_backend>(); }};
}

// The devices of the tests: both kinds of memory, and two devices that copy from slots.
std::vector<device> walked_devices() { return {staged_device(0), host(), staged_device(1)}; }

void nobody_fails() { the_device_script.begin(~std::uint64_t{0}, device_script::fate::as_usual); }

}  // namespace

TEST_CASE("devices: what goes to one or the other is there, and says where it is") {
  const made_file file(some_tensors());
  loader with(two_hosts(), small_options());
  CHECK(with.devices().size() == 2);
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  const model loaded = get(with.load_async(opened, select().on("[bde]", 1), use_future));
  CHECK(wrong_in(loaded, 6) == "");
  CHECK(loaded.at("a").device_position() == 0);
  CHECK(loaded.at("b").device_position() == 1);
  CHECK(loaded.at("e").device_position() == 1);
  CHECK_FALSE(loaded.find("b", 0));
  CHECK(loaded.find("b", 1).data() == loaded.at("b").data());
  CHECK(loaded.regions().size() == 2);
  try {
    (void)loaded.at("b", 0);
    FAIL("it is there");
  } catch (const error& e) {
    CHECK(e.code() == errc::no_such_tensor);
    CHECK(holds(e.what(), "not on the loader's device 0"));
  }
}

TEST_CASE("devices: what goes to all is read once, by every route") {
  const made_file file(some_tensors(), 3);
  for (const read_route route : {read_route::buffered, read_route::direct}) {
    // A file system in memory has no direct reads.
    if (route == read_route::direct && is_in_memory(file.path())) continue;
    load_stats one;
    {
      loader with(host(), small_options());
      one = get(with.load_async(file.name(), by(route), use_future)).stats();
    }
    for (const auto& on : {two_hosts(), walked_devices(), std::vector{staged_device(0), host()},
                           std::vector{host(), host(), host(), host()}}) {
      nobody_fails();
      CAPTURE(on.size());
      loader with(on, small_options());
      const model loaded = get(
          with.load_async(file.name(), selecting(select().replicate("*"), by(route)), use_future));
      CHECK(wrong_in(loaded, 6 * on.size()) == "");
      // A block in which a staged tensor ends and an unstaged tensor begins may be read twice.
      CHECK(read_by(loaded.stats()) <= read_by(one));
      CHECK(loaded.stats().bytes == on.size() * one.bytes);
      CHECK(loaded.stats().bytes_arrived() == loaded.stats().bytes_total);
      for (std::uint32_t d = 0; d < on.size(); ++d) {
        const tensor t = loaded.at("c", d);
        CHECK(t.device() == on[d]);
        CHECK(t.device_position() == d);
        CHECK((d == 0 || t.data() != loaded.at("c", d - 1).data()));
      }
    }
  }
  CHECK(arenas_taken == 0);
}

TEST_CASE("devices: what is converted, fused or compressed goes to all as well") {
  const made_file file(some_tensors());
  const npz_file deflated(
      {member("long", npy_text("|u1", false, "400000,", noise(400'000, 3)), true),
       member("raw", npy_text("|u1", false, "90000,", noise(90'000, 4)), false)});
  nobody_fails();
  loader one(host(), small_options());
  loader with(walked_devices(), small_options());
  load_options halves;
  halves.dtype = dtype::bf16;
  const selection plain = select().names({"c"}).fused("bf", {"b", "f"}, 0);
  const selection everywhere = selection(plain).replicate("*");
  const model whole = get(one.load_async(file.name(), selecting(plain, halves), use_future));
  const model loaded = get(with.load_async(file.name(), selecting(everywhere, halves), use_future));
  const model unpacked = get(one.load_async(deflated.name(), use_future));
  const model unpacked_on_all =
      get(with.load_async(deflated.name(), select().replicate("*"), use_future));
  for (std::uint32_t d = 0; d < 3; ++d) {
    for (const tensor& t : whole) {
      const bool same = bytes_of(loaded.at(t.name(), d)) == bytes_of(t);
      CHECK(same);
    }
    for (const tensor& t : unpacked) {
      const bool same = bytes_of(unpacked_on_all.at(t.name(), d)) == bytes_of(t);
      CHECK(same);
    }
  }
  CHECK(read_by(loaded.stats()) < 400'000);
}

TEST_CASE("devices: shards along any dimension, on any devices, are what ranks would load") {
  std::string header = "{" + tensor_text("w", "F32", "101,700", 0, 282'800) + "," +
                       tensor_text("v", "F32", "7", 282'800, 282'828) + "}";
  const made_file file(made_file::as_it_is::text, safetensors_text(header, noise(282'828, 5)));
  nobody_fails();
  loader one(host(), small_options());
  for (const std::uint32_t dim : {0U, 1U}) {
    for (const auto& on : {two_hosts(), walked_devices()}) {
      CAPTURE(dim);
      loader with(on, small_options());
      const auto ranks = static_cast<std::uint32_t>(on.size());
      const model loaded =
          get(with.load_async(file.name(), select().shard("w", dim).shard("v", 0), use_future));
      CHECK(loaded.size() == 2 * on.size());
      for (std::uint32_t d = 0; d < ranks; ++d) {
        const selection of_rank = select().shard("w", dim, d, ranks).shard("v", 0, d, ranks);
        const model wanted = get(one.load_async(file.name(), of_rank, use_future));
        for (const tensor& t : wanted) {
          const tensor mine = loaded.at(t.name(), d);
          const bool same_shape = std::ranges::equal(mine.shape(), t.shape());
          const bool same_bytes = bytes_of(mine) == bytes_of(t);
          CHECK(same_shape);
          CHECK(same_bytes);
        }
      }
      // A block with parts of both is read twice.
      CHECK(read_by(loaded.stats()) <= round_up<std::uint64_t>(283'200, 4096) + 4096 * ranks);
    }
  }
}

TEST_CASE("devices: allocations are each device's own") {
  const made_file file(some_tensors());
  loader with(two_hosts(), small_options());
  for (const auto each : {allocation::per_load, allocation::per_file, allocation::per_tensor}) {
    load_options options;
    options.allocation = each;
    const model loaded =
        get(with.load_async(file.name(), selecting(select().replicate("*"), options), use_future));
    CHECK(wrong_in(loaded, 12) == "");
    CHECK(loaded.regions().size() == (each == allocation::per_tensor ? 12 : 2));
  }
}

TEST_CASE("devices: tensors that are awaited come first, and each once for each device") {
  const made_file file(some_tensors());
  loader with(two_hosts(), small_options());
  load_operation load = get(with.start_async(file.name(), select().replicate("*"), use_future));
  CHECK(get(load.tensor_async("d", use_future)).name() == "d");
  std::size_t count = 0;
  for (auto next = get(load.next_async(use_future)); next; ++count) {
    next = get(load.next_async(use_future));
  }
  CHECK(count == 12);
}

TEST_CASE("devices: a checksum list and stored digests are compared on each") {
  const made_file file(some_tensors());
  loader with(two_hosts(), small_options());
  checksum_list listed;
  {
    loader one(host(), small_options());
    const model loaded = get(one.load_async(file.name(), use_future));
    for (const tensor& t : loaded) {
      const std::uint32_t crc = crc32c(t.as<std::byte>());
      tensor_digest& of = listed.tensors.emplace_back();
      of.name = t.name();
      of.algorithm = digest_algorithm::crc32c;
      for (const int shift : {24, 16, 8, 0})
        of.bytes.push_back(static_cast<std::byte>(crc >> shift));
    }
  }
  load_options options;
  options.verify = &listed;
  const model loaded =
      get(with.load_async(file.name(), selecting(select().replicate("*"), options), use_future));
  CHECK(loaded.stats().bytes_verified == loaded.stats().bytes);
}

TEST_CASE("devices: what several cannot have is refused with a sentence") {
  const made_file file(some_tensors());
  loader with(two_hosts(), small_options());
  const auto said = [&](const load_options& options) {
    const auto failed = failure_of(with.start_async(file.name(), options, use_future));
    return failed ? std::string(failed->what()) : std::string();
  };
  const auto windowed = failure_of(with.stream_async(file.name(), 1 << 20, use_future));
  REQUIRE(windowed);
  CHECK(holds(windowed->what(),
              "a window supports a single device, but the loader's devices are host, host"));
  load_options mapped;
  mapped.memory = tensor_memory::mapped;
  CHECK(holds(said(mapped), "files are mapped only if the host is the only device"));
  mapped.unmappable = on_unmappable::copy;
  CHECK(said(mapped) == "");
  try {
    const loader none(std::vector<device>{}, small_options());
    FAIL("a loader was made");
  } catch (const error& e) {
    CHECK(e.code() == errc::invalid_options);
  }
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  std::vector<std::byte> room(999);
  const std::vector<destination> into = {destination("a", room.data(), dtype::u8, {999})};
  CHECK(code_of(with.fill_async(opened, into, filling({}, select().on("a", 1)), use_future)) ==
        errc::invalid_selection);
}

TEST_CASE("devices: copies between them, fills of them and saves from them") {
  const made_file file(some_tensors());
  nobody_fails();
  loader with(std::vector{staged_device(0), staged_device(1)}, small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  const model loaded = get(with.load_async(opened, select().on("c", 1), use_future));
  const tensor c = loaded.at("c");
  CHECK(c.device() == staged_device(1));
  const tensor moved = get(with.copy_async(c, staged_device(0), use_future));
  CHECK(moved.device() == staged_device(0));
  CHECK(moved.device_position() == 0);
  CHECK(c.device_position() == 1);
  const bool same = bytes_of(moved) == bytes_of(c);
  CHECK(same);
  CHECK(code_of(with.copy_async(c, staged_device(2), use_future)) == errc::device_unavailable);

  std::string first(999, '\0');
  std::string third(300'000, '\0');
  std::string fourth(70'001, '\0');
  std::vector<destination> into = {destination("a", first.data(), dtype::u8, {999}),
                                   destination("c", third.data(), dtype::u8, {300'000}),
                                   destination("d", fourth.data(), dtype::u8, {70'001})};
  into[1].device = staged_device(1);
  into[2].device = staged_device(0);
  fill_options how;
  how.unexpected = fill_options().unexpected;
  get(with.fill_async(opened, into, filling(how, select().names({"a", "c", "d"})), use_future));
  CHECK(first == bytes_of(loaded.at("a")));
  CHECK(third == bytes_of(c));
  CHECK(fourth == bytes_of(loaded.at("d")));

  const temporary_folder folder;
  const std::string path = (folder.path() / "out.safetensors").string();
  get(with.save_async(path, {tensor_ref(c), tensor_ref(loaded.at("d"))}, use_future));
  loader one(host(), small_options());
  const model again = get(one.load_async(path, use_future));
  CHECK((bytes_of(again.at("c")) == bytes_of(c)));
  CHECK((bytes_of(again.at("d")) == bytes_of(loaded.at("d"))));
}

TEST_CASE("devices: at each read an error, and then the load is cancelled there") {
  const made_file file(some_tensors(), 3);
  nobody_fails();
  for (const auto& on : {std::vector{staged_device(0), staged_device(1)}, walked_devices()}) {
    read_script counting;
    {
      scripted_loader with(counting, small_options(2), on);
      const auto loaded =
          get(with.load_async(file.name(), select().replicate("*").shard("c", 0), use_future));
      CHECK(loaded.size() == 6 * on.size());
    }
    CHECK(counting.started() >= 5);
    for (std::uint64_t n = 0; n < counting.started(); ++n) {
      CAPTURE(n);
      for (const auto hold :
           {read_fate::hold::none, read_fate::hold::start, read_fate::hold::completion}) {
        read_script script([n, hold](const io_request&, std::uint64_t nth) {
          if (nth != n) return read_fate();
          if (hold == read_fate::hold::none) return read_fate{-EIO};
          return read_fate{.until_released = hold};
        });
        scripted_loader with(script, small_options(2), on);
        asio::io_context context;
        asio::cancellation_signal signal;
        int calls = 0;
        boost::system::error_code code;
        auto ended = [&](boost::system::error_code why, const model&) {
          ++calls;
          code = code_of(why);
        };
        with.load_async(
            file.name(), select().replicate("*").shard("c", 0),
            asio::bind_executor(context, asio::bind_cancellation_slot(signal.slot(), ended)));
        if (hold != read_fate::hold::none) {
          REQUIRE(script.wait_until_held(1));
          signal.emit(asio::cancellation_type::terminal);
          with.settle();
          context.poll();
          CHECK(calls == 0);
          script.release_all();
          context.restart();
        }
        context.run_for(patience);
        CHECK(calls == 1);
        const boost::system::error_code failed(EIO, boost::system::system_category());
        CHECK(code == (hold == read_fate::hold::none ? failed : asio::error::operation_aborted));
        CHECK(arenas_taken == 0);
      }
    }
  }
}

TEST_CASE("devices: memory, slots and copies fail each in turn, on each, and nothing is left") {
  using fate = device_script::fate;
  const made_file file(some_tensors());
  for (const fate what : {fate::fails, fate::held}) {
    bool more = true;
    for (std::uint64_t n = 0; more; ++n) {
      CAPTURE(n);
      REQUIRE(n < 1000);
      loader with(walked_devices(), small_options(2));
      make_cold(file.path());
      the_device_script.begin(n, what);
      asio::io_context context;
      asio::cancellation_signal signal;
      int calls = 0;
      boost::system::error_code code;
      auto ended = [&](boost::system::error_code why, const model&) {
        ++calls;
        code = code_of(why);
      };
      with.load_async(
          file.name(), select().replicate("*").shard("c", 0),
          asio::bind_executor(context, asio::bind_cancellation_slot(signal.slot(), ended)));
      const auto goes_on = [&] {
        context.restart();
        context.poll();
        return calls == 0;
      };
      if (what == fate::held) {
        if (the_device_script.wait_until_held(goes_on)) {
          signal.emit(asio::cancellation_type::terminal);
        }
        the_device_script.release();
      }
      context.restart();
      if (calls == 0) context.run_for(patience);
      CHECK(calls == 1);
      more = the_device_script.calls() > n;
      if (what == fate::fails) CHECK((code == errc::memory_exceeded) == more);
      CHECK(arenas_taken == 0);
    }
  }
  nobody_fails();
}
