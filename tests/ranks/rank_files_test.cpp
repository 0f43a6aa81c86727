// SPDX-License-Identifier: Apache-2.0

// Ranks that have opened different files at the same paths.

#include "ranks/rank_files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/group_load.hpp>
#include <string>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/rank_load.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::detail;
using namespace ringload::testing;

namespace {

rank_files files_at(std::uint64_t place, std::uint64_t version) {
  return {{place, 0}, 1, {version, 0}, 0};
}

rank_files files_of(const std::string& path) {
  loader with(host(), small_options(2, read_engine::threads));
  return describe_files(*get(with.open_async(path, use_future)).opened());
}

// A group that calls a function before its first message.
class delayed_group final : public group {
 public:
  delayed_group(group& all, std::function<void()> before) : all_(all), before_(std::move(before)) {}

  std::uint32_t rank() const noexcept override { return all_.rank(); }
  std::uint32_t size() const noexcept override { return all_.size(); }
  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    if (before_) std::exchange(before_, nullptr)();
    all_.send(bytes, to);
  }
  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    if (before_) std::exchange(before_, nullptr)();
    all_.receive(bytes, from);
  }
  void fail(std::string_view reason) noexcept override { all_.fail(reason); }
  void interrupt() noexcept override { all_.interrupt(); }

 private:
  group& all_;
  std::function<void()> before_;
};

}  // namespace

TEST_CASE("rank_files: ranks with the same paths must have the same files") {
  const auto same = files_at(1, 10);
  CHECK_FALSE(find_different_files({}));
  CHECK_FALSE(find_different_files(std::vector{same, same, same}));
  CHECK(find_different_files(std::vector{same, same, files_at(1, 11)}) == different_files{2, 0});
  CHECK(find_different_files(std::vector{files_at(2, 5), same, files_at(1, 11)}) ==
        different_files{2, 1});
  CHECK_FALSE(find_different_files(std::vector{same, files_at(2, 11), files_at(3, 12)}));
  rank_files unknown = files_at(1, 11);
  unknown.has_place = 0;
  CHECK_FALSE(find_different_files(std::vector{same, unknown}));
}

TEST_CASE("rank_files: a replaced or modified file has another version at the same place") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "m.safetensors").string();
  const made_file first({f32("a", 1'000)});
  const made_file second({f32("a", 1'000)});
  std::filesystem::copy_file(first.name(), path);
  const rank_files before = files_of(path);
  CHECK(before.has_place == 1);
  CHECK(before.from_store == 0);
  CHECK(before.version == files_of(path).version);
  CHECK(before.place == files_of(path).place);
  const std::string other = (folder.path() / "other").string();
  std::filesystem::copy_file(second.name(), other);
  std::filesystem::rename(other, path);
  const rank_files replaced = files_of(path);
  CHECK(replaced.place == before.place);
  CHECK(replaced.version != before.version);
  std::filesystem::last_write_time(path, std::filesystem::file_time_type());
  CHECK(files_of(path).version != replaced.version);
  CHECK(files_of(first.name()).place != before.place);
}

TEST_CASE("group_load: if a file is replaced while the ranks open it, all ranks are told") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "m.safetensors").string();
  for (const group_reading reading : {group_reading::divided, group_reading::own}) {
    std::filesystem::remove(path);
    std::filesystem::copy_file(made_file({f32("a", 1'000)}).name(), path);
    std::atomic<bool> is_replaced = false;
    on_threads(3, [&](group& all) {
      group_options options;
      options.reading = reading;
      loader with(host(), small_options(2, read_engine::threads));
      // Rank 0 opens the file, then replaces the file. The other ranks wait for the replacement.
      delayed_group delayed(all, [&] {
        if (all.rank() != 0) return;
        const std::string other = path + ".other";
        std::filesystem::copy_file(made_file({f32("a", 1'000)}).name(), other);
        std::filesystem::rename(other, path);
        is_replaced = true;
      });
      while (all.rank() != 0 && !is_replaced) std::this_thread::yield();
      const std::string text =
          what_of([&] { (void)start_rank_load(with, delayed, path, options); });
      if (text.find("rank 1: it has opened another version of the files than rank 0") ==
          std::string::npos) {
        return "another error: " + text;
      }
      // The group can be used again.
      return what_of([&] { (void)start_rank_load(with, all, path, options); });
    });
  }
}
