// SPDX-License-Identifier: Apache-2.0

// Integrity checks: a tensor whose bytes do not match the checksum list is never returned.

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>
#include <thread>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<std::byte> big_endian(std::uint32_t crc) {
  std::vector<std::byte> bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::byte>(crc >> shift));
  return bytes;
}

// The digests of the file, by plain reads.
checksum_list checksums_of(const made_file& file) {
  const catalog what = read_catalog(file.name());
  checksum_list m;
  m.place = "the.sums";
  for (const tensor_info& t : what.tensors) {
    tensor_digest one;
    one.name = t.name;
    one.algorithm = digest_algorithm::crc32c;
    const std::string bytes = file_bytes(file.name(), t.offset, t.bytes);
    one.bytes = big_endian(crc32c(std::as_bytes(std::span(bytes))));
    m.tensors.push_back(std::move(one));
  }
  return m;
}

load_options checked_by(const checksum_list& m, read_route route = read_route::automatic) {
  load_options options;
  options.route = route;
  options.verify = &m;
  return options;
}

// Straight and staged tensors, some with several reads, some with none.
std::vector<made_tensor> tensors_of_all_kinds() {
  return {{"a", 999},  f32("b", 20'000), {"c", 300'000},   f32("d", 5),
          {"none", 0}, {"e", 1},         f32("f", 700'000)};
}

// A substitute for SHA-256, with 32 bytes, because the library has no SHA-256.
checksum_list with_stand_in(checksum_list m, std::atomic<int>& begun) {
  for (tensor_digest& one : m.tensors) {
    one.algorithm = digest_algorithm::sha256;
    one.bytes.resize(32, std::byte{1});
  }
  m.sha256 = [&begun] {
    ++begun;
    const auto crc = std::make_shared<std::uint32_t>(0);
    hasher h;
    h.update = [crc](std::span<const std::byte> bytes) { *crc = crc32c(bytes, *crc); };
    h.finish = [crc] {
      auto digest = big_endian(*crc);
      digest.resize(32, std::byte{1});
      return digest;
    };
    return h;
  };
  return m;
}

}  // namespace

TEST_CASE("verify: what matches is loaded, by each engine and route, and counted") {
  const made_file file(tensors_of_all_kinds(), 3);
  const checksum_list m = checksums_of(file);
  const std::uint64_t total = read_catalog(file.name()).size_bytes();
  for (const read_engine engine : {read_engine::automatic, read_engine::threads}) {
    for (const read_route route : {read_route::automatic, read_route::buffered}) {
      loader with(host(), small_options(2, engine));
      const model loaded = get(with.load_async(file.name(), checked_by(m, route), use_future));
      CHECK(first_difference(loaded) == "");
      CHECK(loaded.stats().bytes_verified == total);
    }
  }
  loader with(host(), small_options());
  CHECK(get(with.load_async(file.name(), use_future)).stats().bytes_verified == 0);
}

TEST_CASE("verify: a checksum list allows ranges that contain the whole tensor, but no part") {
  const made_file file(tensors_of_all_kinds(), 3);
  const checksum_list m = checksums_of(file);
  loader with(host(), small_options());
  const auto load = [&](const selection& wanted) {
    load_options options = checked_by(m);
    options.select = wanted;
    return with.load_async(file.name(), options, use_future);
  };
  const model loaded = get(load(select().names({"a"}).slice("a", 0, 0, 999)));
  CHECK(loaded.stats().bytes_verified == 999);
  CHECK(get(load(select().shard("*", 0, 0, 1))).stats().bytes_verified ==
        read_catalog(file.name()).size_bytes());
  CHECK(code_of(load(select().slice("a", 0, 0, 998))) == errc::digest_unavailable);
}

TEST_CASE("verify: each tensor in turn that does not match fails the load, by its name") {
  const made_file file(tensors_of_all_kinds(), 3);
  loader with(counted_host(), small_options());
  const checksum_list good = checksums_of(file);
  for (std::size_t t = 0; t < good.tensors.size(); ++t) {
    checksum_list bad = good;
    bad.tensors[t].bytes[1] ^= std::byte{0x10};
    CAPTURE(bad.tensors[t].name);
    const auto failed = failure_of(with.load_async(file.name(), checked_by(bad), use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::wrong_digest);
    CHECK(holds(failed->what(), "model.safetensors: tensor '" + bad.tensors[t].name + "': "));
    CHECK(holds(failed->what(), "crc32c"));
    CHECK(holds(failed->what(), "the digest in the.sums is "));
    CHECK(arenas_taken == 0);
  }
  CHECK(first_difference(get(with.load_async(file.name(), checked_by(good), use_future))) == "");
}

TEST_CASE("verify: any flipped bit is detected") {
  const made_file file({{"a", 200'000}, f32("b", 50'000)});
  const checksum_list m = checksums_of(file);
  const std::string text = file_bytes(file.name(), 0, std::filesystem::file_size(file.path()));
  const std::uint64_t begin = read_catalog(file.name()).tensors[0].offset;
  loader with(host(), small_options());
  for (const std::uint64_t at : {begin, begin + 199'999, begin + 200'000, text.size() - 1}) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    const made_file other(made_file::as_it_is::text, flipped);
    CHECK(code_of(with.load_async(other.name(), checked_by(m), use_future)) == errc::wrong_digest);
  }
}

TEST_CASE("verify: a tensor that does not match is never handed out") {
  const made_file file(equal_tensors(3, 100'000));
  checksum_list m = checksums_of(file);
  m.tensors[1].bytes[0] ^= std::byte{1};
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), checked_by(m), use_future));
  auto wrong = load.tensor_async("t1", use_future);
  CHECK(code_of(std::move(wrong)) == errc::wrong_digest);
  CHECK(code_of(load.tensor_async("t1", use_future)) == errc::wrong_digest);
  for (int i = 0; i < 3; ++i) {
    try {
      const auto next = get(load.next_async(use_future));
      if (next) CHECK(next->name() != "t1");
    } catch (const error& e) {
      CHECK(e.code() == errc::wrong_digest);
    }
  }
  CHECK(code_of(load.finish_async(use_future)) == errc::wrong_digest);
}

