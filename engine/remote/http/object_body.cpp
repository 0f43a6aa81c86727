// SPDX-License-Identifier: Apache-2.0

#include "remote/http/object_body.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::remote_http {

namespace asio = boost::asio;

namespace {

// Maximum number of received bytes that no read needed, as a multiple of the object's size.
constexpr std::uint64_t wasted_share_max = 2;

std::string field_of(const response_head& head, std::string_view name) {
  const std::string* const value = head.field(name);
  return value == nullptr ? std::string() : *value;
}

std::exception_ptr cancelled_read() noexcept {
  return exception_of({asio::error::operation_aborted, ""});
}

}  // namespace

object_body::object_body(std::shared_ptr<net_thread> thread,
                         std::shared_ptr<object_address> address)
    : thread_(std::move(thread)),
      address_(std::move(address)),
      window_(thread_->settings->whole_bytes_max),
      demand_(thread_->loop) {}

void object_body::open(const std::stop_token& stop,
                       std::function<void(const result<void>&)> opened) {
  opened_ = std::move(opened);
  transfer_ = std::make_shared<http_transfer>(thread_, address_, *this);
  transfer_->listen(stop);
  asio::post(thread_->loop, [self = shared_from_this()] { self->begin(); });
}

// Starts a transfer. If the server supports ranges, the transfer continues at the current position.
// Otherwise the transfer starts at the first byte.
void object_body::begin() {
  has_requested_ = false;
  transfer_handler::function ends;
  try {
    ends = [self = shared_from_this()](const result<void>& outcome) { self->ended(outcome); };
  } catch (const std::bad_alloc&) {
    return ended(fault{errc::memory_exceeded, ""});
  }
  start(*thread_, transfer_, std::move(ends));
}

void object_body::ended(const result<void>& outcome) {
  transfer_.reset();
  if (opened_) return report_opened(outcome);
  if (!outcome) return fail_reads(outcome.error());
  if (!reads_.empty()) begin_again();
}

// Starts another transfer for reads whose bytes are no longer kept or were not received.
void object_body::begin_again() {
  if (window_.wasted_bytes() > wasted_share_max * properties_->bytes) {
    return fail_reads({errc::unsupported_feature, "",
                       "the server does not support ranges, and these reads would receive the "
                       "object many times: download the file first"});
  }
  try {
    transfer_ = std::make_shared<http_transfer>(thread_, address_, *this);
  } catch (const std::bad_alloc&) {
    return fail_reads({errc::memory_exceeded, ""});
  }
  if (!ranged_) window_.begin_anew(false);
  begin();
}

void object_body::report_opened(const result<void>& outcome) {
  if (transfer_) transfer_->stop_listening();
  const auto opened = std::exchange(opened_, nullptr);
  opened(outcome);
}

void object_body::read(const source_read& request, byte_source::read_handler done) {
  auto waiting = std::make_shared<waiting_read>(request, std::move(done));
  asio::post(thread_->loop, [self = shared_from_this(), waiting = std::move(waiting)] {
    try {
      self->add(waiting);
    } catch (const std::bad_alloc&) {
      self->end_read(waiting, std::current_exception());
    }
  });
}

void object_body::add(const shared_read& waiting) {
  if (waiting->request.stop.stop_requested()) {
    return end_read(waiting, cancelled_read());
  }
  window_.add(waiting->part);
  if (waiting->part.complete()) return end_read(waiting, nullptr);
  reads_.push_back(waiting);
  waiting->on_stop.emplace(waiting->request.stop,
                           [weak = weak_from_this(), thread = thread_,
                            weak_read = std::weak_ptr<waiting_read>(waiting)] {
                             const auto end = [weak, weak_read] {
                               const auto self = weak.lock();
                               const auto stopped = weak_read.lock();
                               if (self && stopped) self->end_read(stopped, cancelled_read());
                             };
                             retry_allocation([&] { asio::post(thread->loop, end); });
                           });
  if (transfer_) {
    demand_.cancel();
  } else {
    begin_again();
  }
}

// Ends a read. The destination of the read is not written afterwards.
void object_body::end_read(const shared_read& waiting, const std::exception_ptr& failed) {
  const shared_read owned = waiting;
  if (std::exchange(owned->ended, true)) return;
  window_.remove(owned->part);
  reads_.remove(owned);
  owned->on_stop.reset();
  if (!failed && owned->request.counts != nullptr) {
    std::int64_t unset = 0;
    const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    owned->request.counts->first_byte_at.compare_exchange_strong(unset, now.count());
  }
  std::move(owned->done)(failed);
}

