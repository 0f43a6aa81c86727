// SPDX-License-Identifier: Apache-2.0

#include "remote/cache/hf_cache_source.hpp"

#include <atomic>
#include <boost/asio/post.hpp>
#include <exception>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "base/catch_as_fault.hpp"
#include "base/retry_allocation.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace asio = boost::asio;

// Maximum number of missing bytes that are fetched at the end of a load to complete the file.
constexpr std::uint64_t gaps_bytes_max = std::uint64_t{1} << 20;
constexpr std::size_t parts_max = 4;  // Maximum number of separate fetches for one read.

// State of one cached file. Exists until the last write and the last hash are complete.
struct caching {
  caching(std::shared_ptr<byte_source> source, std::shared_ptr<hf_cache_file> into,
          std::function<void(const hub_cached_file&)> report, std::string shown)
      : from(std::move(source)),
        blob(std::move(into)),
        on_cached(std::move(report)),
        name(std::move(shown)) {}
  caching(const caching&) = delete;
  caching& operator=(const caching&) = delete;
  ~caching() {
    const auto work = [this]() -> result<void> {
      report_state();
      return {};
    };
    static_cast<void>(catch_as_fault(work));  // A destructor cannot report a failure.
  }

  void write(const source_read& request) noexcept;
  void advance() noexcept;
  // Called after the last read, and before the digest check. If at most gaps_bytes_max bytes are
  // missing and no read has failed, fetches the missing bytes, such as padding.
  void finish();
  void throw_contradiction();
  void report_state() const;

  const std::shared_ptr<byte_source> from;
  const std::shared_ptr<hf_cache_file> blob;
  const std::function<void(const hub_cached_file&)> on_cached;
  const std::string name;
  // Number of unfinished calls of advance(). The first call also does the work of the later calls.
  std::atomic<std::uint32_t> pending_advances = 0;
  std::atomic<bool> is_read = false;  // True if a load has read the file.
  std::atomic<bool> failed = false;   // True if a read failed or was cancelled.
  std::atomic<bool> raised = false;   // True if a load has reported the wrong bytes.
};

// Ignores a failure, because the load can continue without the cache. If the bytes cannot be
// written, `blob` stores the failure, and report_state() reports the failure.
void caching::write(const source_read& request) noexcept {
  static_cast<void>(catch_as_fault([&] { return blob->write(request.offset, request.into); }));
}

void caching::advance() noexcept {
  // If another thread runs the loop below, that thread calls blob->advance() again.
  if (pending_advances.fetch_add(1) > 0) return;
  std::uint32_t seen = 1;
  do {
    seen = pending_advances.load();
    static_cast<void>(catch_as_fault([this] { return blob->advance(); }));
  } while (!pending_advances.compare_exchange_strong(seen, 0));
}

void caching::finish() {
  const std::vector<byte_range> gaps = blob->missing();
  std::uint64_t bytes = 0;
  for (const byte_range& gap : gaps) bytes += gap.end - gap.begin;
  if (bytes == 0 || bytes > gaps_bytes_max || failed) return;
  for (const byte_range& gap : gaps) {
    std::vector<std::byte> memory(gap.end - gap.begin);
    std::promise<void> ended;
    auto end = ended.get_future();
    from->read_async({gap.begin, memory}, [&](std::exception_ptr failure) {
      if (failure) {
        ended.set_exception(std::move(failure));
      } else {
        ended.set_value();
      }
    });
    try {
      end.get();
    } catch (...) {
      return;  // The next load fetches the missing bytes.
    }
    static_cast<void>(blob->write(gap.begin, memory));
  }
  advance();
}

// Throws changed_file if received bytes differed from cached bytes.
void caching::throw_contradiction() {
  const auto contradiction = blob->contradiction();
  if (!contradiction) return;
  raised = true;
  throw to_error(*contradiction);
}

void caching::report_state() const {
  if (!on_cached) return;
  hub_cached_file out;
  out.name = name;
  if (auto outcome = blob->advance(); !outcome && !raised)
    out.error_text = message_of(outcome.error());
  out.whole = blob->published();
  for (const byte_range& gap : blob->missing()) out.missing_bytes += gap.end - gap.begin;
  on_cached(out);
}

void report_failure(const std::function<void(const hub_cached_file&)>& on_cached,
                    const std::string& name, std::uint64_t missing_bytes, std::string reason) {
  if (!on_cached) return;
  hub_cached_file out;
  out.name = name;
  out.missing_bytes = missing_bytes;
  out.error_text = std::move(reason);
  on_cached(out);
}

// If at most gaps_bytes_max bytes and at most half of the file are missing, and no read has failed,
// fetches the missing bytes. If no bytes are missing afterwards, waits for the digest check, and
// throws wrong_digest if the digest is wrong. Throws changed_file if received bytes differed from
// cached bytes, because the load may have read wrong bytes from the cache.
void check_digest(const std::shared_ptr<caching>& state, cache_threads& threads) {
  state->throw_contradiction();
  std::uint64_t missing_bytes = 0;
  for (const byte_range& gap : state->blob->missing()) missing_bytes += gap.end - gap.begin;
  // While a checkpoint is opened, most bytes of a file are missing, so nothing is fetched.
  if (missing_bytes <= state->from->bytes() / 2) state->finish();
  state->throw_contradiction();
  if (!state->blob->missing().empty()) return;
  asio::post(threads.hashing.get_executor(), [state] { state->advance(); });
  const auto outcome = state->blob->wait_until_published();
  state->throw_contradiction();
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
  void read_async(const source_read& request, read_handler done) override;
  bool has_unverified_bytes() const noexcept override {
    return state_->is_read && !state_->blob->published();
  }
  bool drop_copy() override { return state_->blob->begin_anew(); }

 private:
  std::shared_ptr<caching> state_;
  std::shared_ptr<cache_threads> threads_;
};

