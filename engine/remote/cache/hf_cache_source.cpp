// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/hf_cache_source.hpp"

#include <atomic>
#include <boost/asio/post.hpp>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace asio = boost::asio;

// What no tensor lies in, such as padding, is fetched once nothing else is missing: so much of it.
constexpr std::uint64_t gaps_bytes_max = std::uint64_t{1} << 20;
constexpr std::size_t parts_max = 4;  // Of one read, that are fetched apart.

// Lives until the last write and the last hash are done.
struct caching {
  caching(std::shared_ptr<byte_source> source, std::shared_ptr<hf_cache_file> into,
          std::function<void(const hub_cached_file&)> report, std::string shown)
      : from(std::move(source)),
        blob(std::move(into)),
        on_cached(std::move(report)),
        name(std::move(shown)) {}
  caching(const caching&) = delete;
  caching& operator=(const caching&) = delete;
  ~caching() { tell(); }

  void write(const source_read& what);
  void advance();
  // Fetches what no tensor lies in, if little else is missing.
  void finish();
  void tell() const;

  const std::shared_ptr<byte_source> from;
  const std::shared_ptr<hf_cache_file> blob;
  const std::function<void(const hub_cached_file&)> on_cached;
  const std::string name;
  std::atomic<std::uint32_t> wanted = 0;  // Calls of advance() that one of them answers.
  std::atomic<bool> failed = false;       // A read has failed, or was cancelled.
  std::atomic<bool> raised = false;       // A load was told of the wrong digest.
};

// A failure is kept by the blob, and told at the end: the load goes on without the cache.
void caching::write(const source_read& what) {
  static_cast<void>(blob->write(what.offset, what.into));
}

void caching::advance() {
  if (wanted.fetch_add(1) > 0) return;  // Whoever is at it goes round again.
  std::uint32_t seen = 1;
  do {
    seen = wanted.load();
    static_cast<void>(blob->advance());
  } while (!wanted.compare_exchange_strong(seen, 0));
}

// Nobody reads any more. What no tensor lies in is fetched where it is all that is missing.
void caching::finish() {
  const std::vector<byte_range> gaps = blob->missing();
  std::uint64_t bytes = 0;
  for (const byte_range& each : gaps) bytes += each.end - each.begin;
  if (bytes == 0 || bytes > gaps_bytes_max || failed) return;
  for (const byte_range& each : gaps) {
    std::vector<std::byte> memory(each.end - each.begin);
    std::promise<void> ended;
    auto end = ended.get_future();
    from->read_async({each.begin, memory}, [&](std::exception_ptr failure) {
      if (failure) {
        ended.set_exception(std::move(failure));
      } else {
        ended.set_value();
      }
    });
    try {
      end.get();
    } catch (...) {
      return;  // They stay missing, and the next load fetches them.
    }
    static_cast<void>(blob->write(each.begin, memory));
  }
  advance();
}

void caching::tell() const {
  if (!on_cached) return;
  hub_cached_file out;
  out.name = name;
  if (auto good = blob->advance(); !good && !raised) out.why = message_of(good.error());
  out.whole = blob->published();
  for (const byte_range& each : blob->missing()) out.missing_bytes += each.end - each.begin;
  on_cached(out);
}

void report_failure(const std::function<void(const hub_cached_file&)>& to, const std::string& name,
                    std::string why) {
  if (!to) return;
  hub_cached_file out;
  out.name = name;
  out.why = std::move(why);
  to(out);
}

// If all bytes are there, or could soon be, waits until the digest is compared. Throws
// wrong_digest.
void check_digest(const std::shared_ptr<caching>& state, cache_threads& threads) {
  std::uint64_t missing_bytes = 0;
  for (const byte_range& each : state->blob->missing()) missing_bytes += each.end - each.begin;
  // While a checkpoint is opened, more is missing.
  if (missing_bytes <= state->from->bytes() / 2) state->finish();
  if (!state->blob->missing().empty()) return;
  asio::post(threads.hashing, [state] { state->advance(); });
  const auto outcome = state->blob->wait_until_published();
  if (outcome || outcome.error().code != errc::wrong_digest) return;
  state->raised = true;
  throw to_error(outcome.error());
}

class hf_cache_source final : public byte_source {
 public:
  hf_cache_source(std::shared_ptr<caching> state, std::shared_ptr<cache_threads> threads)
      : state_(std::move(state)), threads_(std::move(threads)) {}
  ~hf_cache_source() override;

  std::uint64_t bytes() const noexcept override { return state_->from->bytes(); }
  std::string identity() const override {
    check_digest(state_, *threads_);
    return state_->from->identity();
  }
  void read_async(const source_read& what, read_handler done) override;
  bool drop_copy() override { return state_->blob->begin_anew(); }

