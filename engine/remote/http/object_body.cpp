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

constexpr std::uint64_t wasted_share_max = 2;  // Of the object's size.

std::string field_of(const answer_head& head, std::string_view name) {
  const std::string* const found = head.field(name);
  return found == nullptr ? std::string() : *found;
}

std::exception_ptr cancelled_read() noexcept {
  return exception_of({asio::error::operation_aborted, ""});
}

}  // namespace

object_body::object_body(std::shared_ptr<lane> on, std::shared_ptr<object_address> at)
    : lane_(std::move(on)),
      address_(std::move(at)),
      window_(lane_->how->whole_bytes_max),
      demand_(lane_->loop) {}

void object_body::open(const std::stop_token& stop,
                       std::function<void(const result<void>&)> opened) {
  opened_ = std::move(opened);
  carried_ = std::make_shared<transfer>(lane_, address_, *this);
  carried_->listen(stop);
  asio::post(lane_->loop, [self = shared_from_this()] { self->begin(); });
}

// One transfer of the body, from where it is or from the beginning.
void object_body::begin() {
  asked_ = false;
  transfer_handler::function ends;
  try {
    ends = [self = shared_from_this()](const result<void>& outcome) { self->ended(outcome); };
  } catch (const std::bad_alloc&) {
    return ended(fault{errc::memory_exceeded, ""});
  }
  start(*lane_, carried_, std::move(ends));
}

void object_body::ended(const result<void>& outcome) {
  carried_.reset();
  if (opened_) return tell_opened(outcome);
  if (!outcome) return fail_reads(outcome.error());
  if (!reads_.empty()) begin_again();
}

// Somebody wants what has passed, or has never come.
void object_body::begin_again() {
  if (window_.wasted_bytes() > wasted_share_max * facts_->bytes) {
    return fail_reads({errc::unsupported_feature, "",
                       "its server gives no ranges, and what is wanted lies so that the object "
                       "would have to be received many times: fetch it as a file first"});
  }
  try {
    carried_ = std::make_shared<transfer>(lane_, address_, *this);
  } catch (const std::bad_alloc&) {
    return fail_reads({errc::memory_exceeded, ""});
  }
  if (!ranged_) window_.begin_anew(false);
  begin();
}

void object_body::tell_opened(const result<void>& outcome) {
  if (carried_) carried_->stop_listening();
  const auto opened = std::exchange(opened_, nullptr);
  opened(outcome);
}

void object_body::read(const source_read& what, byte_source::read_handler done) {
  auto one = std::make_shared<waiting_read>(what, std::move(done));
  asio::post(lane_->loop, [self = shared_from_this(), one = std::move(one)] {
    try {
      self->add(one);
    } catch (const std::bad_alloc&) {
      self->end_read(one, std::current_exception());
    }
  });
}

void object_body::add(const shared_read& one) {
  if (one->what.stop.stop_requested()) {
    return end_read(one, cancelled_read());
  }
  window_.add(one->part);
  if (one->part.complete()) return end_read(one, nullptr);
  reads_.push_back(one);
  one->on_stop.emplace(
      one->what.stop, [weak = weak_from_this(), on = lane_, of = std::weak_ptr<waiting_read>(one)] {
        const auto end = [weak, of] {
          const auto self = weak.lock();
          const auto stopped = of.lock();
          if (self && stopped) self->end_read(stopped, cancelled_read());
        };
        retry_allocation([&] { asio::post(on->loop, end); });
      });
  if (carried_) {
    demand_.cancel();
  } else {
    begin_again();
  }
}

// Nothing touches its memory any more.
void object_body::end_read(const shared_read& one, const std::exception_ptr& failed) {
  const shared_read kept = one;
  if (std::exchange(kept->ended, true)) return;
  window_.remove(kept->part);
  reads_.remove(kept);
  kept->on_stop.reset();
  if (!failed && kept->what.counts != nullptr) {
    std::int64_t none = 0;
    const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    kept->what.counts->first_byte_at.compare_exchange_strong(none, now.count());
  }
  std::move(kept->done)(failed);
}

