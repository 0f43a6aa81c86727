// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/verified_source.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/retry_allocation.hpp"
#include "catalog/read_object.hpp"
#include "remote/cache/header_copy.hpp"
#include "remote/cache/range_set.hpp"
#include "remote/cache/repeated_bytes.hpp"
#include "remote/hub/hub_hasher.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace asio = boost::asio;
using read_handler = byte_source::read_handler;

// If a read begins more than this number of bytes after the first unhashed byte, the digest of the
// file is not computed in this pass: see digest_passes.
constexpr std::uint64_t distance_max = std::uint64_t{128} << 20;
// Maximum number of unread bytes, such as padding, that are fetched to complete the hash of a file.
constexpr std::uint64_t unread_bytes_max = std::uint64_t{1} << 20;

std::uint64_t sum_of(const std::vector<byte_range>& ranges) {
  std::uint64_t out = 0;
  for (const byte_range& range : ranges) out += range.end - range.begin;
  return out;
}

// The part of a read that is not hashed yet and that no other chunk contains.
struct chunk {
  std::uint64_t end = 0;
  bool has_arrived = false;
  std::span<const std::byte> bytes = {};
  counted_copy copy = {};  // If not empty, owns `bytes`.
  read_handler done = {};  // Called when `bytes` are hashed or copied. Empty after the call.
};

using chunks = std::map<std::uint64_t, chunk>;  // Keyed by offset, without overlaps.

std::exception_ptr contradiction() {
  return std::make_exception_ptr(
      to_error({errc::changed_file, "", "two reads of the same bytes returned different bytes"}));
}

void complete(chunks released) {
  for (auto& [begin, waiting] : released) {
    if (waiting.done) std::move(waiting.done)(nullptr);
  }
}

// Hashes a file in passes. Each pass hashes every byte once, in the order of the file. Thread-safe.
class digest_passes : public std::enable_shared_from_this<digest_passes> {
 public:
  digest_passes(std::shared_ptr<byte_source> source, std::string digest,
                std::shared_ptr<copied_bytes> copied)
      : from(std::move(source)), digest_(std::move(digest)), copied_(std::move(copied)) {
    begin_pass();
  }

  void read(const source_read& request, read_handler done, threads& pool);
  // If all bytes are hashed, ends the pass, and throws wrong_digest if the digest is wrong. Throws
  // changed_file if two reads of the same bytes returned different bytes.
  void finish(threads& pool);
  bool has_unverified_bytes() const noexcept { return is_unverified_; }

  const std::shared_ptr<byte_source> from;

 private:
  // The functions below, except end_read() and hash(), must be called with mutex_ locked.
  void begin_pass();
  chunks give_up() noexcept;
  std::optional<byte_range> new_part_of(byte_range range) const;
  std::optional<std::uint64_t> add_chunk(byte_range range, chunks& released);
  void end_read(const source_read& request, std::optional<std::uint64_t> key,
                std::exception_ptr failure, read_handler done, threads& pool);
  bool keep(const source_read& request, std::uint64_t key, read_handler& done);
  void release_waiting(chunks& released);
  std::vector<byte_range> missing_in(byte_range range) const;
  void fetch_gaps(std::unique_lock<std::mutex>& hold);
  std::optional<chunk> take_next();
  void start_hashing(threads& pool);
  void hash();

  const std::string digest_;
  const std::shared_ptr<copied_bytes> copied_;
  std::mutex finishing_;  // Held by finish(). Must be locked before mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;  // Notified when is_hashing_ becomes false.
  std::optional<hub_hasher> hasher_;
  header_copy header_;
  chunks chunks_;            // All chunks begin at or after front_.
  std::uint64_t front_ = 0;  // All earlier bytes are hashed or are being hashed.
  std::size_t in_flight_ = 0;
  std::atomic<bool> is_unverified_ = false;  // A load has read bytes that were not verified.
  repeated_bytes repeated_;
  bool is_complete_ = false;   // False if this pass cannot hash all bytes: see give_up().
  bool is_hashing_ = false;    // True while a thread runs hash().
  bool is_finishing_ = false;  // If true, hash() also hashes bytes of header_ after the last chunk.
};