void object_body::fail_reads(const fault& failure) {
  while (!reads_.empty()) end_read(shared_read(reads_.front()), exception_of(failure));
}

void object_body::close() {
  const auto end = [self = shared_from_this()] {
    self->closed_ = true;
    if (self->transfer_) self->transfer_->stop();
  };
  retry_allocation([&] { asio::post(thread_->loop, end); });
}

// While the object is being opened, returns the expected number of later requests, one for each
// chunk of the object. If the size is not known, returns the maximum number of connections. Returns
// 0 after the object was opened.
std::uint64_t object_body::followed_by() const noexcept {
  if (!opened_) return 0;
  const auto bytes = address_->object.bytes;
  return bytes ? *bytes / settings().chunk_bytes : settings().connections;
}

std::vector<header_field> object_body::fields() const {
  std::vector<header_field> out;
  if (opened_) {
    if (!opens_without_range_) out.push_back(range_field(0, first_bytes));
    const std::string& expected = address_->object.etag;
    if (is_strong_etag(expected)) out.push_back({"If-Match", expected});
    return out;
  }
  if (!reads_.empty() && reads_.front()->request.counts != nullptr) {
    ++reads_.front()->request.counts->requests;
    if (has_requested_) ++reads_.front()->request.counts->retries;
  }
  has_requested_ = true;
  if (ranged_) out.push_back(range_field(window_.position(), window_.end()));
  add_conditions(out, *properties_);
  return out;
}

result<void> object_body::check_expected() const {
  const auto expected = address_->object.bytes;
  if (!expected || *expected == properties_->bytes) return {};
  return fault{errc::changed_file, "",
               "the object has " + grouped(properties_->bytes) + " bytes, expected the listed " +
                   grouped(*expected)};
}

// Stores the size and the version of the object from the first response.
result<void> object_body::first_response(const response_head& head) {
  const remote_object& object = address_->object;
  properties_->etag = field_of(head, "etag");
  properties_->modified =
      properties_->etag.empty() ? field_of(head, "last-modified") : std::string();
  window_.begin_anew(false);
  ranged_ = kind_of(head) == response_kind::partial;
  if (ranged_) return first_part(head);
  if (auto identity = check_identity(head, {0, first_bytes, object.bytes, object.etag, {}});
      !identity) {
    return identity.error();
  }
  const auto bytes = head.content_length ? head.content_length : object.bytes;
  sized_ = bytes.has_value();
  properties_->bytes = bytes.value_or(0);
  window_.set_end(bytes.value_or(settings().whole_bytes_max));
  return sized_ ? check_expected() : result<void>();
}

result<void> object_body::first_part(const response_head& head) {
  const remote_object& object = address_->object;
  auto bytes = check_partial(head, {0, first_bytes, {}, object.etag, {}});
  if (!bytes) return bytes.error();
  const auto range = parse_content_range(*head.field("content-range"));
  if (!range->total)
    return fault{errc::unsupported_feature, "", "the server does not report the size"};
  sized_ = true;
  properties_->bytes = *range->total;
  window_.set_end(*bytes);
  window_.keep_all();
  return check_expected();
}

// Checks every later response, after an interruption or a restart.
result<void> object_body::next_response(const response_head& head) {
  const requested_range requested = {window_.position(), window_.end(), properties_->bytes,
                                     properties_->etag, properties_->modified};
  const bool partial = kind_of(head) == response_kind::partial;
  if (ranged_ && partial) {
    auto bytes = check_partial(head, requested);
    return bytes ? result<void>() : result<void>(bytes.error());
  }
  if (ranged_) return fault_of_whole(head, requested);
  if (partial) {
    return fault{errc::malformed_answer, "", "the server sent a range that was not requested"};
  }
  if (auto identity = check_identity(head, requested); !identity) return identity.error();
  if (head.content_length && *head.content_length != properties_->bytes) {
    return fault{errc::changed_file, "",
                 "the object's size has changed since the object was opened"};
  }
  window_.begin_anew(true);
  return {};
}

body_target object_body::choose_target(const response_head& head) {
  const response_kind kind = kind_of(head);
  refused_ = {};
  if (kind != response_kind::partial && kind != response_kind::whole) return {};
  const auto checked = opened_ ? first_response(head) : next_response(head);
  if (!checked) {
    refused_ = checked.error();
    return {};
  }
  since_renewal_bytes_ = 0;
  if (opened_ && sized_) report_opened({});
  body_target out;
  out.destination = body_target::kind::stream;
  out.sink = this;
  return out;
}

