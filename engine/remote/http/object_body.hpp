// SPDX-License-Identifier: Apache-2.0
#pragma once

// The body of the request that opens an object: its first bytes, or, of a server that knows no
// ranges, all of it. It comes in order, and reads are given their part as it passes.
//
// The object is open with the head of that answer, so its header is parsed while the body is still
// on its way. The first bytes are received whoever wants them; of a large object without ranges
// only so much as somebody waits for. One that nobody reads on keeps its connection for a while. A
// read of what has passed makes the body begin anew, until twice the object's size has been
// received for nothing.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <ringload/byte_source.hpp>
#include <stop_token>
#include <vector>

#include "remote/http/body_window.hpp"
#include "remote/http/http_transfer.hpp"
#include "remote/http/transfer_kinds.hpp"

namespace ringload::inline v0::remote_http {

class object_body final : public transfer_goal,
                          public body_sink,
                          public std::enable_shared_from_this<object_body> {
 public:
  object_body(std::shared_ptr<lane> on, std::shared_ptr<object_address> at);

  // Asks for it. `opened` is called once, in the lane's thread: then facts() and end() are known,
  // and never change. Once; any thread.
  void open(const std::stop_token& stop, std::function<void(const result<void>&)> opened);

  const object_facts& facts() const noexcept { return *facts_; }
  std::shared_ptr<const object_facts> shared_facts() const noexcept { return facts_; }
  // Of what comes this way, from the object's first byte on.
  std::uint64_t end() const noexcept { return window_.end(); }

  // A part before the end. Any thread.
  void read(const source_read& what, byte_source::read_handler done);
  // Nobody reads any more. Any thread.
  void close();

  // ---- For its transfer ----

  std::uint64_t followed_by() const noexcept override;
  std::vector<header_field> fields() const override;
  body_place place(const answer_head& head) override;
  void arrived(std::uint64_t) override {}
  state settle(const answer_head& head, fault& why) override;
  state settle_refused(const answer_head& head, fault& why) override;

  boost::asio::awaitable<std::optional<std::span<std::byte>>> room(host_pool& on) override;
  std::uint64_t take(std::size_t bytes) override;
  fault too_long() const override;
  void wake() noexcept override;

  static constexpr std::uint64_t first_bytes = 128 << 10;  // The headers of most shards fit.

 private:
  struct waiting_read {
    waiting_read(const source_read& wanted, byte_source::read_handler handler)
        : what(wanted), done(std::move(handler)), part{wanted.offset, wanted.into, 0} {}

    const source_read what;
    byte_source::read_handler done;
    wanted_part part;
    bool ended = false;
    using callback = std::stop_callback<std::function<void()>>;
    std::optional<callback> on_stop;
  };
  using shared_read = std::shared_ptr<waiting_read>;

  const client_settings& how() const noexcept { return *lane_->how; }
  void begin();
  void begin_again();
  void ended(const result<void>& outcome);
  void tell_opened(const result<void>& outcome);
  void add(const shared_read& one);
  void end_read(const shared_read& one, const std::exception_ptr& failed);
  void fail_reads(const fault& why);

  result<void> first_answer(const answer_head& head);
  result<void> first_part(const answer_head& head);
  result<void> next_answer(const answer_head& head);
  result<void> check_expected() const;
  bool comes_unasked() const noexcept;

  const std::shared_ptr<lane> lane_;
  const std::shared_ptr<object_address> address_;
  const std::shared_ptr<object_facts> facts_ = std::make_shared<object_facts>();
  // Set by the first answer.
  bool ranged_ = false;
  bool sized_ = false;  // The size is known before the end.

  // In the lane's thread.
  std::function<void(const result<void>&)> opened_;  // Empty: it was called.
  std::shared_ptr<transfer> carried_;                // Null: nothing is under way.
  body_window window_;
  std::list<shared_read> reads_;
  boost::asio::steady_timer demand_;
  fault refused_;
  std::uint64_t since_renewal_bytes_ = 0;
  mutable bool asked_ = false;  // This transfer has sent a request.
  bool given_up_ = false;       // The rest of the body is not wanted now.
  bool closed_ = false;
};

}  // namespace ringload::inline v0::remote_http
