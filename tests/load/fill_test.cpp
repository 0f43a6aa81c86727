// SPDX-License-Identifier: Apache-2.0

// Fills of the caller's memory: every byte of the memory and no other byte, the options, and the
// state after a failed fill.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <deque>
#include <filesystem>
#include <random>
#include <ringload/ringload.hpp>

#include "support/converted.hpp"
#include "support/counted_device.hpp"
#include "support/guarded_memory.hpp"
#include "support/made_checkpoint.hpp"
#include "support/places.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

using shape = std::vector<std::uint64_t>;
using names = std::vector<std::string>;

std::uint64_t product(const shape& of) {
  std::uint64_t all = 1;
  for (const std::uint64_t each : of) all *= each;
  return all;
}

struct shaped {
  std::string name;
  dtype type;
  shape size;

  std::uint64_t bytes() const { return product(size) * bits(type) / 8; }
};

std::string text_of(const std::vector<shaped>& tensors, std::size_t spaces) {
  std::string header = "{";
  std::uint64_t at = 0;
  for (const shaped& t : tensors) {
    std::string sizes;
    for (const std::uint64_t each : t.size) {
      sizes += (sizes.empty() ? "" : ",") + std::to_string(each);
    }
    if (header.size() > 1) header += ',';
    header += tensor_text(t.name, name(t.type), sizes, at, at + t.bytes());
    at += t.bytes();
  }
  return safetensors_text(header + '}' + std::string(spaces, ' '), noise(at, spaces));
}

// Dense memory for one tensor.
struct one_place {
  guarded_memory memory;
  destination into;

  one_place(const std::string& name, dtype type, const shape& size, std::size_t misalignment = 0)
      : memory(product(size) * bits(type) / 8, misalignment),
        into(name, memory.data(), type, size) {}
};

checkpoint open_file(const made_file& file) {
  loader by(host(), small_options());
  return get(by.open_async(file.name(), use_future));
}

// A random tensor, and a random destination.
class random_fill {
 public:
  explicit random_fill(unsigned seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  shaped tensor(int i) {
    constexpr dtype types[] = {dtype::u8,  dtype::f32, dtype::bf16,      dtype::f16,
                               dtype::f64, dtype::i32, dtype::f8_e4m3fn, dtype::f8_e5m2};
    shaped t = {"t" + std::to_string(i), types[below(std::size(types))], {}};
    if (one_in(3)) {  // Long enough for unstaged reads.
      t.size = {1 + below(3), 70'000 + below(60'000)};
      return t;
    }
    for (auto n = below(5); n > 0; --n) t.size.push_back(one_in(5) ? 1 : below(12));
    if (t.size.size() == 2) t.size[1] = 1 + below(4000);
    return t;
  }

  // Owns its memory. The dimensions have any order, gaps, and positive or negative strides.
  void add(const shaped& t, const checkpoint& from) {
    std::string bytes = stored_bytes(from, t.name);
    dtype type = t.type;
    constexpr dtype targets[] = {dtype::f32, dtype::f16, dtype::bf16};
    const dtype to = targets[below(3)];
    if (one_in(3) && convertible(type, to)) {
      bytes = reference_bytes(bytes, type, to);
      type = to;
    }
    shape size = t.size;
    if (one_in(3) && bytes.size() < 20'000) {
      for (std::uint64_t& each : size) each = each == 1 && one_in(2) ? below(6) : each;
      for (auto n = below(3); n > 0; --n) size.insert(size.begin(), 1 + below(3));
    }
    std::vector<std::int64_t> strides;
    std::uint64_t span = product(size);
    std::uint64_t first = 0;
    if (one_in(2)) {
      std::vector<std::size_t> order(size.size());
      for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
      std::shuffle(order.begin(), order.end(), random_);
      strides.resize(size.size());
      span = 1;
      for (const std::size_t d : order) {
        strides[d] = static_cast<std::int64_t>(span + (one_in(3) ? below(3) : 0));
        const std::uint64_t reach =
            (std::max<std::uint64_t>(size[d], 1) - 1) * static_cast<std::uint64_t>(strides[d]);
        span += reach;
        if (one_in(4)) {
          first += reach;
          strides[d] = -strides[d];
        }
      }
    }
    const std::uint64_t width = bits(type) / 8;
    const std::size_t misalignment = one_in(3) ? 0 : 1 + below(4095);
    guarded_memory& memory = memory_.emplace_back(span * width, misalignment);
    destination made(t.name, memory.data() + first * width, type, size);
    made.strides = strides;
    expect_elements(memory, made, bytes, t.size);
    into.push_back(made);
  }