void digest_passes::begin_pass() {
  auto hasher = hub_hasher::make(digest_, from->bytes());
  is_complete_ = hasher.has_value();
  if (hasher) hasher_ = std::move(*hasher);
  chunks_.clear();
  front_ = 0;
  repeated_.begin_pass();
}

// Ends the hashing of this pass. Returns the chunks whose reads wait for hashing. The caller must
// unlock the mutex and then pass the chunks to complete().
chunks digest_passes::give_up() noexcept {
  is_complete_ = false;
  return std::exchange(chunks_, {});
}

// Returns the parts of `range` that neither header_ nor a chunk has.
std::vector<byte_range> digest_passes::missing_in(byte_range range) const {
  range_set present(from->bytes());
  header_.add_ranges(present);
  for (const auto& [begin, arriving] : chunks_) {
    if (begin >= range.end) break;
    present.add({begin, arriving.end});
  }
  return present.missing_in(range);
}

// Returns the part of `range` that is in no chunk and not hashed. If there is no such part, returns
// an empty range at the end of `range`, because a chunk may begin at any earlier offset. Returns an
// empty optional if the new part begins too far after front_, or if the other parts of `range` are
// too large for repeated_ and not in header_.
std::optional<byte_range> digest_passes::new_part_of(byte_range range) const {
  byte_range out = {std::max(range.begin, front_), range.end};
  const auto next = chunks_.upper_bound(out.begin);
  if (next != chunks_.end()) out.end = std::min(out.end, next->first);
  if (next != chunks_.begin()) out.begin = std::max(out.begin, std::prev(next)->second.end);
  if (out.begin >= out.end) out = {range.end, range.end};
  const auto can_compare = [this](byte_range part) {
    return part.begin + repeated_bytes::bytes_max >= part.end || header_.has(part);
  };
  const bool is_right = can_compare({range.begin, out.begin}) &&
                        can_compare({out.end, range.end}) && out.begin <= front_ + distance_max;
  return is_right ? std::optional(out) : std::nullopt;
}

// Adds a chunk for the new part of `range`, unless this part is empty. Returns the offset of the
// part, which is the key of the chunk. Returns an empty optional if the bytes will not be hashed.
std::optional<std::uint64_t> digest_passes::add_chunk(byte_range range, chunks& released) {
  const bool can_begin_pass = in_flight_ == 0 && !is_hashing_ && !repeated_.is_contradictory;
  if (can_begin_pass && !(is_complete_ && new_part_of(range))) begin_pass();
  if (!is_complete_) return std::nullopt;
  const auto part = new_part_of(range);
  if (!part) {
    released = give_up();
    return std::nullopt;
  }
  if (part->begin < part->end) chunks_.emplace(part->begin, chunk{.end = part->end});
  return part->begin;
}

void digest_passes::read(const source_read& request, read_handler done, threads& pool) {
  const auto shared_done = std::make_shared<read_handler>(std::move(done));
  std::optional<std::uint64_t> key;
  chunks released;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    // A read without counters belongs to the opening of the checkpoint, not to a load.
    if (request.counts != nullptr) {
      is_unverified_ = true;
      key = add_chunk({request.offset, request.offset + request.into.size()}, released);
    }
    ++in_flight_;
  }
  complete(std::move(released));
  try {
    from->read_async(request, [self = shared_from_this(), request, key, shared_done,
                               &pool](std::exception_ptr failure) {
      self->end_read(request, key, std::move(failure), std::move(*shared_done), pool);
    });
  } catch (...) {
    chunks stopped;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      --in_flight_;
      stopped = give_up();
    }
    complete(std::move(stopped));
    throw;
  }
}