hf_cache_source::~hf_cache_source() {
  const auto finish = [state = std::move(state_)] {
    const auto work = [&]() -> result<void> {
      state->finish();
      return {};
    };
    static_cast<void>(catch_as_fault(work));  // The next load fetches the missing bytes.
  };
  retry_allocation([&] { asio::post(threads_->hashing.get_executor(), finish); });
}

// Receives bytes from the network, writes the bytes into the cache, then calls `done`.
void fetch(const std::shared_ptr<caching>& state, cache_threads& threads,
           const source_read& request,
           const std::shared_ptr<byte_source::read_handler>& shared_done) {
  const auto keep = [state, &threads, request, shared_done] {
    state->write(request);
    retry_allocation(
        [&] { asio::post(threads.hashing.get_executor(), [state] { state->advance(); }); });
    std::move (*shared_done)(nullptr);
  };
  state->from->read_async(
      request, [state, &threads, shared_done, keep](std::exception_ptr failure) {
        if (failure) {
          state->failed = true;
          std::move (*shared_done)(std::move(failure));
          return;
        }
        retry_allocation([&] { asio::post(threads.writing.get_executor(), keep); });
      });
}

// A read whose bytes are partly in the cache and partly received from the network.
struct joined_read {
  explicit joined_read(byte_source::read_handler handler) : done(std::move(handler)) {}

  // Ends one part of the read. After the last part, calls `done` with the first failure.
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
  std::size_t left = 1;  // Parts in flight, plus 1 while parts are being started.
  std::exception_ptr first_failure;
};

source_read part_of(const source_read& request, byte_range range) {
  source_read out = request;
  out.into = request.into.subspan(range.begin - request.offset, range.end - range.begin);
  out.offset = range.begin;
  return out;
}

void read_cached(const std::shared_ptr<caching>& state, cache_threads& threads,
                 const source_read& request, byte_source::read_handler done) {
  auto shared_done = std::make_shared<byte_source::read_handler>(std::move(done));
  asio::post(threads.writing.get_executor(),
             [state, &threads, request, shared_done = std::move(shared_done)] {
               try {
                 if (!state->blob->read(request.offset, request.into)) {
                   return fetch(state, threads, request, shared_done);
                 }
                 asio::post(threads.hashing.get_executor(), [state] { state->advance(); });
               } catch (...) {
                 return std::move(*shared_done)(std::current_exception());
               }
               std::move (*shared_done)(nullptr);
             });
}

void hf_cache_source::read_async(const source_read& request, read_handler done) {
  if (request.counts != nullptr) state_->is_read = true;
  const byte_range requested = {request.offset, request.offset + request.into.size()};
  const std::vector<byte_range> missing = state_->blob->missing_in(requested);
  if (missing.empty()) return read_cached(state_, *threads_, request, std::move(done));
  // For many small gaps, one request for the whole read is faster than a request for each gap.
  if (missing.size() > parts_max || missing.front() == requested) {
    return fetch(state_, *threads_, request, std::make_shared<read_handler>(std::move(done)));
  }
  const auto whole = std::make_shared<joined_read>(std::move(done));
  const auto begin = [&](byte_range range, auto read_part) {
    if (range.begin == range.end) return;
    {
      const std::lock_guard<std::mutex> hold(whole->mutex);
      ++whole->left;
    }
    // If a part cannot be started, the read fails, but only after the other parts have ended.
    try {
      read_part(range, [whole](std::exception_ptr failure) { whole->end(std::move(failure)); });
    } catch (...) {
      whole->end(std::current_exception());
    }
  };
  const auto cached = [&](byte_range range, read_handler part_done) {
    read_cached(state_, *threads_, part_of(request, range), std::move(part_done));
  };
  const auto fetched = [&](byte_range range, read_handler part_done) {
    fetch(state_, *threads_, part_of(request, range),
          std::make_shared<read_handler>(std::move(part_done)));
  };
  std::uint64_t position = requested.begin;
  for (const byte_range& gap : missing) {
    begin({position, gap.begin}, cached);
    begin(gap, fetched);
    position = gap.end;
  }
  begin({position, requested.end}, cached);
  whole->end(nullptr);
}

}  // namespace

cache_threads::~cache_threads() {
  writing.join();  // Must end before `hashing`, because these threads post work to `hashing`.
  hashing.join();
}

std::shared_ptr<byte_source> make_hf_cache_source(std::shared_ptr<byte_source> from,
                                                  blob_place place,
                                                  std::shared_ptr<cache_threads> threads) {
  std::string name = place.model.repository + "/" + place.file.name;
  if (!place.file.bytes) place.file.bytes = from->bytes();
  const std::uint64_t bytes = *place.file.bytes;
  if (place.file.digest.empty()) {
    report_failure(threads->on_cached, name, bytes, "the hub does not report a digest");
    return nullptr;
  }
  auto blob = hf_cache_file::open(std::move(place));
  if (!blob) {
    report_failure(threads->on_cached, name, bytes, message_of(blob.error()));
    return nullptr;
  }
  if (!*blob) {
    report_failure(threads->on_cached, name, bytes, "another program or load is writing the file");
    return nullptr;
  }
  auto state = std::make_shared<caching>(std::move(from), std::move(*blob), threads->on_cached,
                                         std::move(name));
  return std::make_shared<hf_cache_source>(std::move(state), std::move(threads));
}

}  // namespace ringload::inline v0::remote_http
