// SPDX-License-Identifier: Apache-2.0
#pragma once

// A web server on loopback that follows a script, mostly with invalid behaviour.

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/certain_memory.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

namespace asio = boost::asio;

struct web_request {
  std::string method;
  std::string target;
  std::map<std::string, std::string> fields;  // Names in lower case.
  std::string body = {};

  std::string field(const std::string& name) const {
    const auto at = fields.find(name);
    return at == fields.end() ? "" : at->second;
  }
};

struct web_reply {
  enum class end {
    kept,  // The connection waits for the next request.
    closed,
    reset,
    stalled,  // No more bytes are sent until the client closes the connection.
    dripped,  // One byte from time to time, until the client closes the connection.
    // `repeated` again and again, until the client closes the connection. At most 256 MiB.
    endless,
  };
  std::string bytes;
  end after = end::kept;
  std::string repeated = {};
  // This number of bytes at the end is sent slowly until the next request arrives.
  std::size_t held = 0;
};

inline std::string web_head(unsigned status, const std::vector<std::string>& fields) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " Some Reason\r\n";
  for (const std::string& each : fields) out += each + "\r\n";
  return out + "\r\n";
}

inline web_reply web_response(unsigned status, std::vector<std::string> fields = {},
                              const std::string& body = {}) {
  fields.push_back("Content-Length: " + std::to_string(body.size()));
  return {web_head(status, fields) + body};
}

// The response of a correct server to a request for a range of the object.
inline web_reply web_range(const web_request& asked, const std::string& object,
                           const std::string& etag = "\"one\"") {
  const std::string text = asked.field("range");
  const auto dash = text.find('-');
  if (!text.starts_with("bytes=") || dash == text.npos) {
    return web_response(200, {"ETag: " + etag}, object);
  }
  const std::uint64_t begin = std::stoull(text.substr(6));
  const std::uint64_t last =
      std::min<std::uint64_t>(std::stoull(text.substr(dash + 1)), object.size() - 1);
  if (begin >= object.size()) {
    return web_response(416, {"Content-Range: bytes */" + std::to_string(object.size())});
  }
  const std::string match = asked.field("if-match");
  if (!match.empty() && match != etag) return web_response(412);
  return web_response(
      206,
      {"ETag: " + etag, "Content-Range: bytes " + std::to_string(begin) + "-" +
                            std::to_string(last) + "/" + std::to_string(object.size())},
      object.substr(begin, last - begin + 1));
}

class scripted_server {
 public:
  // Called in the server's thread for each request, with its number from 0. The server's mutex is
  // held, so data that a rule has written can be read after log(). A rule is not called after
  // follow() has replaced it.
  using rule = std::function<web_reply(const web_request&, std::uint64_t)>;

