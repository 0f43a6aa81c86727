// SPDX-License-Identifier: Apache-2.0
#pragma once

// Receives the body of the response that opens an object, and copies the body to the waiting reads.
// The body has the first bytes of the object. If the server does not support ranges, the body has
// the whole object.
//
// If the head of the response states the object's size, the object is open when the head is
// received. The caller can then parse the file's header while the body is received. Otherwise the
// object is open at the end of the body. The first bytes are received even if no read has requested
// these bytes. If the server of a larger object does not support ranges, further bytes are received
// only while a read waits for them. If no read waits, the connection stays open for a while. If a
// read needs bytes that are no longer kept, the body is received again from the first byte.
// Received bytes that no read needed count as wasted. If the wasted bytes exceed twice the object's
// size, reads fail.

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

class object_body final : public transfer_kind,
                          public body_sink,
                          public std::enable_shared_from_this<object_body> {
 public:
  object_body(std::shared_ptr<net_thread> thread, std::shared_ptr<object_address> address);

  // Starts the first request. Calls `opened` once, in the network thread. From then on,
  // properties() and end() are constant. Must be called once. May be called in any thread.
  void open(const std::stop_token& stop, std::function<void(const result<void>&)> opened);

  const object_properties& properties() const noexcept { return *properties_; }
  std::shared_ptr<const object_properties> shared_properties() const noexcept {
    return properties_;
  }
  // End of the bytes that this body receives. The bytes begin at the object's first byte.
  std::uint64_t end() const noexcept { return window_.end(); }

  // Reads a part of the bytes before end(). May be called in any thread.
  void read(const source_read& request, byte_source::read_handler done);
  // The caller must not read afterwards. May be called in any thread.
  void close();

  // ---- For the transfer ----

  std::uint64_t followed_by() const noexcept override;
  std::vector<header_field> fields() const override;
  body_target choose_target(const response_head& head) override;
  void arrived(std::uint64_t) override {}
  state evaluate(const response_head& head, fault& failure) override;
  state evaluate_refused(const response_head& head, fault& failure) override;

  boost::asio::awaitable<std::optional<std::span<std::byte>>> next_buffer(host_pool& pool) override;
  std::uint64_t take(std::size_t bytes) override;
  fault too_long() const override;
  void wake() noexcept override;

  static constexpr std::uint64_t first_bytes = 128 << 10;  // The headers of most shards fit.

 private:
  struct waiting_read {
    waiting_read(const source_read& read_request, byte_source::read_handler handler)
        : request(read_request),
          done(std::move(handler)),
          part{read_request.offset, read_request.into, 0} {}

    const source_read request;
    byte_source::read_handler done;
    wanted_part part;
    bool ended = false;
    using callback = std::stop_callback<std::function<void()>>;
    std::optional<callback> on_stop;
  };
  using shared_read = std::shared_ptr<waiting_read>;

  const client_settings& settings() const noexcept { return *thread_->settings; }
  void begin();
  void begin_again();
  void ended(const result<void>& outcome);
  void report_opened(const result<void>& outcome);
  void add(const shared_read& waiting);
  void end_read(const shared_read& waiting, const std::exception_ptr& failed);
  void fail_reads(const fault& failure);

  result<void> first_response(const response_head& head);
  result<void> first_part(const response_head& head);
  result<void> next_response(const response_head& head);
  state evaluate_unsatisfied(const response_head& head, fault& failure);
  result<void> check_expected() const;
  bool receives_without_reads() const noexcept;

  const std::shared_ptr<net_thread> thread_;
  const std::shared_ptr<object_address> address_;
  const std::shared_ptr<object_properties> properties_ = std::make_shared<object_properties>();
  // Set by the first response.
  bool ranged_ = false;
  bool sized_ = false;  // True if the size was known before the end of the body.

  // Only the network thread uses the members below, with two exceptions: open() sets `opened_` and
  // `transfer_`, and end() reads the end of `window_`.
  std::function<void(const result<void>&)> opened_;  // Empty if already called.
  std::shared_ptr<http_transfer> transfer_;          // Null if no transfer is in progress.
  body_window window_;
  std::list<shared_read> reads_;
  boost::asio::steady_timer demand_;
  fault refused_;
  bool opens_without_range_ = false;
  std::uint64_t since_renewal_bytes_ = 0;
  mutable bool has_requested_ = false;  // The current transfer has sent a request.
  // True if the transfer ends before the end of the body, because no read waits for later bytes.
  bool given_up_ = false;
  bool closed_ = false;
};

}  // namespace ringload::inline v0::remote_http
