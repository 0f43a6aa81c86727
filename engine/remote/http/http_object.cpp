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

// A read that is split into ranges. If a range fails, the other ranges are cancelled.
struct divided_read {
  divided_read(byte_source::read_handler handler, std::size_t ranges)
      : done(std::move(handler)), left(ranges) {}

  byte_source::read_handler done;
  std::stop_source stop;
  using callback = std::stop_callback<std::function<void()>>;
  std::optional<callback> on_stop;

  std::mutex mutex;
  // The mutex guards the members below.
  std::size_t left;
  std::exception_ptr failed;

  void end_range(const std::exception_ptr& failure) {
    bool last = false;
    bool stops = false;
    {
      const std::lock_guard lock(mutex);
      stops = failure && !failed;
      if (stops) failed = failure;
      last = --left == 0;
    }
    if (stops) stop.request_stop();
    if (!last) return;
    on_stop.reset();
    std::move(done)(failed);
  }
};

// The transfer of one range, and the objects that must exist until the transfer ends.
struct range_transfer {
  range_transfer(const std::shared_ptr<net_thread>& thread,
                 const std::shared_ptr<object_address>& address,
                 const std::shared_ptr<const object_properties>& properties, std::uint64_t offset,
                 std::span<std::byte> into, transfer_counts* counts)
      : kind(properties, offset, into, counts),
        transfer(std::make_shared<http_transfer>(thread, address, kind)) {}

  range_kind kind;
  std::shared_ptr<http_transfer> transfer;
};

class http_object final : public byte_source {
 public:
  http_object(std::shared_ptr<net_thread_pool> threads, std::shared_ptr<object_address> address,
              std::shared_ptr<object_body> opened)
      : threads_(std::move(threads)),
        address_(std::move(address)),
        body_(std::move(opened)),
        properties_(body_->shared_properties()) {}
  ~http_object() override { body_->close(); }

  std::uint64_t bytes() const noexcept override { return properties_->bytes; }
  std::string identity() const override {
    return properties_->etag.empty() ? properties_->modified : properties_->etag;
  }
  void read_async(const source_read& request, read_handler done) override;

 private:
  void begin(const source_read& request, std::uint64_t offset, std::span<std::byte> into,
             const std::shared_ptr<divided_read>& parent);

  const std::shared_ptr<net_thread_pool> threads_;
  const std::shared_ptr<object_address> address_;
  const std::shared_ptr<object_body> body_;
  const std::shared_ptr<const object_properties> properties_;
};

void http_object::read_async(const source_read& request, read_handler done) {
  const std::uint64_t body_end = body_->end();
  if (request.offset <= body_end && request.into.size() <= body_end - request.offset) {
    return body_->read(request, std::move(done));
  }
  const std::size_t bytes = request.into.size();
  // No transfer is needed. `body_` posts the call of `done` to a network thread.
  if (bytes == 0) return body_->read(request, std::move(done));
  const auto chunk =
      static_cast<std::size_t>(std::min<std::uint64_t>(threads_->settings->chunk_bytes, bytes));
  const std::size_t ranges = bytes / chunk + (bytes % chunk == 0 ? 0 : 1);
  const auto whole = std::make_shared<divided_read>(std::move(done), ranges);
  whole->on_stop.emplace(request.stop, [stop = whole->stop]() mutable { stop.request_stop(); });
  std::size_t position = 0;
  for (std::size_t i = 0; i < ranges; ++i) {
    const auto part =
        request.into.subspan(position, std::min(chunk, request.into.size() - position));
    try {
      begin(request, request.offset + position, part, whole);
    } catch (const std::bad_alloc&) {
      // The read ends when the ranges in flight have ended.
      whole->end_range(std::current_exception());
    }
    position += part.size();
  }
}

void http_object::begin(const source_read& request, std::uint64_t offset, std::span<std::byte> into,
                        const std::shared_ptr<divided_read>& parent) {
  const std::shared_ptr<net_thread> thread = threads_->next();
  const auto range =
      std::make_shared<range_transfer>(thread, address_, properties_, offset, into, request.counts);
  range->transfer->awaited = request.awaited;
  range->transfer->counts = request.counts;
  range->transfer->listen(parent->stop.get_token());
  start(*thread, range->transfer, [range, parent](const result<void>& outcome) {
    parent->end_range(outcome ? nullptr : exception_of(outcome.error()));
  });
}

}  // namespace

std::shared_ptr<byte_source> make_http_object(std::shared_ptr<net_thread_pool> threads,
                                              std::shared_ptr<object_address> address,
                                              std::shared_ptr<object_body> opened) {
  return std::make_shared<http_object>(std::move(threads), std::move(address), std::move(opened));
}

}  // namespace ringload::inline v0::remote_http