  bool as_expected() const {
    return std::all_of(memory_.begin(), memory_.end(),
                       [](const guarded_memory& m) { return m.as_expected(); });
  }

  std::vector<destination> into;

 private:
  std::mt19937 random_;
  std::deque<guarded_memory> memory_;
};

constexpr read_engine engines[] = {read_engine::automatic, read_engine::threads};

}  // namespace

TEST_CASE("fill: any tensor fills any memory, element by element, and nothing around it") {
  fill_options how;
  how.unexpected = fill_options::on_unexpected::report;
  how.dtype = fill_options::on_dtype::convert;
  how.shape = fill_options::on_shape::broadcast;
  for (unsigned turn = 0; turn < 80; ++turn) {
    CAPTURE(turn);
    random_fill setting(turn);
    std::vector<shaped> tensors;
    for (int i = 0; i < 6; ++i) tensors.push_back(setting.tensor(i));
    const made_file file(made_file::as_it_is::text, text_of(tensors, setting.below(5000)));
    loader with(host(),
                small_options(1 + static_cast<std::uint32_t>(setting.below(5)), engines[turn % 2]));
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    names unexpected;
    for (const shaped& t : tensors) {
      if (setting.one_in(8)) {
        unexpected.push_back(t.name);
      } else {
        setting.add(t, opened);
      }
    }
    const bool cold = setting.one_in(2);
    if (cold) make_cold(file.path());
    const load_options options = by(cold ? read_route::automatic : read_route::buffered);
    const fill_result done =
        get(with.fill_async(opened, setting.into, filling(how, options), use_future));
    REQUIRE(setting.as_expected());
    CHECK(done.missing.empty());
    std::sort(unexpected.begin(), unexpected.end());
    names told = done.unexpected;
    std::sort(told.begin(), told.end());
    CHECK(told == unexpected);
    CHECK(done.stats.bytes == done.stats.bytes_total);
  }
}