void object_body::fail_reads(const fault& why) {
  while (!reads_.empty()) end_read(shared_read(reads_.front()), exception_of(why));
}

void object_body::close() {
  const auto end = [self = shared_from_this()] {
    self->closed_ = true;
    if (self->carried_) self->carried_->stop();
  };
  retry_allocation([&] { asio::post(lane_->loop, end); });
}

// One for each range but the first, which comes this way.
std::uint64_t object_body::followed_by() const noexcept {
  if (!opened_) return 0;
  const auto bytes = address_->what.bytes;
  return bytes ? *bytes / how().chunk_bytes : how().connections;
}

std::vector<header_field> object_body::fields() const {
  std::vector<header_field> out;
  if (opened_) {
    out.push_back(range_field(0, first_bytes));
    const std::string& expected = address_->what.etag;
    if (is_strong_etag(expected)) out.push_back({"If-Match", expected});
    return out;
  }
  if (!reads_.empty() && reads_.front()->what.counts != nullptr) {
    ++reads_.front()->what.counts->requests;
    if (asked_) ++reads_.front()->what.counts->retries;
  }
  asked_ = true;
  if (ranged_) out.push_back(range_field(window_.position(), window_.end()));
  add_conditions(out, *facts_);
  return out;
}

result<void> object_body::check_expected() const {
  const auto expected = address_->what.bytes;
  if (!expected || *expected == facts_->bytes) return {};
  return fault{
      errc::changed_file, "",
      "it was listed with " + grouped(*expected) + " bytes, and has " + grouped(facts_->bytes)};
}

// What is known of the object is what its first answer says.
result<void> object_body::first_answer(const answer_head& head) {
  const remote_object& what = address_->what;
  facts_->etag = field_of(head, "etag");
  facts_->modified = facts_->etag.empty() ? field_of(head, "last-modified") : std::string();
  window_.begin_anew(false);
  ranged_ = kind_of(head) == answer_kind::partial;
  if (ranged_) return first_part(head);
  if (auto same = check_identity(head, {0, first_bytes, what.bytes, what.etag, {}}); !same) {
    return same.error();
  }
  const auto bytes = head.content_length ? head.content_length : what.bytes;
  sized_ = bytes.has_value();
  facts_->bytes = bytes.value_or(0);
  window_.set_end(bytes.value_or(how().whole_bytes_max));
  return sized_ ? check_expected() : result<void>();
}

result<void> object_body::first_part(const answer_head& head) {
  const remote_object& what = address_->what;
  auto bytes = check_partial(head, {0, first_bytes, {}, what.etag, {}});
  if (!bytes) return bytes.error();
  const auto range = parse_content_range(*head.field("content-range"));
  if (!range->total) return fault{errc::unsupported_feature, "", "its server hides the size"};
  sized_ = true;
  facts_->bytes = *range->total;
  window_.set_end(*bytes);
  window_.keep_all();
  return check_expected();
}

// It broke off, or begins anew.
result<void> object_body::next_answer(const answer_head& head) {
  const asked_range asked = {window_.position(), window_.end(), facts_->bytes, facts_->etag,
                             facts_->modified};
  const bool partial = kind_of(head) == answer_kind::partial;
  if (ranged_ && partial) {
    auto bytes = check_partial(head, asked);
    return bytes ? result<void>() : result<void>(bytes.error());
  }
  if (ranged_) {
    return fault{errc::unsupported_feature, "", "its server stopped to give ranges of it"};
  }
  if (partial) {
    return fault{errc::malformed_answer, "", "the server gave a range that nobody asked for"};
  }
  if (auto same = check_identity(head, asked); !same) return same.error();
  if (head.content_length && *head.content_length != facts_->bytes) {
    return fault{errc::changed_file, "", "the object has another size than at first"};
  }
  window_.begin_anew(true);
  return {};
}