  explicit scripted_server(rule how) : rule_(std::move(how)) {
    asio::co_spawn(loop_, accept(), asio::detached);
    thread_ = std::thread([this] {
      const certain_memory for_the_server;
      loop_.run();
    });
  }
  scripted_server(const scripted_server&) = delete;
  scripted_server& operator=(const scripted_server&) = delete;
  ~scripted_server() {
    loop_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  std::string address(const std::string& target) const {
    return "http://127.0.0.1:" + std::to_string(port_) + target;
  }

  void follow(rule how) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(how);
    log_.clear();
  }
  void forget_log() {
    const std::lock_guard lock(mutex_);
    log_.clear();
  }
  std::vector<web_request> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  // The number of held replies during which the next request arrived.
  std::uint64_t ahead() const {
    const std::lock_guard lock(mutex_);
    return ahead_;
  }
  // The number of bytes that endless replies have sent.
  std::uint64_t repeated_bytes() const {
    const std::lock_guard lock(mutex_);
    return repeated_bytes_;
  }
  std::uint64_t accepted() const {
    const std::lock_guard lock(mutex_);
    return accepted_;
  }
  // Waits until the replies of this number of requests have ended.
  bool wait_until_responseed(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return responseed_ >= count; });
  }
  // Waits until no client is connected.
  bool wait_until_alone() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return open_ == 0; });
  }
  void forget_responseed() {
    const std::lock_guard lock(mutex_);
    responseed_ = 0;
  }

 private:
  using tcp = asio::ip::tcp;

  static constexpr std::size_t logged_body_bytes_max = 1 << 20;

  struct counted {
    explicit counted(scripted_server& s) : of(s) { of.count(of.open_, 1); }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { of.count(of.open_, -1); }
    scripted_server& of;
  };

  template <class Number>
  void count(Number& which, int more) {
    const std::lock_guard lock(mutex_);
    which += static_cast<Number>(more);
    changed_.notify_all();
  }

  asio::awaitable<void> accept() {
    boost::system::error_code code;
    while (!code) {
      tcp::socket one(loop_);
      co_await acceptor_.async_accept(one, asio::redirect_error(asio::use_awaitable, code));
      if (code) break;
      count(accepted_, 1);
      asio::co_spawn(loop_, serve(std::move(one)), asio::detached);
    }
  }

  static web_request parse(const std::string& head) {
    web_request out;
    std::size_t at = head.find("\r\n");
    const std::string line = head.substr(0, at);
    out.method = line.substr(0, line.find(' '));
    out.target = line.substr(out.method.size() + 1);
    out.target.resize(out.target.rfind(' '));
    for (at += 2; head.compare(at, 2, "\r\n") != 0;) {
      const std::size_t end = head.find("\r\n", at);
      const std::size_t colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      out.fields[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return out;
  }

  web_reply reply_to(const web_request& what) {
    const std::lock_guard lock(mutex_);
    log_.push_back(what);
    if (what.body.size() > logged_body_bytes_max) log_.back().body.clear();
    return rule_(what, log_.size() - 1);
  }

  asio::awaitable<void> serve(tcp::socket accepted) {
    const counted here(*this);
    tcp::socket client(std::move(accepted));  // Closed before it is counted.
    std::string received;
    boost::system::error_code code;
    bool kept = true;
    client.set_option(tcp::no_delay(true), code);
    while (kept && !code) {
      const std::size_t bytes =
          co_await asio::async_read_until(client, asio::dynamic_buffer(received), "\r\n\r\n",
                                          asio::redirect_error(asio::use_awaitable, code));
      if (code) break;
      web_request request = parse(received.substr(0, bytes));
      received.erase(0, bytes);
      const std::string length = request.field("content-length");
      const std::size_t body_bytes = length.empty() ? 0 : std::stoull(length);
      if (received.size() < body_bytes) {
        co_await asio::async_read(client, asio::dynamic_buffer(received),
                                  asio::transfer_exactly(body_bytes - received.size()),
                                  asio::redirect_error(asio::use_awaitable, code));
      }
      if (code) break;
      request.body = received.substr(0, body_bytes);
      received.erase(0, body_bytes);
      const web_reply reply = reply_to(request);
      const std::size_t at_once = reply.bytes.size() - std::min(reply.held, reply.bytes.size());
      co_await asio::async_write(client, asio::buffer(reply.bytes.data(), at_once),
                                 asio::redirect_error(asio::use_awaitable, code));
      if (reply.held > 0 && !code) {
        co_await hold(client, std::string_view(reply.bytes).substr(at_once), received.empty());
      }
      count(responseed_, 1);
      kept = reply.after == web_reply::end::kept;
      if (reply.after == web_reply::end::reset) {
        client.set_option(asio::socket_base::linger(true, 0), code);
      }
      if (reply.after == web_reply::end::stalled) {
        co_await asio::async_read_until(client, asio::dynamic_buffer(received), "never",
                                        asio::redirect_error(asio::use_awaitable, code));
      }
      if (reply.after == web_reply::end::dripped) co_await drip(client);
      if (reply.after == web_reply::end::endless) co_await repeat(client, reply.repeated);
    }
  }

  // Byte by byte until another request arrives, then all remaining bytes.
  asio::awaitable<void> hold(tcp::socket& client, std::string_view rest, bool alone) {
    asio::steady_timer timer(loop_);
    boost::system::error_code code;
    while (alone && !rest.empty() && !code) {
      co_await asio::async_write(client, asio::buffer(rest.data(), 1),
                                 asio::redirect_error(asio::use_awaitable, code));
      rest.remove_prefix(1);
      timer.expires_after(std::chrono::milliseconds(1));
      co_await timer.async_wait(asio::use_awaitable);
      alone = client.available(code) == 0;
    }
    if (!alone) count(ahead_, 1);
    co_await asio::async_write(client, asio::buffer(rest.data(), rest.size()),
                               asio::redirect_error(asio::use_awaitable, code));
  }

  asio::awaitable<void> repeat(tcp::socket& client, const std::string& text) {
    boost::system::error_code code;
    std::string block;
    while (block.size() < (16 << 10)) block += text;
    client.set_option(asio::socket_base::send_buffer_size(64 << 10), code);
    for (std::uint64_t sent = 0; !code && sent < (256 << 20); sent += block.size()) {
      co_await asio::async_write(client, asio::buffer(block),
                                 asio::redirect_error(asio::use_awaitable, code));
      count(repeated_bytes_, static_cast<int>(block.size()));
    }
  }

  asio::awaitable<void> drip(tcp::socket& client) {
    asio::steady_timer timer(loop_);
    boost::system::error_code code;
    while (!code) {
      timer.expires_after(std::chrono::milliseconds(1));
      co_await timer.async_wait(asio::use_awaitable);
      co_await asio::async_write(client, asio::buffer("x", 1),
                                 asio::redirect_error(asio::use_awaitable, code));
    }
  }

  asio::io_context loop_{1};
  tcp::acceptor acceptor_{loop_, {asio::ip::address_v4::loopback(), 0}};
  const std::uint16_t port_ = acceptor_.local_endpoint().port();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  rule rule_;
  std::vector<web_request> log_;
  std::uint64_t accepted_ = 0;
  std::uint64_t ahead_ = 0;
  std::uint64_t repeated_bytes_ = 0;
  std::size_t responseed_ = 0;
  std::size_t open_ = 0;

  std::thread thread_;
};

}  // namespace ringload::testing
