// SPDX-License-Identifier: Apache-2.0

// Files of the hub that are read without the cache: their digest is compared if a load reads all of
// a file.

#include <doctest/doctest.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "remote/cache/verified_source.hpp"
#include "remote/s3/s3_signature.hpp"
#include "remote/scripted_client.hpp"

using namespace ringload;
using namespace ringload::remote_http;
using ringload::testing::memory_source;
using ringload::testing::read_text;

namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

std::string content_of(std::size_t bytes) {
  std::string out(bytes, '\0');
  std::uint32_t state = 1;
  for (char& c : out) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return out;
}

hub_file file_of(const std::string& content) {
  return {"model.safetensors", content.size(), sha256_hex(content)};
}

std::shared_ptr<byte_source> verified(std::shared_ptr<byte_source> from,
                                      const std::string& expected) {
  return make_verified_source(std::move(from), file_of(expected), std::make_shared<file_hashing>());
}

// Reads of one load.
struct load_reads {
  explicit load_reads(std::shared_ptr<byte_source> source) : from(std::move(source)) {}

  void start(std::uint64_t offset, std::uint64_t bytes) {
    auto& memory = memories.emplace_back(std::make_unique<std::string>(bytes, '\0'));
    auto ended = std::make_shared<std::promise<bool>>();
    ends.push_back(ended->get_future());
    source_read request(offset, std::as_writable_bytes(std::span(*memory)));
    request.counts = &counts;
    from->read_async(request,
                     [ended](std::exception_ptr failure) { ended->set_value(failure == nullptr); });
  }
  // Waits for all reads. Returns true if no read has failed.
  bool wait() {
    bool out = true;
    for (auto& end : ends) out = end.get() && out;
    ends.clear();
    return out;
  }
  boost::system::error_code end() {
    try {
      const std::string tag = from->identity();
      CHECK(tag.empty());
      return {};
    } catch (const error& e) {
      CHECK(e.place().empty());
      text = e.what();
      return e.code();
    }
  }

  const std::shared_ptr<byte_source> from;
  transfer_counts counts;
  std::vector<std::unique_ptr<std::string>> memories;
  std::vector<std::future<bool>> ends;
  std::string text;
};

// Completes its reads when the test requests this.
class held_source final : public byte_source {
 public:
  explicit held_source(std::string content) : content_(std::move(content)) {}

  std::uint64_t bytes() const noexcept override { return content_.size(); }
  std::string identity() const override { return {}; }
  void read_async(const source_read& request, read_handler done) override {
    const std::lock_guard hold(mutex_);
    reads_.emplace_back(request, std::make_unique<read_handler>(std::move(done)));
  }
  // Completes a read, counted from the first read on.
  void response(std::size_t number, bool fails = false) {
    auto& [request, done] = reads_[number];
    std::memcpy(request.into.data(), content_.data() + request.offset, request.into.size());
    std::move (*done)(fails ? std::make_exception_ptr(error(errc::remote_failed, "", "cut"))
                            : std::exception_ptr());
  }
  void flip(std::uint64_t offset) { content_[offset] = static_cast<char>(content_[offset] ^ 1); }

 private:
  std::string content_;
  std::mutex mutex_;
  std::vector<std::pair<source_read, std::unique_ptr<read_handler>>> reads_;
};

}  // namespace

TEST_CASE("verified_source: a whole file with another digest fails the load") {
  const std::string right = content_of(5 * mebibyte + 7);
  for (const bool is_right : {true, false}) {
    std::string content = right;
    if (!is_right) content.back() ^= 1;
    load_reads load(verified(std::make_shared<memory_source>(content), right));
    CHECK(load.end() == boost::system::error_code());  // The state after opening.
    CHECK(read_text(*load.from, 0, 1000) == content.substr(0, 1000));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::uint64_t at = 900; at < content.size(); at += mebibyte) {
        load.start(at, std::min<std::uint64_t>(mebibyte, content.size() - at));
      }
      CHECK(load.wait());
      if (is_right) {
        CHECK(load.end() == boost::system::error_code());
        continue;
      }
      CHECK(load.end() == errc::wrong_digest);
      CHECK(load.text.find(sha256_hex(right)) != std::string::npos);
      CHECK(load.text.find(sha256_hex(content)) != std::string::npos);
    }
  }
}

TEST_CASE("verified_source: a digest of git is compared as well") {
  const std::string content = "what is up, doc?";
  hub_file file = {"config.json", content.size(), "bd9dbf5aae1a3862dd1526723246b20206e5fc37"};
  for (const bool is_right : {true, false}) {
    if (!is_right) file.digest[0] = 'c';
    load_reads load(make_verified_source(std::make_shared<memory_source>(content), file,
                                         std::make_shared<file_hashing>()));
    load.start(0, content.size());
    CHECK(load.wait());
    CHECK((load.end() == errc::wrong_digest) != is_right);
  }
}

