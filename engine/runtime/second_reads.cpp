// SPDX-License-Identifier: Apache-2.0

#include "runtime/second_reads.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <new>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "io/late_read.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

io_request repeatable(const io_request& request) noexcept {
  io_request same_bytes;
  same_bytes.fd = request.fd;
  same_bytes.direct = request.direct;
  same_bytes.bytes = request.bytes;
  same_bytes.file_offset = request.file_offset;
  same_bytes.awaited = request.awaited;
  same_bytes.is_distant = request.is_distant;
  return same_bytes;
}

// The attempts to carry out one read. Exists until all attempts and the timer have ended.
class read_race : public std::enable_shared_from_this<read_race> {
 public:
  using clock = read_pace::clock;

  template <class Handler>
  read_race(second_reads& reads, Handler&& handler, const raced_read& read)
      : reads_(reads),
        engine_(reads.engine_),
        read_(read),
        admission_(read.admitted->admission()),
        started_(read.admitted->started()),
        timer_(engine_.loop),
        resume_(std::forward<Handler>(handler)) {}

  void start() { start_attempt(read_.slot); }

 private:
  // A second read can stall too. This is likely enough to matter at the end of a load, when the
  // load may wait for several stalled reads. The third read is the last, so that a mount that has
  // become slow receives at most three times as many requests.
  static constexpr std::size_t attempts_max = 3;

  struct attempt : io_queue::operation {
    std::shared_ptr<read_race> race;  // Set while the read is in flight.
    std::uint32_t slot = 0;
    read_pace::started_read started;
    bool in_flight() const noexcept { return race != nullptr; }
  };

  void start_attempt(std::uint32_t slot) {
    attempt& begun = attempts_[started_count_++];
    begun.slot = slot;
    begun.started = started_;
    begun.request = read_.request;
    begun.request.memory = engine_.staging.memory(slot).data();
    begun.request.registered_buffer = engine_.staging.registered_buffer(slot);
    begun.race = shared_from_this();
    begun.done = [](io_completion& self, int res) {
      auto& ended = static_cast<attempt&>(self);
      const std::shared_ptr<read_race> race = std::move(ended.race);
      race->end(ended, res);
    };
    read_.queue->start(begun);
    if (started_count_ < attempts_.size()) check_later();
  }

  // If there is no memory for the timer, the read is not issued again.
  void check_later() noexcept {
    const auto now = clock::now();
    const auto check_at = admission_.check_at(started_, now);
    // Checks again soon if the read is late but no slot is spare, or if the mount was not measured
    // yet.
    const auto soonest = now + steady_lateness.margin;
    try {
      timer_.expires_at(check_at && *check_at > now ? *check_at : soonest);
      timer_.async_wait([self = shared_from_this()](boost::system::error_code failed) {
        if (!failed) self->check();
      });
    } catch (const std::exception&) {
    }
  }

  void check() {
    if (is_decided_ || read_.stop->stop_requested()) return;
    const auto late_at = admission_.late_at(started_);
    const bool is_late = late_at && *late_at <= clock::now();
    if (!is_late || reads_.spare_.empty()) return check_later();
    const std::uint32_t slot = reads_.spare_.back();
    reads_.spare_.pop_back();
    if (engine_.staging.is_ready(slot)) return start_again(slot, true);
    try {
      boost::asio::post(engine_.copy_threads->get_executor(), [self = shared_from_this(), slot] {
        engine& e = self->engine_;
        const bool is_ready =
            catch_as_fault([&] { return e.staging.make_ready(slot, e.devices); }).has_value();
        retry_allocation([&] {
          boost::asio::post(e.loop, [self, slot, is_ready] { self->start_again(slot, is_ready); });
        });
      });
    } catch (const std::bad_alloc&) {
      start_again(slot, false);
    }
  }

  void start_again(std::uint32_t slot, bool is_ready) {
    // Without memory for the slot, the read is not issued again. After the decision, `stop` may no
    // longer exist.
    if (!is_ready || is_decided_ || read_.stop->stop_requested()) return give_back(slot);
    engine_.staging.register_with_ring(slot);
    ++read_.counts->issued;
    started_ = admission_.start_read(read_.request.bytes);
    started_.is_repeated = true;
    start_attempt(slot);
  }

  bool is_first(const attempt& tested) const noexcept { return &tested == &attempts_.front(); }
  bool is_in_flight() const noexcept { return std::ranges::any_of(attempts_, &attempt::in_flight); }

  void end(attempt& ended, int res) {
    if (is_decided_) {
      if (!is_in_flight()) release_file();
      return give_back(ended.slot);
    }
    if (res >= 0) return decide(ended, res);
    if (is_first(ended)) {
      first_error_ = res;
    } else {
      give_back(ended.slot);
    }
    if (!is_in_flight()) decide(attempts_.front(), first_error_);
  }

  void decide(attempt& winner, int res) {
    is_decided_ = true;
    timer_.cancel();
    attempt& first = attempts_.front();
    if (!is_first(winner)) {
      ++read_.counts->won;
      if (!first.in_flight()) give_back(first.slot);
    } else {
      winner.started.was_repeated = started_count_ > 1 && res >= 0;
    }
    // The load still owns the file, so the file is not closed here.
    if (!is_in_flight()) read_.file_owner.reset();
    read_.admitted->set_measured(winner.started);
    const raced_result result = {res, winner.slot, started_count_ > 1};
    auto resume = std::move(resume_);
    std::move(resume)(result);
  }

  void give_back(std::uint32_t slot) noexcept {
    reads_.spare_.push_back(slot);
    if (reads_.is_idle()) engine_.end_second_reads();
  }

  // Releases the file in the closing thread, because closing a file may block. No other owner may
  // remain in this thread, so the owner is moved into memory that both threads share.
  void release_file() noexcept {
    using owner = std::shared_ptr<const void>;
    const auto released = retry_allocation([] { return std::make_shared<owner>(); });
    *released = std::move(read_.file_owner);
    retry_allocation([&] {
      boost::asio::post(engine_.closing_thread->get_executor(), [released] { released->reset(); });
    });
  }

  second_reads& reads_;
  engine& engine_;
  raced_read read_;
  admission_control& admission_;
  read_pace::started_read started_;  // Describes the last attempt.
  boost::asio::steady_timer timer_;
  boost::asio::any_completion_handler<void(raced_result)> resume_;
  std::array<attempt, attempts_max> attempts_;
  std::uint32_t started_count_ = 0;
  int first_error_ = 0;
  bool is_decided_ = false;
};

namespace {

struct start_race {
  template <class Handler>
  void operator()(Handler&& handler, second_reads* reads, const raced_read* read) const {
    const auto race = retry_allocation(
        [&] { return std::make_shared<read_race>(*reads, std::forward<Handler>(handler), *read); });
    race->start();
  }
};

}  // namespace

void second_reads::open(std::uint32_t first_slot, std::uint32_t count) {
  spare_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) spare_.push_back(first_slot + i);
  count_ = count;
}

boost::asio::awaitable<raced_result> second_reads::read(const raced_read& read) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(raced_result)>(
      start_race(), boost::asio::use_awaitable, this, &read);
}

}  // namespace ringload::inline v0::detail
