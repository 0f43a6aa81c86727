// SPDX-License-Identifier: Apache-2.0

// Fills with other kinds of copies: to a device, to the host in a loader of a device, and from
// decoders. Also fills from a file with an unreadable object.

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <deque>
#include <mutex>
#include <ringload/ringload.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.hpp"
#include "device/host_copies.hpp"
#include "support/guarded_memory.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"
#include "support/written_file.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

// The host as another device, into which no file is read directly. Stores the targets of its
// copies.
class apart_backend final : public backend {
 public:
  static inline std::mutex mutex;
  static inline std::set<std::uint64_t> copied_to;  // Addresses. Guarded by the mutex.

  placement_rules rules() const noexcept override { return {}; }
  void keep(std::uint64_t) override {}
  result<std::shared_ptr<arena>> allocate(std::uint64_t) override {
    return fault{errc::memory_exceeded, "", "a fill needs none"};
  }
  result<void> attach(asio::io_context& loop, slot_region) override {
    loop_ = &loop;
    return {};
  }
  result<std::unique_ptr<uploader>> take_uploader() override {
    struct own_uploader final : uploader {
      boost::system::error_code start(const copy_operation& op) override {
        make_copies(op);
        return {};
      }
      boost::system::error_code finish() override { return {}; }
    };
    return std::make_unique<own_uploader>();
  }
  void start(copy_operation& op) noexcept override {
    make_copies(op);
    asio::post(*loop_, [&op] { op.done(op, {}); });
  }
  void detach() noexcept override { loop_ = nullptr; }

 private:
  static void make_copies(const copy_operation& op) noexcept {
    {
      const std::lock_guard lock(mutex);
      for (const copy_op& c : op.copies) {
        copied_to.insert(reinterpret_cast<std::uintptr_t>(op.destination(c)));
      }
    }
    run_copies(op);
  }

  asio::io_context* loop_ = nullptr;
};

device apart(int index = 0) {
  return {device_kind::cuda, index,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<apart_backend>(); }};
}

asio::awaitable<std::size_t> fill_and_count(loader& with, checkpoint from,
                                            std::vector<destination> into) {
  fill_options how;
  how.unexpected = fill_options::on_unexpected::report;
  fill_result done = co_await with.fill_async(from, into, how);
  co_return done.unexpected.size();
}

}  // namespace

