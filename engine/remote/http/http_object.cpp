// SPDX-License-Identifier: Apache-2.0
#include "remote/http/http_object.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

namespace ringload::inline v0::remote_http {

namespace {

// A read, while its ranges are fetched. The first that fails stops the others.
struct divided_read {
  divided_read(byte_source::read_handler handler, std::size_t ranges)
      : done(std::move(handler)), left(ranges) {}

  byte_source::read_handler done;
  std::stop_source stop;
  using callback = std::stop_callback<std::function<void()>>;
  std::optional<callback> on_stop;

  std::mutex mutex;
  // Guarded by the mutex.
  std::size_t left;
  std::exception_ptr failed;

  void end_one(const std::exception_ptr& how) {
    bool last = false;
    bool stops = false;
    {
      const std::lock_guard lock(mutex);
      stops = how && !failed;
      if (stops) failed = how;
      last = --left == 0;
    }
    if (stops) stop.request_stop();
    if (!last) return;
    on_stop.reset();
    std::move(done)(failed);
  }
};

// One of its ranges, with all that must live until it has come.
struct range_transfer {
  range_transfer(const std::shared_ptr<lane>& on, const std::shared_ptr<object_address>& at,
                 const std::shared_ptr<const object_facts>& facts, std::uint64_t offset,
                 std::span<std::byte> into, transfer_counts* counts)
      : goal(facts, offset, into, counts), carried(std::make_shared<transfer>(on, at, goal)) {}

  range_goal goal;
  std::shared_ptr<transfer> carried;
};

class http_object final : public byte_source {
 public:
  http_object(std::shared_ptr<lanes> by, std::shared_ptr<object_address> at,
              std::shared_ptr<object_body> opened)
      : lanes_(std::move(by)),
        address_(std::move(at)),
        body_(std::move(opened)),
        facts_(body_->shared_facts()) {}
  ~http_object() override { body_->close(); }

  std::uint64_t bytes() const noexcept override { return facts_->bytes; }
  std::string identity() const override {
    return facts_->etag.empty() ? facts_->modified : facts_->etag;
  }
  void read_async(const source_read& what, read_handler done) override;

 private:
  void begin(const source_read& what, std::uint64_t offset, std::span<std::byte> into,
             const std::shared_ptr<divided_read>& of);

  const std::shared_ptr<lanes> lanes_;
  const std::shared_ptr<object_address> address_;
  const std::shared_ptr<object_body> body_;
  const std::shared_ptr<const object_facts> facts_;
};

void http_object::read_async(const source_read& what, read_handler done) {
  const std::uint64_t here = body_->end();
  if (what.offset <= here && what.into.size() <= here - what.offset) {
    return body_->read(what, std::move(done));
  }
  const auto chunk = static_cast<std::size_t>(lanes_->how->chunk_bytes);
  const std::size_t ranges = (what.into.size() + chunk - 1) / chunk;
  const auto whole = std::make_shared<divided_read>(std::move(done), ranges);
  whole->on_stop.emplace(what.stop, [stop = whole->stop]() mutable { stop.request_stop(); });
  std::size_t at = 0;
  for (std::size_t i = 0; i < ranges; ++i) {
    const auto part = what.into.subspan(at, std::min(chunk, what.into.size() - at));
    try {
      begin(what, what.offset + at, part, whole);
    } catch (const std::bad_alloc&) {
      whole->end_one(std::current_exception());  // Others may be under way.
    }
    at += part.size();
  }
}

void http_object::begin(const source_read& what, std::uint64_t offset, std::span<std::byte> into,
                        const std::shared_ptr<divided_read>& of) {
  const std::shared_ptr<lane> on = lanes_->next();
  const auto one =
      std::make_shared<range_transfer>(on, address_, facts_, offset, into, what.counts);
  one->carried->awaited = what.awaited;
  one->carried->counts = what.counts;
  one->carried->listen(of->stop.get_token());
  start(*on, one->carried, [one, of](const result<void>& outcome) {
    of->end_one(outcome ? nullptr : exception_of(outcome.error()));
  });
}

}  // namespace

std::shared_ptr<byte_source> make_http_object(std::shared_ptr<lanes> by,
                                              std::shared_ptr<object_address> at,
                                              std::shared_ptr<object_body> opened) {
  return std::make_shared<http_object>(std::move(by), std::move(at), std::move(opened));
}

}  // namespace ringload::inline v0::remote_http
