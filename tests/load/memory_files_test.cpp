// SPDX-License-Identifier: Apache-2.0

// Files on tmpfs, where direct reads are impossible.

#include <doctest/doctest.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr long tmpfs_magic = 0x01021994;

// A file in /dev/shm, if this folder is in memory.
class shared_file {
 public:
  shared_file() {
    struct ::statfs where = {};
    if (::statfs("/dev/shm", &where) != 0 || where.f_type != tmpfs_magic) return;
    std::string folder = "/dev/shm/ringload-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return;
    folder_ = folder;
    write_file(folder_ / "model.safetensors",
               checkpoint_text({{"a", 999}, f32("b", 50'000), {"c", 250'000}}, 3));
  }
  shared_file(const shared_file&) = delete;
  shared_file& operator=(const shared_file&) = delete;
  ~shared_file() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  bool there() const { return !folder_.empty(); }
  std::string name() const { return (folder_ / "model.safetensors").string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE("a file in memory is loaded through the page cache, and the stats say why") {
  const shared_file file;
  if (!file.there()) return skip("/dev/shm is no tmpfs that can be written to");
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    loader with(host(), small_options(4, engine));
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(loaded.size() == 3);
    CHECK(first_difference(loaded) == "");
    CHECK(loaded.stats().bytes_direct == 0);
    CHECK(holds(loaded.stats().route_reason, "in memory"));
    CHECK(holds(loaded.stats().route_reason, file.name()));
  }
}

TEST_CASE("a file in memory: the direct route fails") {
  const shared_file file;
  if (!file.there()) return skip("/dev/shm is no tmpfs that can be written to");
  loader with(host(), small_options());
  const auto failed = failure_of(with.load_async(file.name(), by(read_route::direct), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::direct_unavailable);
  CHECK(holds(failed->what(), file.name()));
}

TEST_CASE("a file in memory by the buffered route: the stats give no reason") {
  const shared_file file;
  if (!file.there()) return skip("/dev/shm is no tmpfs that can be written to");
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), by(read_route::buffered), use_future));
  CHECK(first_difference(loaded) == "");
  CHECK(loaded.stats().route_reason == "");
}