transfer_kind::state object_body::evaluate(const response_head& head, fault& failure) {
  const response_kind kind = kind_of(head);
  if (kind == response_kind::unsatisfied && opened_) return evaluate_unsatisfied(head, failure);
  if (ranged_ && !opened_ && refused_.code == errc::unsupported_feature) {
    failure = refused_;
    return state::unfinished;
  }
  if (refused_.code || (kind != response_kind::partial && kind != response_kind::whole)) {
    failure = refused_.code ? refused_ : fault_of(head);
    return state::failed;
  }
  if (!sized_) {
    properties_->bytes = window_.position();
    window_.set_end(properties_->bytes);
    return state::done;
  }
  const bool whole = window_.position() == window_.end();
  if (whole || given_up_) return state::done;
  if (ranged_) return state::unfinished;
  failure = {errc::malformed_answer, "",
             "the server's response has " + grouped(window_.position()) + " bytes, expected " +
                 grouped(properties_->bytes)};
  return state::failed;
}

// Evaluates the status 416 of the first request. A server may reject every range of an empty
// object. If the object is not known to be empty, the request is repeated once without a range.
transfer_kind::state object_body::evaluate_unsatisfied(const response_head& head, fault& failure) {
  const auto range = parse_content_range(field_of(head, "content-range"));
  const auto bytes = range && range->total ? range->total : address_->object.bytes;
  if (bytes && *bytes == 0) {
    properties_->etag = field_of(head, "etag");
    properties_->bytes = 0;
    auto checked = check_expected();
    if (!checked) failure = checked.error();
    return checked ? state::done : state::failed;
  }
  failure = {errc::malformed_answer, "",
             "the server answered 416 (Range Not Satisfiable) to a request for the first bytes"};
  return std::exchange(opens_without_range_, true) ? state::failed : state::unfinished;
}

transfer_kind::state object_body::evaluate_refused(const response_head& head, fault& failure) {
  failure = fault_of(head);
  return state::failed;
}

// Returns true if the next bytes are received although no read waits for these bytes. The result is
// true for the first bytes of an object, and for all bytes of a small object.
bool object_body::receives_without_reads() const noexcept {
  const bool keeps_body = ranged_ || window_.keeps_all();
  return keeps_body || window_.position() < std::min(first_bytes, settings().whole_bytes_max);
}

asio::awaitable<std::optional<std::span<std::byte>>> object_body::next_buffer(host_pool& pool) {
  boost::system::error_code ended;
  using space = std::optional<std::span<std::byte>>;
  given_up_ = false;
  if (window_.position() == window_.end()) co_return space();
  if (!closed_ && (receives_without_reads() || window_.has_parts_ahead()))
    co_return space(window_.next_buffer());
  if (!closed_ && !window_.has_parts() && !pool.has_work()) {
    transfer_->hold_deadline();
    demand_.expires_after(settings().idle_time_max);
    {
      const listed_timer parked = pool.park(demand_);
      co_await demand_.async_wait(asio::redirect_error(asio::use_awaitable, ended));
    }
    transfer_->renew_deadline();
    if (!closed_ && window_.has_parts_ahead()) co_return space(window_.next_buffer());
  }
  given_up_ = true;
  co_return space(std::span<std::byte>());
}

std::uint64_t object_body::take(std::size_t bytes) {
  std::vector<wanted_part*> complete;
  const std::uint64_t fresh = window_.take(bytes, complete);
  for (const wanted_part* const part : complete) {
    const auto found = std::ranges::find_if(
        reads_, [part](const shared_read& waiting) { return &waiting->part == part; });
    end_read(shared_read(*found), nullptr);
  }
  since_renewal_bytes_ += fresh;
  if (since_renewal_bytes_ >= settings().chunk_bytes) {
    since_renewal_bytes_ = 0;
    transfer_->renew_deadline();
  }
  return fresh;
}

fault object_body::too_long() const {
  if (sized_) {
    return {errc::malformed_answer, "", "the server's response has more bytes than the object"};
  }
  return {errc::unsupported_feature, "",
          "the server sends neither ranges nor the size of the object, which has more than the " +
              grouped(settings().whole_bytes_max) + " bytes of remote_options::whole_bytes_max"};
}

void object_body::wake() noexcept { demand_.cancel(); }

}  // namespace ringload::inline v0::remote_http