 private:
  std::shared_ptr<caching> state_;
  std::shared_ptr<cache_threads> threads_;
};

hf_cache_source::~hf_cache_source() {
  asio::post(threads_->hashing, [state = std::move(state_)] { state->finish(); });
}

// Reads from the network, and writes into the cache before `done` is called.
void fetch(const std::shared_ptr<caching>& state, cache_threads& threads, const source_read& what,
           byte_source::read_handler done) {
  const auto shared_done = std::make_shared<byte_source::read_handler>(std::move(done));
  const auto keep = [state, &threads, what, shared_done] {
    state->write(what);
    retry_allocation([&] { asio::post(threads.hashing, [state] { state->advance(); }); });
    std::move (*shared_done)(nullptr);
  };
  state->from->read_async(what, [state, &threads, shared_done, keep](std::exception_ptr failure) {
    if (failure) {
      state->failed = true;
      std::move (*shared_done)(std::move(failure));
      return;
    }
    retry_allocation([&] { asio::post(threads.writing, keep); });
  });
}

// The parts of one read: what the cache has, and what is fetched.
struct joined_read {
  explicit joined_read(byte_source::read_handler handler) : done(std::move(handler)) {}

  // Of one part. The last one completes the read, with the first failure.
  void end(std::exception_ptr failure) {
    {
      const std::lock_guard<std::mutex> hold(mutex);
      if (failure && !first_failure) first_failure = std::move(failure);
      if (--left > 0) return;
    }
    std::move(done)(std::move(first_failure));
  }

  byte_source::read_handler done;
  std::mutex mutex;
  std::size_t left = 1;  // The beginner's, until it has begun all.
  std::exception_ptr first_failure;
};

source_read part_of(const source_read& what, byte_range range) {
  source_read out = what;
  out.into = what.into.subspan(range.begin - what.offset, range.end - range.begin);
  out.offset = range.begin;
  return out;
}

void read_cached(const std::shared_ptr<caching>& state, cache_threads& threads,
                 const source_read& what, byte_source::read_handler done) {
  asio::post(threads.writing, [state, &threads, what, done = std::move(done)]() mutable {
    if (!state->blob->read(what.offset, what.into)) {
      fetch(state, threads, what, std::move(done));
      return;
    }
    asio::post(threads.hashing, [state] { state->advance(); });
    std::move(done)(nullptr);
  });
}

void hf_cache_source::read_async(const source_read& what, read_handler done) {
  const byte_range all = {what.offset, what.offset + what.into.size()};
  const std::vector<byte_range> missing = state_->blob->missing_in(all);
  if (missing.empty()) return read_cached(state_, *threads_, what, std::move(done));
  // A request for each of many small gaps would take longer than the bytes between them.
  if (missing.size() > parts_max || missing.front() == all) {
    return fetch(state_, *threads_, what, std::move(done));
  }
  const auto whole = std::make_shared<joined_read>(std::move(done));
  const auto begin = [&](byte_range range, auto how) {
    if (range.begin == range.end) return;
    {
      const std::lock_guard<std::mutex> hold(whole->mutex);
      ++whole->left;
    }
    how(state_, *threads_, part_of(what, range),
        [whole](std::exception_ptr failure) { whole->end(std::move(failure)); });
  };
  std::uint64_t at = all.begin;
  for (const byte_range& each : missing) {
    begin({at, each.begin}, read_cached);
    begin(each, fetch);
    at = each.end;
  }
  begin({at, all.end}, read_cached);
  whole->end(nullptr);
}

}  // namespace

cache_threads::~cache_threads() {
  writing.join();  // What it writes is then hashed.
  hashing.join();
}

std::shared_ptr<byte_source> make_hf_cache_source(std::shared_ptr<byte_source> from,
                                                  blob_place place,
                                                  std::shared_ptr<cache_threads> threads) {
  std::string name = place.model.repository + "/" + place.file.name;
  if (!place.file.bytes) place.file.bytes = from->bytes();
  if (place.file.digest.empty()) {
    report_failure(threads->on_cached, name, "the hub does not say its digest");
    return from;
  }
  auto blob = hf_cache_file::open(std::move(place));
  if (!blob) {
    report_failure(threads->on_cached, name, message_of(blob.error()));
    return from;
  }
  if (!*blob) {
    report_failure(threads->on_cached, name, "another program, or load, is writing it");
    return from;
  }
  auto state = std::make_shared<caching>(std::move(from), std::move(*blob), threads->on_cached,
                                         std::move(name));
  return std::make_shared<hf_cache_source>(std::move(state), std::move(threads));
}

}  // namespace ringload::inline v0::remote_http