TEST_CASE("fill_async: is awaited by its default token") {
  const made_file file(equal_tensors(3, 70'000));
  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  guarded_memory memory(70'000);
  memory.expect(0, file_bytes(file.name(), opened.at("t1").offset, 70'000));
  asio::io_context context;
  auto done = asio::co_spawn(
      context, fill_and_count(with, opened, {{"t1", memory.data(), dtype::u8, {70'000}}}),
      use_future);
  context.run_for(patience);
  CHECK(get(std::move(done)) == 2);
  CHECK(memory.as_expected());
}

TEST_CASE("fill: a loader of a device fills memory of the device and of the host") {
  for (const std::uint64_t bytes : {5'000U, 200'000U}) {
    const made_file file(equal_tensors(8, bytes), 3);
    loader with(apart(), small_options());
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    std::deque<guarded_memory> memory;
    std::vector<destination> into;
    for (const tensor_info& t : opened) {
      guarded_memory& one = memory.emplace_back(bytes, memory.size() * 33);
      one.expect(0, file_bytes(file.name(), t.offset, bytes));
      const device on = memory.size() % 2 == 0 ? apart() : host();
      into.push_back({t.name, one.data(), dtype::u8, {bytes}, on});
    }
    apart_backend::copied_to.clear();
    get(with.fill_async(opened, into, use_future));
    for (std::size_t i = 0; i < into.size(); ++i) {
      CHECK(memory[i].as_expected());
      const auto begin = reinterpret_cast<std::uintptr_t>(memory[i].data());
      const auto first = apart_backend::copied_to.lower_bound(begin);
      const bool touched = first != apart_backend::copied_to.end() && *first < begin + bytes;
      CHECK(touched == (into[i].device == apart()));
    }
    into[3].device = apart(1);
    const auto failed = failure_of(with.fill_async(opened, into, use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::device_unavailable);
    CHECK(holds(failed->what(), "destination 't3': its memory is on cuda:1"));
  }
}

TEST_CASE("fill: compressed, transposed and big-endian arrays fill any memory") {
  const std::string bytes = compressible(600'000, 1);
  const std::string small = noise(40, 2);
  const npz_file file({member("long", npy_text("<f4", false, "300, 500", bytes), true),
                       member("turned", npy_text("<f4", true, "300, 500", bytes), true),
                       member("swapped", npy_text(">f4", false, "10,", small), false),
                       member("plain", npy_text("<f4", false, "10,", small), false)});
  std::string turned(bytes.size(), '\0');
  for (std::size_t i = 0; i < 150'000; ++i) {
    turned.replace((i % 300 * 500 + i / 300) * 4, 4, bytes.substr(i * 4, 4));
  }
  std::string swapped;
  for (std::size_t i = 0; i < 40; ++i) swapped += small[i / 4 * 4 + 3 - i % 4];
  for (const device on : {host(), apart()}) {
    for (const bool strided : {false, true}) {
      loader with(on, small_options(3));
      const checkpoint opened = get(with.open_async(file.name(), use_future));
      std::deque<guarded_memory> memory;
      std::vector<destination> into;
      const auto add = [&](const char* name, std::vector<std::uint64_t> size,
                           const std::string& expected, const device& where) {
        guarded_memory& one = memory.emplace_back(2 * expected.size(), 4);
        destination made(name, one.data(), dtype::f32, size, where);
        if (strided && size.size() == 2) made.strides = {1, 300};
        if (strided && size.size() == 1) made.strides = {2};
        expect_elements(one, made, expected, size);
        into.push_back(made);
      };
      add("long", {300, 500}, bytes, on);
      add("turned", {300, 500}, turned, host());
      add("swapped", {10}, swapped, host());
      add("plain", {10}, small, on);
      get(with.fill_async(opened, into, use_future));
      for (const guarded_memory& one : memory) CHECK(one.as_expected());
    }
  }
}

TEST_CASE("fill: an unreadable object counts by the name of the tensor, not of the destination") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.zt").string();
  const tensor_ref good = noise_view("m.bad", dtype::u8, {5'000});
  writer out(path);
  add(out, good);
  add(out, noise_view("bad", dtype::u8, {5'000}, 2));
  finish(out);
  // The element type of the object "bad" gets an unknown name. In CBOR, "cbad" and "bu8" are the
  // texts "bad" and "u8".
  std::string text = file_text(path);
  text.replace(text.find("bu8", text.rfind("cbad")), 3, "bu7");
  write_file(path, text);

  loader with(host(), small_options());
  const checkpoint opened = get(with.open_async(path, use_future));
  REQUIRE(opened.catalog().unreadable.size() == 1);
  std::string memory(5'000, '\0');
  const auto into = [&](const char* name) {
    return std::vector{destination(name, memory.data(), dtype::u8, {5'000})};
  };
  fill_options how;
  const auto code = [&](const char* name) {
    return code_of(with.fill_async(opened, into(name), how, use_future));
  };
  how.rename = [](std::string_view name) { return "m." + std::string(name); };
  get(with.fill_async(opened, into("bad"), how, use_future));
  CHECK(memory == text_of(good));
  how.rename = [](std::string_view) { return std::string("bad"); };
  for (const auto missing : {fill_options::on_missing::error, fill_options::on_missing::report}) {
    how.missing = missing;
    CHECK(code("m.bad") == errc::unsupported_feature);
  }
  how.rename = {};
  CHECK(code("bad") == errc::unsupported_feature);
}
