// SPDX-License-Identifier: Apache-2.0
#include "metrics_server.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <chrono>
#include <ringload/error.hpp>
#include <string_view>
#include <thread>
#include <utility>

namespace ringload::tool {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// The limits of a request, which consists of a request line and a few header fields.
constexpr std::size_t request_bytes_max = 8192;
constexpr std::chrono::seconds request_time_max{10};
constexpr std::size_t connections_max = 16;

tcp::endpoint endpoint_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  error_code code;
  const asio::ip::address ip = asio::ip::make_address(host, code);
  const std::string_view port =
      std::string_view(address).substr(colon == std::string::npos ? address.size() : colon + 1);
  std::uint16_t number = 0;
  const auto [end, parsed] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (code || port.empty() || parsed != std::errc() || end != port.data() + port.size()) {
    throw error(errc::invalid_options, "--metrics",
                "expected an address of this machine and a port, such as 127.0.0.1:9464, not '" +
                    address + "'");
  }
  return {ip, number};
}

// Removes "http://HOST" from an absolute target.
std::string_view without_host(std::string_view target) {
  constexpr std::string_view scheme = "http://";
  if (!target.starts_with(scheme)) return target;
  return target.substr(std::min(target.find('/', scheme.size()), target.size()));
}

std::string answer_to(std::string_view request, const std::function<std::string()>& text,
                      const std::function<bool()>& is_ready) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const bool is_head = line.starts_with("HEAD ");
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  const std::string_view target =
      first < last ? without_host(line.substr(first + 1, last - first - 1)) : std::string_view();
  const std::string_view path = target.substr(0, target.find('?'));
  std::string_view status = "200 OK";
  std::string body;
  if (!line.starts_with("GET ") && !is_head) {
    status = "405 Method Not Allowed";
  } else if (path == "/ready") {
    if (!is_ready()) status = "503 Service Unavailable";
  } else if (path != "/metrics") {
    status = "404 Not Found";
    body = "The metrics are at /metrics.\n";
  } else {
    body = text();
  }
  std::string answer = "HTTP/1.1 ";
  answer.append(status).append("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
  answer.append("Connection: close\r\nContent-Length: ").append(std::to_string(body.size()));
  answer.append("\r\n\r\n");
  return is_head ? answer : answer + body;
}

}  // namespace

struct metrics_server::state {
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  std::function<std::string()> text;
  std::function<bool()> is_ready;
  std::size_t connections = 0;
  std::thread thread;

  asio::awaitable<void> serve() {
    error_code code;
    for (;;) {
      tcp::socket socket =
          co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, code));
      if (code == asio::error::operation_aborted) co_return;
      if (code) {
        // The process may have no free file descriptor, so the server waits before the next
        // attempt.
        asio::steady_timer pause(context, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, code));
        continue;
      }
      // The destructor of the socket closes the connection.
      if (connections >= connections_max) continue;
      ++connections;
      asio::co_spawn(context, answer(std::move(socket)), asio::detached);
    }
  }

  asio::awaitable<void> answer(tcp::socket accepted) {
    error_code code;
    std::string request;
    // Shared, because the handler of the timer may run after this coroutine has ended.
    const auto socket = std::make_shared<tcp::socket>(std::move(accepted));
    asio::steady_timer deadline(context, request_time_max);
    deadline.async_wait([socket](error_code cancelled) {
      error_code ignored;
      if (!cancelled) socket->close(ignored);
    });
    co_await asio::async_read_until(*socket, asio::dynamic_buffer(request, request_bytes_max),
                                    "\r\n\r\n", asio::redirect_error(asio::use_awaitable, code));
    if (!code) {
      const std::string reply = answer_to(request, text, is_ready);
      co_await asio::async_write(*socket, asio::buffer(reply),
                                 asio::redirect_error(asio::use_awaitable, code));
      error_code ignored;
      socket->shutdown(tcp::socket::shutdown_both, ignored);
    }
    deadline.cancel();
    --connections;
  }
};

metrics_server::metrics_server(const std::string& address, std::function<std::string()> text,
                               std::function<bool()> is_ready)
    : state_(std::make_unique<state>()) {
  const tcp::endpoint endpoint = endpoint_of(address);
  state_->text = std::move(text);
  state_->is_ready = std::move(is_ready);
  error_code code;
  state_->acceptor.open(endpoint.protocol(), code);
  if (!code) state_->acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code) state_->acceptor.bind(endpoint, code);
  if (!code) state_->acceptor.listen(tcp::acceptor::max_listen_connections, code);
  if (code) throw error(code, "--metrics " + address, {});
  asio::co_spawn(state_->context, state_->serve(), asio::detached);
  state_->thread = std::thread([context = &state_->context] { context->run(); });
}

metrics_server::~metrics_server() {
  state_->context.stop();
  state_->thread.join();
}

std::string metrics_server::url() const {
  const tcp::endpoint endpoint = state_->acceptor.local_endpoint();
  const std::string host = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port()) + "/metrics";
}

}  // namespace ringload::tool