TEST_CASE("verify: a tensor waits for its check, and not for that of others") {
  const made_file file(equal_tensors(2, 1000));
  std::atomic<int> begun = 0;
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  checksum_list m = with_stand_in(checksums_of(file), begun);
  // The first hashed tensor waits.
  m.sha256 = [of = m.sha256, gone, first = std::make_shared<std::atomic<bool>>(true)] {
    if (first->exchange(false)) gone.wait();
    return of();
  };
  loader_options within = small_options();
  within.copy_threads = 2;
  loader with(host(), within);
  load_operation load = get(with.start_async(file.name(), checked_by(m), use_future));
  const auto one = get(load.next_async(use_future));
  REQUIRE(one);
  auto other = load.next_async(use_future);
  CHECK_FALSE(ready(other));
  CHECK(load.progress().tensors == 1);
  go.set_value();
  CHECK(get(std::move(other)).has_value());
  CHECK(first_difference(get(load.finish_async(use_future))) == "");
}

TEST_CASE("verify: cancelling waits for the check in progress, and starts no other") {
  const made_file file(equal_tensors(20, 1000));
  std::atomic<int> begun = 0;
  std::promise<void> inside;
  std::promise<void> go;
  checksum_list m = with_stand_in(checksums_of(file), begun);
  m.sha256 = [of = m.sha256, &inside, &go, first = std::make_shared<std::atomic<bool>>(true)] {
    if (first->exchange(false)) {
      inside.set_value();
      go.get_future().wait();
    }
    return of();
  };
  loader with(counted_host(), small_options());
  load_operation load = get(with.start_async(file.name(), checked_by(m), use_future));
  get(inside.get_future());
  auto finished = load.finish_async(use_future);
  load.cancel();
  CHECK_FALSE(ready(finished));
  CHECK(arenas_taken == 1);
  go.set_value();
  CHECK(code_of(std::move(finished)) == asio::error::operation_aborted);
  CHECK(arenas_taken == 0);
}

