// SPDX-License-Identifier: Apache-2.0

// Saves that fail at every write, with every kind of failure. Afterwards, the target has either the
// old or the complete new content, and no other file is left.

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <ringload/ringload.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/descriptors.hpp"
#include "support/failing_new.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_writer.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"
#include "support/written_file.hpp"

namespace asio = boost::asio;
namespace fs = std::filesystem;
using namespace ringload;
using namespace ringload::testing;

namespace {

// A checkpoint that another one replaces, as a file and as a folder of shards.
struct replaced {
  explicit replaced(bool in_folder) : folder_is_target(in_folder) {
    target = (place.path() / (in_folder ? "model" : "model.safetensors")).string();
    loader with(host(), small_options(2));
    const std::string text = "before";
    get(with.save_async(target, {tensor_ref("old", text.data(), dtype::u8, {6})}, use_future));
  }

  std::vector<tensor_ref> tensors() const {
    return {tensor_ref("a", memory.data(), dtype::u8, {150'001}),
            tensor_ref("b", memory.data() + 150'001, dtype::bf16, {2, 40'000}),
            tensor_ref("c", memory.data() + 7, dtype::f32, {20'000})};
  }
  save_options how() const {
    save_options out;
    if (folder_is_target) out.shard_count = 2;
    return out;
  }

  bool is_before() const {
    const catalog found = read_catalog(target);
    return found.tensors.size() == 1 && found.tensors[0].name == "old";
  }
  bool is_after() const {
    loader with(host(), small_options(2));
    const model found = get(with.load_async(target, use_future));
    if (found.size() != 3) return false;
    for (const tensor_ref& one : tensors()) {
      const tensor loaded = found.find(one.name);
      if (!loaded || std::memcmp(loaded.data(), one.data, loaded.size_bytes()) != 0) return false;
    }
    return true;
  }
  // The folder has no other entry.
  bool is_alone() const {
    const auto entries = fs::directory_iterator(place.path());
    return std::distance(begin(entries), end(entries)) == 1;
  }

  const bool folder_is_target;
  const temporary_folder place;
  std::string target;
  const std::string memory = noise(400'000, 9);
};

std::uint64_t writes_of(const replaced& what, read_engine engine) {
  write_script script;
  scripted_saver with(script, small_options(2, engine));
  const save_result done =
      get(with.save_async(what.target, what.tensors(), what.how(), use_future));
  CHECK(what.is_after());
  CHECK(done.writes == script.log().size());
  return done.writes;
}

}  // namespace

TEST_CASE("save: an error at any write leaves what was there before, and nothing beside it") {
  for (const bool in_folder : {false, true}) {
    for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
      const std::uint64_t writes = writes_of(replaced(in_folder), engine);
      REQUIRE(writes > 4);
      for (const int number : {EIO, ENOSPC, EDQUOT}) {
        const replaced what(in_folder);
        const std::size_t descriptors = open_descriptors();
        for (std::uint64_t n = 0; n < writes; ++n) {
          write_script script([&](const io_request&, std::uint64_t nth) {
            return nth == n ? -number : write_script::as_written;
          });
          scripted_saver with(script, small_options(2, engine));
          const auto failed =
              failure_of(with.save_async(what.target, what.tensors(), what.how(), use_future));
          REQUIRE(failed);
          CHECK(failed->code() ==
                boost::system::error_code(number, boost::system::system_category()));
          CHECK(holds(failed->what(), what.target));
          CHECK(holds(failed->what(), "byte "));
          CHECK(what.is_before());
          CHECK(what.is_alone());
        }
        CHECK(open_descriptors() == descriptors);
      }
    }
  }
}

TEST_CASE("save: short writes of every awkward length are resumed where they stopped") {
  for (const int most : {1, 511, 512, 4095, 4096, 4097, 10'000, 65'535}) {
    CAPTURE(most);
    const replaced what(false);
    // One byte at a time is possible only through the page cache. A direct write of less than a
    // block writes nothing.
    write_script script([&](const io_request& w, std::uint64_t) {
      return w.direct ? std::max(most, 4096) : std::max(most, 64);
    });
    scripted_saver with(script, small_options(2));
    get(with.save_async(what.target, what.tensors(), what.how(), use_future));
    CHECK(what.is_after());
    for (const io_request& w : script.log()) {
      if (!w.direct) continue;
      CHECK(w.file_offset % 4096 == 0);
      CHECK(w.bytes % 4096 == 0);
      CHECK(reinterpret_cast<std::uintptr_t>(w.memory) % 512 == 0);
    }
  }
}

TEST_CASE("save: a write that takes nothing, or is interrupted forever, is an error") {
  for (const int answer : {0, -EINTR, -EAGAIN}) {
    const replaced what(false);
    write_script script([&](const io_request&, std::uint64_t) { return answer; });
    scripted_saver with(script, small_options(1));
    const auto code = code_of(with.save_async(what.target, what.tensors(), what.how(), use_future));
    CHECK(code.value() == (answer == 0 ? EIO : -answer));
    CHECK(script.log().size() < 5000);
    CHECK(what.is_before());
  }
}

TEST_CASE("save: occasional EINTR and EAGAIN are retried") {
  const replaced what(true);
  write_script script([](const io_request&, std::uint64_t nth) {
    if (nth % 3 == 1) return -EINTR;
    return nth % 3 == 2 ? -EAGAIN : write_script::as_written;
  });
  scripted_saver with(script, small_options(2));
  get(with.save_async(what.target, what.tensors(), what.how(), use_future));
  CHECK(what.is_after());
}

TEST_CASE(
    "save: direct writes that are refused go through the page cache, and the result says so") {
  const replaced what(false);
  write_script script([](const io_request& w, std::uint64_t) {
    return w.direct ? -EINVAL : write_script::as_written;
  });
  scripted_saver with(script, small_options(2));
  save_options how = what.how();
  how.read_back = true;
  const save_result done = get(with.save_async(what.target, what.tensors(), how, use_future));
  CHECK(what.is_after());
  CHECK(done.bytes_direct == 0);
  CHECK(done.route_reason != "");
}

TEST_CASE("save: what was written wrong is found by reading it back") {
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    const replaced what(false);
    write_script script;
    // The third write writes other bytes.
    class other_bytes final : public io_queue {
     public:
      other_bytes(std::unique_ptr<io_queue> real, const std::string& bytes, int& count)
          : real_(std::move(real)), bytes_(bytes), count_(count) {}
      bool populates() const noexcept override { return real_->populates(); }
      void start(operation& op) override {
        if (op.request.is_write && ++count_ == 3) {
          const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
          op.request.memory = reinterpret_cast<std::byte*>((address + 4095) / 4096 * 4096);
          op.request.registered_buffer = -1;
        }
        real_->start(op);
      }

     private:
      const std::unique_ptr<io_queue> real_;
      const std::string& bytes_;
      int& count_;
    };
    int count = 0;
    const std::string room(3 * small_slot, '\x55');
    const auto wrap = [&](std::unique_ptr<io_queue> real) -> std::unique_ptr<io_queue> {
      return std::make_unique<other_bytes>(std::move(real), room, count);
    };
    const auto with = detail::engine::make({host()}, small_options(2, engine), wrap);
    save_options how = what.how();
    how.read_back = true;
    auto done = detail::initiate<save_result, &detail::begin_save>(
        use_future, asio::system_executor(), with, what.target, what.tensors(), how);
    CHECK(code_of(std::move(done)) == errc::read_back_differs);
    CHECK(what.is_before());
    CHECK(what.is_alone());
    with->close();
  }
}

TEST_CASE("save: cancelled at any write, it leaves what was there before, or is complete") {
  for (const bool in_folder : {false, true}) {
    const std::uint64_t writes = writes_of(replaced(in_folder), read_engine::automatic);
    const replaced what(in_folder);
    std::uint64_t cancelled = 0;
    for (std::uint64_t n = 0; n < writes; ++n) {
      asio::cancellation_signal signal;
      write_script script([&](const io_request&, std::uint64_t nth) {
        if (nth == n) signal.emit(asio::cancellation_type::total);
        return write_script::as_written;
      });
      scripted_saver with(script, small_options(2));
      auto done = with.save_async(what.target, what.tensors(), what.how(),
                                  asio::bind_cancellation_slot(signal.slot(), use_future));
      const auto code = code_of(std::move(done));
      CHECK(what.is_alone());
      if (!code) {
        CHECK(what.is_after());
        break;
      }
      CHECK(code == asio::error::operation_aborted);
      CHECK(what.is_before());
      ++cancelled;
    }
    CHECK(cancelled > 0);
  }
}

TEST_CASE(
    "save: cancelled before it begins, and by the end of its loader, it completes as aborted") {
  const replaced what(true);
  {
    asio::cancellation_signal signal;
    loader with(host(), small_options(2));
    auto done = with.save_async(what.target, what.tensors(), what.how(),
                                asio::bind_cancellation_slot(signal.slot(), use_future));
    signal.emit(asio::cancellation_type::total);
    const auto code = code_of(std::move(done));
    CHECK((!code || code == asio::error::operation_aborted));
    const bool one_of_both = code ? what.is_before() : what.is_after();
    CHECK(one_of_both);
  }
  auto with = std::make_unique<loader>(host(), small_options(2));
  auto done = with->save_async(what.target, what.tensors(), what.how(), use_future);
  with.reset();
  const auto code = code_of(std::move(done));
  CHECK((!code || code == asio::error::operation_aborted));
  CHECK(what.is_alone());
}

TEST_CASE("save: a target whose name holds a NUL is refused, and no file is written") {
  const temporary_folder in;
  const auto target = [&in](std::string_view name) {
    return in.path().string() + std::string(name);
  };
  const std::string text = "before";
  const std::vector<tensor_ref> tensors = {tensor_ref("x", text.data(), dtype::u8, {6})};
  loader with(host(), small_options(2));
  using namespace std::string_view_literals;
  for (const auto name : {"/a.safetensors\0.safetensors"sv, "/a.zt\0.zt"sv, "/folder\0b"sv}) {
    CHECK(code_of_call([&] { get(with.save_async(target(name), tensors, use_future)); }) ==
          errc::invalid_source_name);
  }
  const std::string zt = target("/a.zt\0.zt"sv);
  CHECK(code_of_call([&] { writer out(zt); }) == errc::invalid_source_name);
  CHECK(code_of_call([&] { atomic_file file(zt, entry_kind::file, true); }) ==
        errc::invalid_source_name);
  CHECK(fs::is_empty(in.path()));

  get(with.save_async(target("/a.zt"), tensors, use_future));
  CHECK(code_of_call([&] { writer out = writer::append(zt); }) == errc::invalid_source_name);
}

TEST_CASE("save: where there is not enough room, that is found before anything is written") {
  const temporary_folder place("/dev/shm");
  write_script script;
  scripted_saver with(script, small_options(2));
  const std::string path = (place.path() / "large.safetensors").string();
  // Never written, because the disk space is checked first.
  const std::byte none = {};
  const tensor_ref large("large", &none, dtype::u8, {std::uint64_t{1} << 45});
  const auto failed = failure_of(with.save_async(path, {large}, save_options(), use_future));
  REQUIRE(failed);
  CHECK(failed->code().value() == ENOSPC);
  CHECK(holds(failed->what(), path));
  CHECK(script.log().empty());
  CHECK(fs::is_empty(place.path()));
}

TEST_CASE("save: a finished save computes no digest, even while the check thread is busy") {
  std::atomic<int> begun = 0;
  std::atomic<int> allowed = 0;
  std::atomic<bool> has_small_begun = false;
  const temporary_folder folder;
  const std::string bytes(1000, 'x');
  loader saver(host(), small_options());  // Has one check thread.
  const auto save = [&](const char* name, int count, std::function<void()> update) {
    std::vector<tensor_ref> tensors;
    for (int t = 0; t < count; ++t) {
      tensors.emplace_back("t" + std::to_string(t), bytes.data(), dtype::u8,
                           std::vector<std::uint64_t>{bytes.size()});
    }
    save_options options;
    options.digest = digest_algorithm::sha256;
    options.sha256 = [update = std::move(update)] {
      return hasher{[update](std::span<const std::byte>) { update(); },
                    [] { return std::vector<std::byte>(32); }};
    };
    return saver.save_async((folder.path() / name).string(), tensors, options, use_future);
  };
  // Each digest of the large save waits until the digest is allowed.
  auto large = save("large.safetensors", 2000, [&] {
    const int number = ++begun;
    CHECK(comes_true([&] { return allowed >= number; }));
  });
  CHECK(comes_true([&] { return begun == 1; }));
  auto token = std::make_shared<int>();
  const std::weak_ptr<int> held_by_job = token;
  auto small =
      save("small.safetensors", 1, [&, token = std::move(token)] { has_small_begun = true; });
  CHECK(comes_true([&] {
    const int current = begun;
    if (!has_small_begun) allowed = current;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return has_small_begun.load();
  }));
  // The check thread now waits in the next digest of the large save.
  CHECK(get(std::move(small)).digests.size() == 1);
  CHECK(comes_true([&] { return held_by_job.expired(); }));
  allowed = std::numeric_limits<int>::max();
  CHECK(get(std::move(large)).digests.size() == 2000);
}

TEST_CASE("save: a DLPack tensor with a negative rank or without a shape is refused and released") {
  const made_file file({{"a", 999}}, 3);
  loader with(host(), small_options(3));
  const model loaded = get(with.load_async(file.name(), use_future));
  const auto code_of_export = [&](auto* exported, std::int32_t ndim, bool has_shape) {
    exported->dl_tensor.ndim = ndim;
    if (!has_shape) exported->dl_tensor.shape = nullptr;
    try {
      static_cast<void>(view_of("x", exported));
    } catch (const error& refused) {
      return refused.code();
    }
    return boost::system::error_code();
  };
  CHECK(code_of_export(to_dlpack(loaded.at("a")), -1, true) == errc::invalid_tensor);
  CHECK(code_of_export(to_dlpack(loaded.at("a")), 1, false) == errc::invalid_tensor);
  CHECK(code_of_export(to_legacy_dlpack(loaded.at("a")), -1, true) == errc::invalid_tensor);
  CHECK(code_of_export(to_legacy_dlpack(loaded.at("a")), 1, false) == errc::invalid_tensor);
  CHECK_FALSE(code_of_export(to_dlpack(loaded.at("a")), 0, false));  // A scalar needs no shape.
}