void digest_passes::end_read(const source_read& request, std::optional<std::uint64_t> key,
                             std::exception_ptr failure, read_handler done, threads& pool) {
  chunks released;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    --in_flight_;
    if (!failure && !header_.equals(request.offset, request.into)) failure = contradiction();
    bool is_kept = !failure;
    try {
      if (is_kept && request.counts == nullptr) {
        is_kept = header_.add(request.offset, request.into);
      } else if (is_kept && key && is_complete_) {
        is_kept = keep(request, *key, done);
      }
    } catch (const std::bad_alloc&) {
      is_kept = false;
    }
    if (!is_kept) released = give_up();
    start_hashing(pool);
    if (is_complete_ && in_flight_ == 0) release_waiting(released);
  }
  if (done) std::move(done)(std::move(failure));
  complete(std::move(released));
}

// Keeps the bytes of a completed read until the bytes are hashed. `key` is the key of the read's
// chunk. Takes `done`, which is called after the hashing, so that the memory of the read stays
// valid. Compares the bytes that another read has also returned. Returns false if these bytes can
// no longer be compared.
bool digest_passes::keep(const source_read& request, std::uint64_t key, read_handler& done) {
  const std::span<const std::byte> bytes = request.into;
  const std::size_t before = key - request.offset;
  const auto found = chunks_.find(key);
  // A read without a chunk has only bytes that other reads have also requested.
  const bool is_new = found != chunks_.end() && before < bytes.size();
  const std::size_t end = is_new ? found->second.end - request.offset : bytes.size();
  const auto compare = [this](std::uint64_t offset, std::span<const std::byte> part) {
    // end_read() has already compared `part` with header_.
    if (header_.has({offset, offset + part.size()})) return true;
    return repeated_.compare(front_, offset, part);
  };
  if (!compare(request.offset, bytes.first(before))) return false;
  if (!compare(request.offset + end, bytes.subspan(end))) return false;
  if (!is_new) return true;
  chunk& arrived = found->second;
  arrived.has_arrived = true;
  arrived.bytes = bytes.subspan(before, end - before);
  arrived.done.swap(done);  // The move assignment of a handler recurses infinitely in Boost 1.81.
  return true;
}

// Copies the bytes of the reads that wait because an earlier byte is missing, and completes these
// reads. Called when no read is in flight: the load may need the memory of the waiting reads to
// request the missing byte.
void digest_passes::release_waiting(chunks& released) {
  std::vector<byte_range> missing;
  try {
    for (auto& [begin, waiting] : chunks_) {
      if (!waiting.done) continue;
      missing = missing_in({front_, begin});
      if (missing.empty()) continue;
      if (sum_of(missing) > distance_max || !waiting.copy.assign(waiting.bytes, copied_)) {
        released.merge(give_up());
        return;
      }
      waiting.bytes = waiting.copy.bytes();
      released[begin].done.swap(waiting.done);
    }
  } catch (const std::bad_alloc&) {
    released.merge(give_up());
  }
}

void digest_passes::start_hashing(threads& pool) {
  if (is_hashing_ || !is_complete_) return;
  is_hashing_ = true;
  retry_allocation(
      [&] { asio::post(pool.get_executor(), [self = shared_from_this()] { self->hash(); }); });
}

// Returns the next bytes in the order of the file, or an empty optional if these bytes are not
// present.
std::optional<chunk> digest_passes::take_next() {
  if (!is_complete_) return std::nullopt;
  const auto first = chunks_.begin();
  if (first != chunks_.end() && first->first == front_) {
    if (!first->second.has_arrived) return std::nullopt;
    chunk out = std::move(first->second);
    chunks_.erase(first);
    front_ = out.end;
    repeated_.add(front_, out.bytes);
    return out;
  }
  const std::uint64_t unread = is_finishing_ ? from->bytes() : front_;
  const std::uint64_t limit = first == chunks_.end() ? unread : first->first;
  chunk out;
  out.bytes = header_.find({front_, std::max(front_, limit)});
  if (out.bytes.empty()) return std::nullopt;
  front_ = out.end = front_ + out.bytes.size();
  repeated_.add(front_, out.bytes);
  return out;
}