TEST_CASE("verify: digests that the library lacks are computed by the caller's hasher") {
  const made_file file(tensors_of_all_kinds(), 1);
  std::atomic<int> begun = 0;
  checksum_list m = with_stand_in(checksums_of(file), begun);
  loader with(host(), small_options());
  CHECK(first_difference(get(with.load_async(file.name(), checked_by(m), use_future))) == "");
  CHECK(begun == static_cast<int>(m.tensors.size()));

  m.tensors[2].bytes[31] = std::byte{9};
  const auto failed = failure_of(with.load_async(file.name(), checked_by(m), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::wrong_digest);
  CHECK(holds(failed->what(), "its sha256 is"));

  m.sha256 = nullptr;
  const auto missing = failure_of(with.load_async(file.name(), checked_by(m), use_future));
  REQUIRE(missing);
  CHECK(missing->code() == errc::digest_unavailable);
  CHECK(holds(missing->what(), "the.sums"));
}

TEST_CASE("verify: an exception of a hasher fails the load, and the error names the tensor") {
  const made_file file(equal_tensors(1, 1000));
  std::atomic<int> begun = 0;
  checksum_list m = with_stand_in(checksums_of(file), begun);
  loader with(counted_host(), small_options());
  SUBCASE("at the beginning") {
    m.sha256 = []() -> hasher { throw std::runtime_error("no such digest here"); };
  }
  SUBCASE("in between") {
    m.sha256 = [] {
      hasher h;
      h.update = [](std::span<const std::byte>) {
        throw std::runtime_error("no such digest here");
      };
      h.finish = [] { return std::vector<std::byte>(); };
      return h;
    };
  }
  const auto failed = failure_of(with.load_async(file.name(), checked_by(m), use_future));
  REQUIRE(failed);
  CHECK(holds(failed->what(), "tensor 't0'"));
  CHECK(holds(failed->what(), "no such digest here"));
  CHECK(arenas_taken == 0);
}

TEST_CASE("verify: checksum list and checkpoint must have the same tensors") {
  const made_file file(equal_tensors(3, 100));
  loader with(counted_host(), small_options());
  checksum_list m = checksums_of(file);
  std::string named;
  auto code = make_error_code(errc::incomplete_checksum_list);
  SUBCASE("one that the checksum list lacks") {
    m.tensors.erase(m.tensors.begin() + 1);
    named = "tensor 't1': the tensor is in the checkpoint";
  }
  SUBCASE("one that the checkpoint lacks") {
    m.tensors.push_back(m.tensors[0]);
    m.tensors.back().name = "t9";
    named = "tensor 't9': the tensor is in the checksum list";
  }
  SUBCASE("one that is listed twice") {
    m.tensors.push_back(m.tensors[0]);
    code = errc::malformed_checksum_list;
    named = "tensor 't0': the tensor is listed twice";
  }
  SUBCASE("none") {
    m.tensors.clear();
    named = "tensor 't0'";
  }
  const auto failed = failure_of(with.load_async(file.name(), checked_by(m), use_future));
  REQUIRE(failed);
  CHECK(failed->code() == code);
  CHECK(holds(failed->what(), named));
  CHECK(holds(failed->what(), "the.sums"));
  CHECK(arenas_taken == 0);
}

TEST_CASE("verify: a tensor that is converted cannot be checked, and says so; others can") {
  const made_file file({f32("weights", 3000), {"bytes", 999}});
  const checksum_list m = checksums_of(file);
  loader with(counted_host(), small_options());
  load_options how = checked_by(m);
  how.dtype = dtype::bf16;
  const auto failed = failure_of(with.load_async(file.name(), how, use_future));
  REQUIRE(failed);
  CHECK(failed->code() == errc::digest_unavailable);
  CHECK(holds(failed->what(), "tensor 'weights': the tensor is converted"));
  CHECK(arenas_taken == 0);
  how.converts = [](const tensor_info&) { return false; };
  CHECK(get(with.load_async(file.name(), how, use_future)).stats().bytes_verified == 12'999);
}

TEST_CASE("verify: the checksum list is copied when the operation begins") {
  const made_file file(equal_tensors(3, 300'000));
  loader with(host(), small_options());
  auto m = std::make_unique<checksum_list>(checksums_of(file));
  auto loaded = with.load_async(file.name(), checked_by(*m), use_future);
  m->tensors.clear();
  m.reset();
  CHECK(first_difference(get(std::move(loaded))) == "");
}

TEST_CASE("verify: a digest of a wrong size is refused by the name of its tensor") {
  const made_file file(equal_tensors(2, 100));
  loader with(counted_host(), small_options());
  std::atomic<int> begun = 0;
  for (const std::size_t bytes : {0U, 3U, 5U, 31U, 33U}) {
    CAPTURE(bytes);
    checksum_list m = checksums_of(file);
    m.tensors[1].bytes.resize(bytes);
    auto failed = failure_of(with.load_async(file.name(), checked_by(m), use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::malformed_checksum_list);
    CHECK(holds(failed->what(), "the.sums: tensor 't1': the crc32c digest has"));
    m = with_stand_in(checksums_of(file), begun);
    m.tensors[1].bytes.resize(bytes);
    failed = failure_of(with.load_async(file.name(), checked_by(m), use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::malformed_checksum_list);
    CHECK(holds(failed->what(), "expected 32"));
  }
  CHECK(begun == 0);
}

TEST_CASE("verify: a checkpoint without tensors matches a checksum list without any") {
  const made_file file(std::vector<made_tensor>{});
  loader with(host(), small_options());
  const checksum_list m = checksums_of(file);
  CHECK(get(with.load_async(file.name(), checked_by(m), use_future)).empty());
}

TEST_CASE("verify: the loader may be destroyed while a tensor is hashed") {
  const made_file file(equal_tensors(8, 200'000));
  const checksum_list m = checksums_of(file);
  for (int i = 0; i < 20; ++i) {
    auto with = std::make_unique<loader>(counted_host(), small_options());
    auto loaded = with->load_async(file.name(), checked_by(m), use_future);
    for (int turns = 0; turns < i * 20; ++turns) std::this_thread::yield();
    with.reset();
    const auto code = code_of(std::move(loaded));
    CHECK((!code || code == asio::error::operation_aborted));
    CHECK(arenas_taken == 0);
  }
}

TEST_CASE("verify: read_checksum_list reads a file, and names it where it cannot") {
  const temporary_folder folder;
  const auto path = (folder.path() / "m.sums").string();
  write_file(path, "# made today\ncrc32c 00000000  a\n");
  const checksum_list m = read_checksum_list(path);
  CHECK(m.place == path);
  CHECK(m.tensors.size() == 1);

  const auto failing = [](const std::string& of) {
    try {
      read_checksum_list(of);
    } catch (const error& e) {
      return e;
    }
    return error({}, "none", "none");
  };
  write_file(path, "crc32c 00000000  a\nx\n");
  CHECK(failing(path).code() == errc::malformed_checksum_list);
  CHECK(holds(failing(path).what(), "m.sums: line 2: "));
  CHECK(failing(path + "x").code().value() == ENOENT);
  CHECK(holds(failing(path + "x").what(), "m.sumsx: "));
  CHECK(failing(folder.path().string()).code() == errc::not_a_regular_file);
  CHECK(failing("/dev/null").code() == errc::not_a_regular_file);
  std::filesystem::resize_file(path, (std::uint64_t{256} << 20) + 1);
  CHECK(failing(path).code() == errc::malformed_checksum_list);
}

namespace {

// Hashes one tensor at a time. The first one waits for a signal.
class slow_hashes {
 public:
  checksum_list of(const made_file& file, char label = ' ') {
    checksum_list m = with_stand_in(checksums_of(file), begun_);
    m.sha256 = [this, label, real = m.sha256] {
      order_ += label;
      if (order_.size() == 1) gone_.wait();
      return real();
    };
    return m;
  }
  // The loads of the hashed tensors, in order. Valid when no load is in progress.
  const std::string& order() const noexcept { return order_; }
  static loader_options one_at_a_time() {
    loader_options within = small_options();
    within.copy_threads = 1;
    return within;
  }
  static void wait_until_read(const load_operation& load, std::uint64_t bytes) {
    for (load_stats now = load.progress(); now.bytes_direct + now.bytes_buffered < bytes;
         now = load.progress()) {
      std::this_thread::yield();
    }
  }
  void go() { go_.set_value(); }

 private:
  std::atomic<int> begun_ = 0;
  std::string order_;
  std::promise<void> go_;
  std::shared_future<void> gone_ = go_.get_future().share();
};

}  // namespace

TEST_CASE("verify: an awaited tensor that has all its bytes is checked next") {
  const made_file file(equal_tensors(20, 1000));
  slow_hashes hashes;
  const checksum_list m = hashes.of(file);
  read_script script;
  scripted_loader with(script, slow_hashes::one_at_a_time());
  load_operation load = get(with.start_async(file.name(), checked_by(m), use_future));
  slow_hashes::wait_until_read(load, 20 * 1000);
  with.settle();
  auto wanted = load.tensor_async("t15", use_future);
  with.settle();
  hashes.go();
  CHECK(get(load.next_async(use_future))->name() == "t0");
  CHECK(get(load.next_async(use_future))->name() == "t15");
  CHECK(get(std::move(wanted)).name() == "t15");
  CHECK(first_difference(get(load.finish_async(use_future))) == "");
}

TEST_CASE("verify: loads are checked in turn") {
  const made_file large(equal_tensors(40, 1000));
  const made_file small(equal_tensors(1, 1000));
  slow_hashes hashes;
  const checksum_list of_large = hashes.of(large, 'l');
  const checksum_list of_small = hashes.of(small, 's');
  read_script script;
  scripted_loader with(script, slow_hashes::one_at_a_time());
  load_operation first = get(with.start_async(large.name(), checked_by(of_large), use_future));
  slow_hashes::wait_until_read(first, 40 * 1000);
  load_operation second = get(with.start_async(small.name(), checked_by(of_small), use_future));
  slow_hashes::wait_until_read(second, 1000);
  with.settle();
  hashes.go();
  CHECK(first_difference(get(second.finish_async(use_future))) == "");
  CHECK(first_difference(get(first.finish_async(use_future))) == "");
  CHECK(hashes.order().size() == 41);
  CHECK(hashes.order().find('s') <= 2);
}