body_place object_body::place(const answer_head& head) {
  const answer_kind kind = kind_of(head);
  refused_ = {};
  if (kind != answer_kind::partial && kind != answer_kind::whole) return {};
  const auto good = opened_ ? first_answer(head) : next_answer(head);
  if (!good) {
    refused_ = good.error();
    return {};
  }
  since_renewal_bytes_ = 0;
  if (opened_ && sized_) tell_opened({});
  body_place out;
  out.how = body_place::kind::stream;
  out.sink = this;
  return out;
}

transfer_goal::state object_body::settle(const answer_head& head, fault& why) {
  const answer_kind kind = kind_of(head);
  if (kind == answer_kind::unsatisfied && opened_) {
    // Of no byte there is no range.
    const auto range = parse_content_range(field_of(head, "content-range"));
    if (range && range->total == 0) {
      facts_->etag = field_of(head, "etag");
      facts_->bytes = 0;
      auto good = check_expected();
      if (!good) why = good.error();
      return good ? state::done : state::failed;
    }
  }
  if (refused_.code || (kind != answer_kind::partial && kind != answer_kind::whole)) {
    why = refused_.code ? refused_ : fault_of(head);
    return state::failed;
  }
  if (!sized_) {
    facts_->bytes = window_.position();
    window_.set_end(facts_->bytes);
    return state::done;
  }
  const bool whole = window_.position() == window_.end();
  if (whole || given_up_) return state::done;
  if (ranged_) return state::unfinished;
  why = {errc::malformed_answer, "",
         "the server's answer has " + grouped(window_.position()) + " bytes, and the object " +
             grouped(facts_->bytes)};
  return state::failed;
}

transfer_goal::state object_body::settle_refused(const answer_head& head, fault& why) {
  why = fault_of(head);
  return state::failed;
}

// The first bytes, and small objects, come whoever wants them.
bool object_body::comes_unasked() const noexcept {
  const bool all = ranged_ || window_.keeps_all();
  return all || window_.position() < std::min(first_bytes, how().whole_bytes_max);
}

asio::awaitable<std::optional<std::span<std::byte>>> object_body::room(host_pool& on) {
  boost::system::error_code ended;
  using space = std::optional<std::span<std::byte>>;
  given_up_ = false;
  if (window_.position() == window_.end()) co_return space();
  if (!closed_ && (comes_unasked() || window_.any_ahead())) co_return space(window_.room());
  if (!closed_ && !window_.any() && !on.has_work()) {
    carried_->hold_deadline();
    demand_.expires_after(how().idle_time_max);
    {
      const listed_timer parked = on.park(demand_);
      co_await demand_.async_wait(asio::redirect_error(asio::use_awaitable, ended));
    }
    carried_->renew_deadline();
    if (!closed_ && window_.any_ahead()) co_return space(window_.room());
  }
  given_up_ = true;
  co_return space(std::span<std::byte>());
}

std::uint64_t object_body::take(std::size_t bytes) {
  std::vector<wanted_part*> complete;
  const std::uint64_t fresh = window_.take(bytes, complete);
  for (const wanted_part* const each : complete) {
    const auto at =
        std::ranges::find_if(reads_, [each](const shared_read& one) { return &one->part == each; });
    end_read(shared_read(*at), nullptr);
  }
  since_renewal_bytes_ += fresh;
  if (since_renewal_bytes_ >= how().chunk_bytes) {
    since_renewal_bytes_ = 0;
    carried_->renew_deadline();
  }
  return fresh;
}

fault object_body::too_long() const {
  if (sized_) {
    return {errc::malformed_answer, "", "the server's answer has more bytes than the object"};
  }
  return {errc::unsupported_feature, "",
          "its server gives neither ranges nor the size of the object, which has more than the " +
              grouped(how().whole_bytes_max) + " bytes that are fetched without"};
}

void object_body::wake() noexcept { demand_.cancel(); }

}  // namespace ringload::inline v0::remote_http