void digest_passes::hash() {
  for (;;) {
    std::unique_lock<std::mutex> hold(mutex_);
    std::optional<chunk> next = take_next();
    if (!next) {
      is_hashing_ = false;
      changed_.notify_all();
      return;
    }
    hold.unlock();
    hasher_->update(next->bytes);
    if (next->done) std::move(next->done)(nullptr);
  }
}

// Fetches the bytes that no load has read, if these bytes are at most unread_bytes_max bytes and at
// most half of the file.
void digest_passes::fetch_gaps(std::unique_lock<std::mutex>& hold) {
  const std::vector<byte_range> gaps = missing_in({front_, from->bytes()});
  const std::uint64_t bytes = sum_of(gaps);
  // While a checkpoint is opened, most bytes of a file are missing, so nothing is fetched.
  if (bytes > unread_bytes_max || bytes > from->bytes() / 2) return;
  for (const byte_range& gap : gaps) {
    std::vector<std::byte> memory(gap.end - gap.begin);
    hold.unlock();
    const auto outcome = read_object(*from, source_read(gap.begin, memory));
    hold.lock();
    if (!outcome || !is_complete_) return;
    // Another load may have begun in the meantime and requested these bytes.
    if (gap.begin < front_ || missing_in(gap) != std::vector{gap}) return;
    chunk fetched{.end = gap.end, .has_arrived = true};
    if (!fetched.copy.assign(memory, copied_)) return;
    fetched.bytes = fetched.copy.bytes();
    chunks_.emplace(gap.begin, std::move(fetched));
  }
}

void digest_passes::finish(threads& pool) {
  const std::lock_guard<std::mutex> alone(finishing_);
  std::unique_lock<std::mutex> hold(mutex_);
  const auto wait = [&] { changed_.wait(hold, [this] { return !is_hashing_; }); };
  wait();
  if (is_complete_ && in_flight_ == 0) {
    fetch_gaps(hold);
    is_finishing_ = true;
    start_hashing(pool);
    wait();
    is_finishing_ = false;
  }
  if (std::exchange(repeated_.is_contradictory, false)) {
    is_complete_ = false;
    std::rethrow_exception(contradiction());
  }
  if (!is_complete_ || front_ != from->bytes() || in_flight_ > 0) return;
  const std::string computed = hasher_->finish();
  begin_pass();
  is_unverified_ = false;
  if (computed == digest_) return;
  throw to_error({errc::wrong_digest, "",
                  "the received bytes have the digest " + computed + ", expected " + digest_ +
                      " from the hub"});
}

class verified_source final : public byte_source {
 public:
  verified_source(std::shared_ptr<digest_passes> passes, std::shared_ptr<file_hashing> hashing)
      : passes_(std::move(passes)), hashing_(std::move(hashing)) {}

  std::uint64_t bytes() const noexcept override { return passes_->from->bytes(); }
  std::string identity() const override {
    passes_->finish(hashing_->pool);
    return passes_->from->identity();
  }
  void read_async(const source_read& request, read_handler done) override {
    passes_->read(request, std::move(done), hashing_->pool);
  }
  bool has_unverified_bytes() const noexcept override { return passes_->has_unverified_bytes(); }
  bool drop_copy() override { return passes_->from->drop_copy(); }

 private:
  const std::shared_ptr<digest_passes> passes_;
  const std::shared_ptr<file_hashing> hashing_;
};

}  // namespace

std::shared_ptr<byte_source> make_verified_source(std::shared_ptr<byte_source> from,
                                                  const hub_file& file,
                                                  std::shared_ptr<file_hashing> hashing) {
  if (file.digest.empty()) return from;
  auto passes = std::make_shared<digest_passes>(std::move(from), file.digest, hashing->copied);
  return std::make_shared<verified_source>(std::move(passes), std::move(hashing));
}

}  // namespace ringload::inline v0::remote_http