TEST_CASE("fill: reads are unstaged into memory that is aligned, and buffered ones anywhere") {
  const made_file file(std::vector<made_tensor>{{"a", 1'000'000}, {"b", 700'001}}, 3);
  const checkpoint opened = open_file(file);
  loader with(host(), small_options());
  for (const std::size_t misalignment : {std::size_t{0}, std::size_t{1}, std::size_t{511}}) {
    CAPTURE(misalignment);
    places memory(opened, misalignment);
    const fill_result done = get(
        with.fill_async(opened, memory.into(), filling({}, by(read_route::buffered)), use_future));
    CHECK(memory.all_whole());
    CHECK(done.stats.bytes_unstaged >= 1'700'001 - 4 * 4096);
    REQUIRE(done.stats_of_files.size() == 1);
    CHECK(done.stats_of_files.front().bytes_read == done.stats.bytes_buffered);
  }
  // With the same offset modulo 512 as in the file, direct reads are unstaged too.
  std::deque<guarded_memory> memory;
  std::vector<destination> into;
  for (const tensor_info& t : opened) {
    memory.emplace_back(t.bytes, t.offset % 512);
    into.push_back({t.name, memory.back().data(), t.dtype, t.shape});
    memory.back().expect(0, stored_bytes(opened, t.name));
  }
  make_cold(file.path());
  const fill_result done = get(with.fill_async(opened, into, use_future));
  for (const guarded_memory& each : memory) CHECK(each.as_expected());
  if (done.stats.bytes_direct > 0) CHECK(done.stats.bytes_unstaged >= 1'700'001 - 4 * 4096);
}

TEST_CASE("fill: takes no memory for tensors, and pins no more than the slots") {
  const made_file file(equal_tensors(5, 300'000));
  const checkpoint opened = open_file(file);
  loader_options within = small_options(2);
  within.arena_bytes_max = 0;
  loader with(counted_host(), within);
  places memory(opened, 77);
  make_cold(file.path());
  get(with.fill_async(opened, memory.into(), use_future));
  CHECK(memory.all_whole());
  CHECK(arenas_taken == 0);
  CHECK(with.stats().pinned_bytes_peak <= 2 * small_slot);
}

TEST_CASE("fill: an alignment of tensors is refused, because the caller chooses the addresses") {
  const made_file file(equal_tensors(1, 300));
  const checkpoint opened = open_file(file);
  loader with(host(), small_options());
  places memory(opened, 77);
  load_options options;
  options.tensor_alignment = 64;
  const auto failed =
      failure_of(with.fill_async(opened, memory.into(), filling({}, options), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::invalid_options);
  CHECK(failed->place() == "load_options::tensor_alignment");
}

TEST_CASE("fill: columns of one matrix are filled from several tensors, a selection and a fusion") {
  const std::vector<shaped> tensors = {
      {"q", dtype::f32, {40, 30}}, {"k", dtype::f32, {40, 20}}, {"v", dtype::f32, {50, 20}}};
  const made_file file(made_file::as_it_is::text, text_of(tensors, 5));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  guarded_memory matrix(40 * 50 * 4, 4);
  destination q("q", matrix.data(), dtype::f32, {40, 30});
  destination k("k", matrix.data() + 30 * 4, dtype::f32, {40, 20});
  q.strides = k.strides = {50, 1};
  expect_elements(matrix, q, stored_bytes(opened, "q"), {40, 30});
  expect_elements(matrix, k, stored_bytes(opened, "k"), {40, 20});
  get(with.fill_async(opened, {k, q}, use_future));
  CHECK(matrix.as_expected());

  // Rows 10 to 19 of v, and then of k, each repeated three times.
  guarded_memory repeated(3 * 20 * 20 * 4, 8);
  const destination kv("kv", repeated.data(), dtype::f32, {3, 20, 20});
  const std::string rows = stored_bytes(opened, "v").substr(10 * 80, 800) +
                           stored_bytes(opened, "k").substr(10 * 80, 800);
  expect_elements(repeated, kv, rows, {20, 20});
  selection wanted;
  wanted.fused("kv", {"v", "k"}, 0).slice("k", 0, 10, 10).slice("v", 0, 10, 10);
  fill_options how;
  how.shape = fill_options::on_shape::broadcast;
  get(with.fill_async(opened, {kv}, filling(how, wanted), use_future));
  CHECK(repeated.as_expected());
}

TEST_CASE("fill: destinations are renamed, and two may have the same tensor") {
  const made_file file(equal_tensors(2, 5'000));
  const checkpoint opened = open_file(file);
  loader with(host(), small_options());
  one_place a("model.t1", dtype::u8, {5'000});
  one_place b("other.t1", dtype::u8, {5'000});
  a.memory.expect(0, stored_bytes(opened, "t1"));
  b.memory.expect(0, stored_bytes(opened, "t1"));
  fill_options how;
  how.rename = [](std::string_view name) { return std::string(name.substr(6)); };
  get(with.fill_async(opened, {a.into, b.into}, how, use_future));
  CHECK(a.memory.as_expected());
  CHECK(b.memory.as_expected());
}

TEST_CASE("fill: what is missing or unexpected is told, or refused") {
  const made_file file(equal_tensors(3, 1'000));
  const checkpoint opened = open_file(file);
  loader with(host(), small_options());
  one_place there("t1", dtype::u8, {1'000});
  one_place not_there("t7", dtype::u8, {1'000});
  const std::vector<destination> into = {not_there.into, there.into};
  CHECK(code_of(with.fill_async(opened, into, use_future)) == errc::no_such_tensor);
  CHECK(there.memory.as_expected());
  fill_options how;
  how.missing = fill_options::on_missing::report;
  how.unexpected = fill_options::on_unexpected::error;
  CHECK(code_of(with.fill_async(opened, into, how, use_future)) == errc::unexpected_tensor);
  CHECK(there.memory.as_expected());
  how.unexpected = fill_options::on_unexpected::report;
  const fill_result done = get(with.fill_async(opened, into, how, use_future));
  CHECK(done.missing == names{"t7"});
  CHECK(done.unexpected == names{"t0", "t2"});
  CHECK(not_there.memory.as_expected());
  there.memory.expect(0, stored_bytes(opened, "t1"));
  CHECK(there.memory.as_expected());
  CHECK(get(with.fill_async(opened, {not_there.into}, how, use_future)).missing == names{"t7"});
}

TEST_CASE("fill: what is refused before the first byte is a plain error, and writes nothing") {
  const made_file file(std::vector<made_tensor>{{"a", 400'000}, f32("b", 1'000)});
  const checkpoint opened = open_file(file);
  loader with(host(), small_options());
  const auto refused = [&](const auto& change, load_options options = {}) {
    places memory(opened);
    std::vector<destination> into = memory.into();
    change(into);
    const auto failed = failure_of(with.fill_async(opened, into, filling({}, options), use_future));
    CHECK(memory.untouched());
    return failed ? failed->code() : boost::system::error_code();
  };
  using list = std::vector<destination>;
  CHECK(refused([](list& d) { d[1].dtype = dtype::f16; }) == errc::wrong_dtype);
  CHECK(refused([](list& d) { d[1].shape = {1'001}; }) == errc::wrong_shape);
  CHECK(refused([](list& d) { d[1].bytes = 3'999; }) == errc::invalid_destination);
  CHECK(refused([](list& d) { d[1].data = d[0].data; }) == errc::invalid_destination);
  const auto elsewhere = device(device_kind::cuda, 3, host().maker());
  CHECK(refused([&](list& d) { d[1].device = elsewhere; }) == errc::device_unavailable);
  load_options converting;
  converting.dtype = dtype::f16;
  CHECK(refused([](list&) {}, converting) == errc::unsupported_dtype);
}

TEST_CASE("fill: a file that is cut meanwhile leaves whole and torn destinations, and says which") {
  for (const read_engine engine : engines) {
    const made_file file(equal_tensors(9, 30'000));
    const checkpoint opened = open_file(file);
    places memory(opened);
    read_script script([&](const io_request&, std::uint64_t nth) {
      return read_fate{.until_released = nth < 3 ? read_fate::hold::none : read_fate::hold::start};
    });
    scripted_loader with(script, small_options(1, engine));
    auto done = with.fill_async(opened, memory.into(), by(read_route::buffered), use_future);
    REQUIRE(script.wait_until_held(1));
    std::filesystem::resize_file(file.path(), 1'000);
    script.release_all();
    try {
      get(std::move(done));
      FAIL("it succeeds");
    } catch (const fill_error& e) {
      CHECK(e.code() == errc::truncated_file);
      CHECK(e.whole().size() >= 1);
      CHECK(e.torn().size() >= 1);
      CHECK(e.whole().size() + e.torn().size() == 9);
      for (const std::string& name : e.whole()) {
        CHECK(memory.whole(static_cast<std::size_t>(name.back() - '0')));
      }
    }
  }
}

TEST_CASE(
    "fill: tensors are completed one after the other, so an early failure leaves most alone") {
  // Each tensor begins and ends inside a block, which is staged. Therefore each tensor has up to
  // five reads.
  const made_file file(equal_tensors(9, 200'001), 3);
  const checkpoint opened = open_file(file);
  for (std::uint64_t failing = 6; failing < 30; failing += 4) {
    CAPTURE(failing);
    places memory(opened);
    read_script script([=](const io_request&, std::uint64_t nth) {
      return read_fate{nth == failing ? -EIO : read_fate::as_read};
    });
    scripted_loader with(script, small_options(1));
    auto done = with.fill_async(opened, memory.into(), by(read_route::buffered), use_future);
    try {
      get(std::move(done));
      FAIL("it succeeds");
    } catch (const fill_error& e) {
      REQUIRE(e.whole().size() >= failing / 5);
      for (std::size_t i = 0; i < e.whole().size(); ++i) {
        CHECK(e.whole()[i] == "t" + std::to_string(i));
        CHECK(memory.whole(i));
      }
    }
  }
}

TEST_CASE("fill: a failure before any byte is written is no fill_error") {
  const made_file file(equal_tensors(2, 1'000));
  const checkpoint opened = open_file(file);
  places memory(opened);
  read_script script([](const io_request&, std::uint64_t) { return read_fate{-EIO}; });
  scripted_loader with(script, small_options());
  auto done = with.fill_async(opened, memory.into(), {}, use_future);
  bool plain = false;
  try {
    get(std::move(done));
  } catch (const fill_error&) {
  } catch (const error& e) {
    plain = e.code() == boost::system::error_code(EIO, boost::system::system_category());
  }
  CHECK(plain);
  CHECK(memory.untouched());
}

TEST_CASE("fill: is cancelled, completes when no read is in flight, and releases the owners") {
  const made_file file(equal_tensors(4, 200'000));
  const checkpoint opened = open_file(file);
  for (const auto hold : {read_fate::hold::start, read_fate::hold::completion}) {
    places memory(opened);
    read_script script(
        [=](const io_request&, std::uint64_t) { return read_fate{.until_released = hold}; });
    scripted_loader with(script, small_options(2));
    asio::io_context context;
    asio::cancellation_signal signal;
    int calls = 0;
    boost::system::error_code code;
    const auto owner = std::make_shared<int>();
    std::vector<destination> into = memory.into();
    into.front().owner = owner;
    auto handler = [&](boost::system::error_code failure, const fill_result&) {
      ++calls;
      code = failure;
      CHECK(owner.use_count() == 1);
    };
    with.fill_async(
        opened, std::move(into), by(read_route::buffered),
        asio::bind_executor(context, asio::bind_cancellation_slot(signal.slot(), handler)));
    REQUIRE(script.wait_until_held(2));
    CHECK(owner.use_count() > 1);
    signal.emit(asio::cancellation_type::terminal);
    with.settle();
    context.poll();
    CHECK(calls == 0);
    script.release_all();
    context.run_for(patience);
    CHECK(calls == 1);
    CHECK(code == asio::error::operation_aborted);
  }
}

TEST_CASE("fill_async: total cancellation is ignored, so that no destination is torn") {
  const made_file file(equal_tensors(4, 200'000));
  const checkpoint opened = open_file(file);
  places memory(opened);
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  scripted_loader with(script, small_options(2));
  asio::io_context context;
  asio::cancellation_signal signal;
  std::optional<boost::system::error_code> code;
  auto handler = [&](boost::system::error_code failure, const fill_result&) { code = failure; };
  with.fill_async(
      opened, memory.into(), by(read_route::buffered),
      asio::bind_executor(context, asio::bind_cancellation_slot(signal.slot(), handler)));
  REQUIRE(script.wait_until_held(2));
  signal.emit(asio::cancellation_type::total);
  with.settle();
  script.release_all();
  context.run_for(patience);
  REQUIRE(code);
  CHECK_FALSE(*code);
}