TEST_CASE("verified_source: the order of the reads and of their ends does not matter") {
  const std::string right = content_of(64'000);
  for (const bool is_right : {true, false}) {
    const auto source = std::make_shared<held_source>(right);
    if (!is_right) source->flip(45'000);
    load_reads load(verified(source, right));
    for (const std::uint64_t at : {16'000U, 0U, 48'000U, 32'000U}) load.start(at, 16'000);
    for (const std::size_t number : {2U, 0U, 3U, 1U}) source->response(number);
    CHECK(load.wait());
    CHECK((load.end() == errc::wrong_digest) != is_right);
  }
}

TEST_CASE("verified_source: reads end though the bytes before them are never requested") {
  const std::string right = content_of(4 * mebibyte);
  std::string content = right;
  content.back() ^= 1;
  load_reads load(verified(std::make_shared<memory_source>(content), right));
  load.start(3 * mebibyte, mebibyte);
  CHECK(load.wait());
  CHECK(load.end() == boost::system::error_code());  // A part cannot be compared.
  load.start(0, 3 * mebibyte);                       // Now all bytes were read.
  CHECK(load.wait());
  CHECK(load.end() == errc::wrong_digest);
}

TEST_CASE("verified_source: bytes outside of tensors are fetched, so that the file is whole") {
  const std::string right = content_of(100'000);
  std::string content = right;
  content[70'000] ^= 1;
  const auto source = std::make_shared<memory_source>(content);
  load_reads load(verified(source, right));
  load.start(0, 60'000);
  load.start(60'010, 39'980);
  CHECK(load.wait());
  CHECK(load.end() == errc::wrong_digest);
  CHECK(source->bytes_read == content.size());
}

TEST_CASE("verified_source: two reads of the same bytes must return the same bytes") {
  const std::string right = content_of(20'000);
  for (const bool later_first : {false, true}) {
    for (const bool differ : {false, true}) {
      CAPTURE(later_first);
      CAPTURE(differ);
      const auto source = std::make_shared<held_source>(right);
      load_reads load(verified(source, right));
      load.start(later_first ? 9'000 : 0, later_first ? 11'000 : 10'000);
      load.start(later_first ? 0 : 9'000, later_first ? 10'000 : 11'000);
      source->response(0);
      if (differ) source->flip(9'500);
      source->response(1);
      CHECK(load.wait());
      CHECK((load.end() == errc::changed_file) == differ);
    }
  }
  // The header was read when the checkpoint was opened.
  const auto source = std::make_shared<held_source>(right);
  load_reads load(verified(source, right));
  std::string header(1000, '\0');
  source_read opening(0, std::as_writable_bytes(std::span(header)));
  load.from->read_async(opening, [](std::exception_ptr failure) { CHECK(!failure); });
  source->response(0);
  source->flip(900);
  load.start(800, 19'200);
  source->response(1);
  CHECK(!load.wait());
}

TEST_CASE("verified_source: a read over the border of two reads is compared with both") {
  const std::string right = content_of(4 * mebibyte);
  // Both reads are in flight.
  for (const std::uint64_t changed : {0 * mebibyte, 2 * mebibyte - 1, 2 * mebibyte + 4095}) {
    CAPTURE(changed);
    const auto source = std::make_shared<held_source>(right);
    load_reads load(verified(source, right));
    for (const std::uint64_t at : {1U, 2U}) load.start(at * mebibyte, mebibyte);
    load.start(2 * mebibyte - 4096, 8192);
    for (const std::uint64_t at : {0U, 3U}) load.start(at * mebibyte, mebibyte);
    if (changed > 0) source->flip(changed);
    source->response(2);
    if (changed > 0) source->flip(changed);
    for (const std::size_t number : {3U, 0U, 1U, 4U}) source->response(number);
    CHECK(load.wait());
    CHECK((load.end() == errc::changed_file) == (changed > 0));
    CHECK(load.end() == boost::system::error_code());
  }
  // Both reads have ended, and wait for the bytes before them.
  for (const bool is_right : {true, false}) {
    std::string content = right;
    if (!is_right) content.back() ^= 1;
    load_reads load(verified(std::make_shared<memory_source>(content), right));
    load.start(mebibyte, mebibyte);
    load.start(2 * mebibyte, mebibyte);
    CHECK(load.wait());
    CHECK(load.end() == boost::system::error_code());
    load.start(2 * mebibyte - 4096, 8192);
    load.start(0, mebibyte);
    load.start(3 * mebibyte, mebibyte);
    CHECK(load.wait());
    CHECK((load.end() == errc::wrong_digest) != is_right);
  }
}

TEST_CASE("verified_source: after a read that failed, the others end") {
  const std::string right = content_of(30'000);
  const auto source = std::make_shared<held_source>(right);
  load_reads load(verified(source, right));
  for (const std::uint64_t at : {0U, 10'000U, 20'000U}) load.start(at, 10'000);
  source->response(2);
  source->response(0, true);
  source->response(1);
  CHECK(!load.wait());
  CHECK(load.end() == boost::system::error_code());
}
