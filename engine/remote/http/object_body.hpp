// SPDX-License-Identifier: Apache-2.0
#pragma once

// The body of the request that opens an object: its first bytes or, if the server does not support
// ranges, the whole object. The body is received in order and copied to the waiting reads.
//
// The object is open when the head of that answer is received, so the caller parses its header
// while the body is received. The first bytes are received without a read. Other bytes of a large
// object without ranges are received only while reads wait for the bytes. An idle body keeps its
// connection for a while. A read of bytes that have passed restarts the body, until the wasted
// bytes exceed twice the object's size.

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
  object_body(std::shared_ptr<lane> on, std::shared_ptr<object_address> address);

  // Starts the first request. `opened` is called once, in the lane's thread; from then on facts()
  // and end() are known and constant. Call once, from any thread.
  void open(const std::stop_token& stop, std::function<void(const result<void>&)> opened);

  const object_facts& facts() const noexcept { return *facts_; }
  std::shared_ptr<const object_facts> shared_facts() const noexcept { return facts_; }
  // End of the bytes that this body receives, which begin at the object's first byte.
  std::uint64_t end() const noexcept { return window_.end(); }

  // Reads a part before end(). Any thread.
  void read(const source_read& request, byte_source::read_handler done);
  // No read may follow. Any thread.
  void close();

  // ---- For the transfer ----

  std::uint64_t followed_by() const noexcept override;
  std::vector<header_field> fields() const override;
  body_place place(const answer_head& head) override;
  void arrived(std::uint64_t) override {}
  state settle(const answer_head& head, fault& failure) override;
  state settle_refused(const answer_head& head, fault& failure) override;

  boost::asio::awaitable<std::optional<std::span<std::byte>>> room(host_pool& on) override;
  std::uint64_t take(std::size_t bytes) override;
  fault too_long() const override;
  void wake() noexcept override;

  static constexpr std::uint64_t first_bytes = 128 << 10;  // The headers of most shards fit.

 private:
  struct waiting_read {
    waiting_read(const source_read& wanted, byte_source::read_handler handler)
        : request(wanted), done(std::move(handler)), part{wanted.offset, wanted.into, 0} {}

    const source_read request;
    byte_source::read_handler done;
    wanted_part part;
    bool ended = false;
    using callback = std::stop_callback<std::function<void()>>;
    std::optional<callback> on_stop;
  };
  using shared_read = std::shared_ptr<waiting_read>;

  const client_settings& settings() const noexcept { return *lane_->settings; }
  void begin();
  void begin_again();
  void ended(const result<void>& outcome);
  void tell_opened(const result<void>& outcome);
  void add(const shared_read& waiting);
  void end_read(const shared_read& waiting, const std::exception_ptr& failed);
  void fail_reads(const fault& failure);

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
  bool sized_ = false;  // The size is known before the end of the body.

  // Only the lane's thread uses the members below.
  std::function<void(const result<void>&)> opened_;  // Empty: already called.
  std::shared_ptr<transfer> carried_;                // Null: no transfer is in progress.
  body_window window_;
  std::list<shared_read> reads_;
  boost::asio::steady_timer demand_;
  fault refused_;
  std::uint64_t since_renewal_bytes_ = 0;
  mutable bool asked_ = false;  // This transfer has sent a request.
  bool given_up_ = false;       // No read needs the rest of the body now.
  bool closed_ = false;
};

}  // namespace ringload::inline v0::remote_http
