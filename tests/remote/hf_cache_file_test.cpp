// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/hf_cache_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "remote/cache/hf_cache_source.hpp"
#include "remote/cache/range_set.hpp"
#include "remote/s3/s3_signature.hpp"
#include "remote/scripted_client.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::remote_http;
using ringload::testing::file_text;
using ringload::testing::memory_source;
using ringload::testing::read_text;
using ringload::testing::temporary_folder;

namespace {

namespace fs = std::filesystem;

const std::string blob_commit(40, 'a');

// Bytes in which no two adjacent blocks are equal.
std::string blob_content(std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 7 + i / 251);
  return out;
}

blob_place place_of(const fs::path& cache, const std::string& content,
                    std::string name = "unet/model.safetensors") {
  blob_place out;
  out.cache = cache.native();
  out.model = {"owner/name", "main"};
  out.commit = blob_commit;
  out.file = {std::move(name), content.size(), sha256_hex(content)};
  return out;
}

std::span<const std::byte> bytes_at(const std::string& of, std::size_t begin, std::size_t count) {
  return std::as_bytes(std::span(of)).subspan(begin, count);
}

fs::path repository_in(const fs::path& cache) { return cache / "models--owner--name"; }

std::size_t files_in(const fs::path& folder) {
  if (!fs::exists(folder)) return 0;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("hf_cache_file: bytes in any order become a blob, a link and a ref") {
  const temporary_folder at;
  const std::string content = blob_content(3'000'000);
  const auto blob = *hf_cache_file::open(place_of(at.path(), content));
  REQUIRE(blob != nullptr);
  CHECK(blob->write(2'000'000, bytes_at(content, 2'000'000, 1'000'000)).has_value());
  CHECK(blob->advance().has_value());
  CHECK(!blob->published());
  CHECK(blob->write(0, bytes_at(content, 0, 1'500'000)).has_value());
  CHECK(blob->advance().has_value());
  CHECK(blob->missing() == std::vector<byte_range>{{1'500'000, 2'000'000}});
  CHECK(blob->write(1'400'000, bytes_at(content, 1'400'000, 600'000)).has_value());
  CHECK(blob->advance().has_value());
  REQUIRE(blob->published());

  const fs::path repository = repository_in(at.path());
  const std::string digest = sha256_hex(content);
  const fs::path link = repository / "snapshots" / blob_commit / "unet/model.safetensors";
  CHECK(fs::read_symlink(link) == "../../../blobs/" + digest);
  CHECK(file_text(link) == content);
  CHECK(file_text(repository / "refs/main") == blob_commit);
  CHECK(files_in(repository / "blobs") == 1);
}

TEST_CASE("hf_cache_file: what was interrupted is gone on with") {
  const temporary_folder at;
  const std::string content = blob_content(100'000);
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    CHECK(blob->write(40'000, bytes_at(content, 40'000, 10'000)).has_value());
    CHECK(blob->write(0, bytes_at(content, 0, 1'000)).has_value());
  }
  CHECK(files_in(repository_in(at.path()) / "snapshots") == 0);
  const auto blob = *hf_cache_file::open(place_of(at.path(), content));
  REQUIRE(blob != nullptr);
  CHECK(blob->has(40'000, 10'000));
  CHECK(!blob->has(39'999, 10));
  std::string back(10'000, '\0');
  CHECK(blob->read(40'000, std::as_writable_bytes(std::span(back))).has_value());
  CHECK(back == content.substr(40'000, 10'000));
  for (const byte_range& each : blob->missing()) {
    CHECK(
        blob->write(each.begin, bytes_at(content, each.begin, each.end - each.begin)).has_value());
  }
  CHECK(blob->advance().has_value());
  CHECK(blob->published());
}

TEST_CASE("hf_cache_file: a record of another size, or a file that lost its end, begins anew") {
  const temporary_folder at;
  const std::string content = blob_content(10'000);
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    CHECK(blob->write(0, bytes_at(content, 0, 100)).has_value());
  }
  const std::string partial =
      (repository_in(at.path()) / "blobs" / sha256_hex(content)).native() + ".ringload";
  CHECK(file_text(partial + ".ranges") == "flushed\n10000\n0 100\n");
  fs::resize_file(partial, 50);
  const auto has_first = [&](std::string_view record) {
    std::ofstream(partial + ".ranges") << record;
    return (*hf_cache_file::open(place_of(at.path(), content)))->has(0, 1);
  };
  CHECK(!has_first("flushed\n10000\n0 100\n"));
  CHECK(has_first("flushed\n10000\n0 100\n"));  // The file has its full size again.
  CHECK(!has_first("flushed\n9999\n0 100\n"));
  CHECK(!has_first("10000\n0 100\n"));
}

TEST_CASE(
    "hf_cache_file: a record of bytes that are not flushed ends with the run of the machine") {
  const temporary_folder at;
  const std::string content = blob_content(40 << 20);
  const fs::path record =
      repository_in(at.path()) / "blobs" / (sha256_hex(content) + ".ringload.ranges");
  std::string unflushed;
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    CHECK(blob->write(0, bytes_at(content, 0, 33 << 20)).has_value());
    unflushed = file_text(record);  // A load that is killed here leaves this record.
  }
  REQUIRE(unflushed.starts_with("boot "));
  const auto has_first = [&](const std::string& text) {
    std::ofstream(record) << text;
    return (*hf_cache_file::open(place_of(at.path(), content)))->has(0, 1);
  };
  CHECK(has_first(unflushed));
  const std::string other_boot = unflushed[5] == '0' ? "boot 1" : "boot 0";
  CHECK(!has_first(other_boot + unflushed.substr(6)));
}

TEST_CASE("hf_cache_file: bytes that differ from present bytes are refused, and end the file") {
  const temporary_folder at;
  const std::string content = blob_content(10'000);
  std::string other = content;
  other[1'500] ^= 1;
  const auto blob = *hf_cache_file::open(place_of(at.path(), content));
  CHECK(blob->write(1'000, bytes_at(content, 1'000, 1'000)).has_value());
  CHECK(blob->write(500, bytes_at(content, 500, 2'000)).has_value());  // Equal where they overlap.
  const auto refused = blob->write(0, bytes_at(other, 0, other.size()));
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code == errc::changed_file);
  CHECK(blob->contradiction().has_value());
  CHECK(!blob->has(1'000, 1'000));
  CHECK(files_in(repository_in(at.path()) / "blobs") == 0);
  std::string found(1'000, '\0');
  CHECK(blob->read(1'000, std::as_writable_bytes(std::span(found))).has_value());
  CHECK(found == content.substr(1'000, 1'000));
  CHECK(!blob->write(0, bytes_at(content, 0, content.size())).has_value());
  CHECK(!blob->advance().has_value());
  CHECK(!blob->published());
  CHECK(files_in(repository_in(at.path()) / "blobs") == 0);
}

TEST_CASE(
    "hf_cache_file: of two different writes of the same gap at the same time, one is refused") {
  const std::string content = blob_content(1'000'000);
  std::string other = content;
  other[999'999] ^= 1;
  for (int round = 0; round < 50; ++round) {
    const temporary_folder at;
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    std::atomic<int> ready = 0;
    const auto write = [&](const std::string& bytes) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      return blob->write(0, bytes_at(bytes, 0, bytes.size())).has_value();
    };
    auto second = std::async(std::launch::async, [&] { return write(other); });
    const bool is_first_written = write(content);
    CHECK(second.get() != is_first_written);
    CHECK(blob->contradiction().has_value());
  }
}

TEST_CASE("hf_cache_file: overlapping writes of equal bytes at the same time complete the file") {
  const temporary_folder at;
  const std::string content = blob_content(3'000'000);
  const auto blob = *hf_cache_file::open(place_of(at.path(), content));
  std::vector<std::future<bool>> writes;
  for (std::size_t i = 0; i < 20; ++i) {
    writes.push_back(std::async(std::launch::async, [&, begin = i * 100'000] {
      return blob->write(begin, bytes_at(content, begin, 1'100'000)).has_value();
    }));
  }
  for (auto& write : writes) CHECK(write.get());
  CHECK(blob->advance().has_value());
  CHECK(blob->published());
}

TEST_CASE("hf_cache_file: bytes that are not those of the digest do not get into the cache") {
  const temporary_folder at;
  const std::string content = blob_content(10'000);
  std::string wrong = content;
  wrong[5'000] ^= 1;
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    CHECK(blob->write(0, bytes_at(wrong, 0, wrong.size())).has_value());
    const auto ended = blob->advance();
    REQUIRE(!ended.has_value());
    CHECK(ended.error().code == errc::wrong_digest);
    CHECK(ended.error().where().empty());
    CHECK(!blob->published());
    CHECK(!blob->write(0, bytes_at(content, 0, 1)).has_value());
  }
  CHECK(files_in(repository_in(at.path()) / "blobs") == 0);
  CHECK(files_in(repository_in(at.path()) / "snapshots") == 0);
}

TEST_CASE("hf_cache_file: begun anew, nothing of an earlier load is there, nor in the record") {
  const temporary_folder at;
  const std::string content = blob_content(100'000);
  std::string wrong = content;
  wrong[3] ^= 1;
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    CHECK(blob->write(0, bytes_at(wrong, 0, 1'000)).has_value());
    CHECK(blob->advance().has_value());
  }
  const auto blob = *hf_cache_file::open(place_of(at.path(), content));
  CHECK(blob->advance().has_value());
  CHECK(blob->begin_anew());
  CHECK(!blob->has(0, 1));
  CHECK(!blob->begin_anew());  // No bytes of an earlier load are left.
  const fs::path record =
      repository_in(at.path()) / "blobs" / (sha256_hex(content) + ".ringload.ranges");
  CHECK(file_text(record).ends_with("\n100000\n"));
  CHECK(blob->write(0, bytes_at(content, 0, content.size())).has_value());
  CHECK(blob->advance().has_value());
  CHECK(blob->published());
}

TEST_CASE("hf_cache_file: a digest of git's is one of its objects") {
  const temporary_folder at;
  const std::string content = "hello\n";
  blob_place place = place_of(at.path(), content, "config.json");
  place.file.digest = "ce013625030ba8dba906f756967f9e9ca394464a";  // git hash-object
  const auto blob = *hf_cache_file::open(place);
  CHECK(blob->write(0, bytes_at(content, 0, content.size())).has_value());
  CHECK(blob->advance().has_value());
  CHECK(blob->published());
}

TEST_CASE("hf_cache_file: an empty file is whole at once") {
  const temporary_folder at;
  const auto blob = *hf_cache_file::open(place_of(at.path(), "", "empty"));
  CHECK(blob->advance().has_value());
  CHECK(blob->published());
}

TEST_CASE("hf_cache_file: a blob that is there gets the link of another commit") {
  const temporary_folder at;
  const std::string content = blob_content(10'000);
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    CHECK(blob->write(0, bytes_at(content, 0, content.size())).has_value());
    CHECK(blob->advance().has_value());
  }
  blob_place place = place_of(at.path(), content);
  place.commit = std::string(40, 'b');
  const auto blob = *hf_cache_file::open(place);
  CHECK(blob->published());
  CHECK(blob->has(0, content.size()));
  CHECK(file_text(repository_in(at.path()) / "snapshots" / place.commit / place.file.name) ==
        content);
  CHECK(file_text(repository_in(at.path()) / "refs/main") == place.commit);
}

TEST_CASE("hf_cache_file: the lock of huggingface_hub is taken, and kept to") {
  const temporary_folder at;
  const std::string content = blob_content(1'000);
  const fs::path lock = at.path() / ".locks/models--owner--name" / (sha256_hex(content) + ".lock");
  const auto blob = *hf_cache_file::open(place_of(at.path(), content));
  REQUIRE(blob != nullptr);
  const unique_fd other(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(other);
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) != 0);
  CHECK(*hf_cache_file::open(place_of(at.path(), content)) == nullptr);
}

TEST_CASE("hf_cache_file: a complete file needs no lock, and gets the link of a second name") {
  const temporary_folder at;
  const std::string content = blob_content(1'000);
  const fs::path lock = at.path() / ".locks/models--owner--name" / (sha256_hex(content) + ".lock");
  const auto first = *hf_cache_file::open(place_of(at.path(), content, "a.npy"));
  CHECK(first->write(0, bytes_at(content, 0, content.size())).has_value());
  CHECK(first->advance().has_value());
  REQUIRE(first->published());
  const unique_fd other(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(other);
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);  // The published file has no lock.
  const auto second = *hf_cache_file::open(place_of(at.path(), content, "b.npy"));
  REQUIRE(second != nullptr);
  CHECK(second->published());
  CHECK(second->has(0, content.size()));
  const fs::path snapshot = repository_in(at.path()) / "snapshots" / blob_commit;
  for (const char* const name : {"a.npy", "b.npy"}) CHECK(file_text(snapshot / name) == content);
}

TEST_CASE("hf_cache_source: what passes is cached, and read from there by the next") {
  const temporary_folder at;
  const std::string content = blob_content(300'000);
  const auto remote = std::make_shared<memory_source>(content);
  std::vector<hub_cached_file> told;
  const auto report = [&](const hub_cached_file& each) { told.push_back(each); };
  {
    const auto threads = std::make_shared<cache_threads>(report);
    const auto source = make_hf_cache_source(remote, place_of(at.path(), content), threads);
    CHECK(read_text(*source, 100'000, 200'000) == content.substr(100'000));
    CHECK(read_text(*source, 0, 60'000) == content.substr(0, 60'000));
    CHECK(remote->reads == 2);
    // The 40,000 unread bytes are fetched at the end.
  }
  CHECK(remote->reads == 3);
  REQUIRE(told.size() == 1);
  CHECK(told[0].whole);
  CHECK(told[0].error_text.empty());
  CHECK(told[0].name == "owner/name/unet/model.safetensors");
  CHECK(file_text(repository_in(at.path()) / "blobs" / sha256_hex(content)) == content);

  const auto threads = std::make_shared<cache_threads>(report);
  const auto again = make_hf_cache_source(remote, place_of(at.path(), content), threads);
  CHECK(read_text(*again, 0, 300'000) == content);
  CHECK(remote->reads == 3);
}

TEST_CASE(
    "hf_cache_source: an interrupted load leaves what it has, and the next fetches the rest") {
  const temporary_folder at;
  const std::string content = blob_content(4'000'000);
  const auto remote = std::make_shared<memory_source>(content);
  std::vector<hub_cached_file> told;
  const auto open = [&] {
    return make_hf_cache_source(remote, place_of(at.path(), content),
                                std::make_shared<cache_threads>(
                                    [&](const hub_cached_file& each) { told.push_back(each); }));
  };
  {
    const auto source = open();
    CHECK(read_text(*source, 1'000'000, 1'000'000) == content.substr(1'000'000, 1'000'000));
    remote->fails = true;
    CHECK(read_text(*source, 0, 1'000'000) == "failed");
  }
  remote->fails = false;
  REQUIRE(told.size() == 1);
  CHECK(!told[0].whole);
  CHECK(told[0].missing_bytes == 3'000'000);
  CHECK(told[0].error_text.empty());
  const int reads = remote->reads;
  const std::uint64_t bytes = remote->bytes_read;
  {
    const auto source = open();
    CHECK(read_text(*source, 1'000'000, 1'000'000) == content.substr(1'000'000, 1'000'000));
    CHECK(remote->reads == reads);
    // Present bytes in the middle of a read are not fetched again.
    CHECK(read_text(*source, 500'000, 2'500'000) == content.substr(500'000, 2'500'000));
    CHECK(remote->reads == reads + 2);
    CHECK(remote->bytes_read == bytes + 1'500'000);
    CHECK(read_text(*source, 0, 4'000'000) == content);
    CHECK(remote->bytes_read == bytes + 3'000'000);
  }
  REQUIRE(told.size() == 2);
  CHECK(told[1].whole);
}

TEST_CASE("hf_cache_source: where the cache cannot be written, the load goes on without it") {
  const temporary_folder at;
  const std::string content = blob_content(1'000);
  std::ofstream(at.path() / "models--owner--name") << "in the way";
  const auto remote = std::make_shared<memory_source>(content);
  std::vector<hub_cached_file> told;
  const auto source = make_hf_cache_source(
      remote, place_of(at.path(), content),
      std::make_shared<cache_threads>([&](const hub_cached_file& each) { told.push_back(each); }));
  CHECK(source == nullptr);
  REQUIRE(told.size() == 1);
  CHECK(!told[0].whole);
  CHECK(told[0].missing_bytes == 1'000);
  CHECK(!told[0].error_text.empty());
}

TEST_CASE(
    "hf_cache_source: a load that receives other bytes than the cache has is a changed file") {
  const temporary_folder at;
  const std::string content = blob_content(3'000'000);
  std::string wrong = content;
  wrong[1'000'500] ^= 1;
  {
    const auto blob = *hf_cache_file::open(place_of(at.path(), content));
    // More ranges than separate fetches of one read, so that the whole read is fetched.
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(blob->write(i * 500'000, bytes_at(wrong, i * 500'000, 1'000)).has_value());
    }
  }
  const auto remote = std::make_shared<memory_source>(content);
  std::vector<hub_cached_file> reported;
  const auto open = [&] {
    return make_hf_cache_source(remote, place_of(at.path(), content),
                                std::make_shared<cache_threads>([&](const hub_cached_file& file) {
                                  reported.push_back(file);
                                }));
  };
  {
    const auto source = open();
    CHECK(source->identity().empty());
    CHECK(read_text(*source, 1'000'000, 1'000) == wrong.substr(1'000'000, 1'000));
    CHECK(read_text(*source, 0, 2'900'000) == content.substr(0, 2'900'000));
    for (int i = 0; i < 2; ++i) {
      boost::system::error_code code;
      try {
        const std::string tag = source->identity();  // CHECK would catch the exception.
        CHECK(tag == "an error");
      } catch (const error& e) {
        code = e.code();
        CHECK(e.place().empty());  // The caller adds the name of the file.
      }
      CHECK(code == errc::changed_file);
    }
  }
  CHECK(files_in(repository_in(at.path()) / "blobs") == 0);
  REQUIRE(reported.size() == 1);
  CHECK(!reported[0].whole);
  CHECK(reported[0].error_text.empty());  // The load reports the error.
  {
    const auto source = open();
    CHECK(read_text(*source, 0, 3'000'000) == content);
    CHECK(source->identity().empty());
  }
  REQUIRE(reported.size() == 2);
  CHECK(reported[1].whole);
}
