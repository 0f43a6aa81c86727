// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <csignal>
#include <cstdio>
#include <memory>
#include <ringload/error.hpp>
#include <unordered_set>

#include "answer.hpp"
#include "connection.hpp"
#include "models.hpp"

namespace ringload::server {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto pause_after_failed_accept = std::chrono::milliseconds(100);

// Accepts connections and answers requests, with one thread and one io_context. After a signal,
// shuts down gracefully.
class server {
 public:
  explicit server(const settings& options)
      : how_(options),
        allowed_(options.roots, options.hub_cache, options.allowed_hosts),
        targets_(options.save_roots),
        signals_(context_, SIGINT, SIGTERM),
        grace_(context_),
        retry_(context_),
        acceptor_(context_, tcp::endpoint(asio::ip::make_address(options.address), options.port)),
        models_(context_.get_executor(), options),
        services_{how_, allowed_, targets_, models_, counters_} {}

  void run() {
    for (const auto& [id, name] : how_.preload) {
      auto source = allowed_.resolve(name);
      if (!source) throw error(errc::source_not_found, name, "not beneath a root");
      // The command line was checked, so the models fit the limits.
      [[maybe_unused]] const start_result begun = models_.start(id, load_order(std::move(*source)));
      assert(begun == start_result::started);
    }
    const tcp::endpoint endpoint = acceptor_.local_endpoint();
    const std::string address = endpoint.address().to_string();
    const std::string host = endpoint.address().is_v6() ? "[" + address + "]" : address;
    fmt::print("listening on http://{}:{}/\n", host, endpoint.port());
    std::fflush(stdout);
    wait_for_signal();
    asio::co_spawn(context_, accept_all(), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context_.run();
  }

 private:
  asio::awaitable<void> accept_all() {
    boost::system::error_code failed;
    while (!closing_) {
      tcp::socket socket(context_);
      co_await acceptor_.async_accept(socket, asio::redirect_error(asio::use_awaitable, failed));
      if (closing_) break;
      if (failed) {
        // The usual error is EMFILE. An immediate retry would loop.
        retry_.expires_after(pause_after_failed_accept);
        co_await retry_.async_wait(asio::redirect_error(asio::use_awaitable, failed));
      } else if (clients_.size() < how_.connections_max) {
        begin_to_serve(std::move(socket));
      } else {
        refuse(socket);
      }
    }
  }

  void begin_to_serve(tcp::socket socket) {
    auto client = std::make_shared<connection>(std::move(socket));
    clients_.insert(client);
    counters_.connections = clients_.size();
    asio::co_spawn(context_, serve(services_, client), [this, client](std::exception_ptr failure) {
      clients_.erase(client);
      counters_.connections = clients_.size();
      end_if_idle();
      if (failure) std::rethrow_exception(failure);
    });
  }

  // The response fits into the buffer of the socket, so the write does not block.
  void refuse(tcp::socket& socket) {
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    static constexpr std::string_view text =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    socket.send(asio::buffer(text), 0, ignored);
    ++counters_.answers[503];
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  void wait_for_signal() {
    signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
      if (cancelled) return;
      if (closing_) ::_exit(128 + signal);
      // During the shutdown, waits for a second signal.
      wait_for_signal();
      close();
    });
  }

  void close() {
    closing_ = true;
    acceptor_.close();
    retry_.cancel();
    models_.close([this] { end_if_idle(); });
    for (const auto& client : clients_) {
      client->last_answer = true;
      if (client->between_requests) client->stream.cancel();
    }
    grace_.expires_after(grace);
    grace_.async_wait([this](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      for (const auto& client : clients_) client->stream.close();
    });
    end_if_idle();
  }

  // Ends the remaining operations if the server is closing and idle, so that run() returns.
  void end_if_idle() {
    if (!closing_ || !clients_.empty() || !models_.idle()) return;
    signals_.cancel();
    grace_.cancel();
  }

  const settings how_;
  const allowed_sources allowed_;
  const allowed_targets targets_;
  counters counters_;
  bool closing_ = false;
  asio::io_context context_{1};
  asio::signal_set signals_;
  asio::steady_timer grace_;
  asio::steady_timer retry_;
  tcp::acceptor acceptor_;
  models models_;
  const services services_;
  std::unordered_set<std::shared_ptr<connection>> clients_;  // At most how_.connections_max.
};

}  // namespace

void run_server(const settings& options) { server(options).run(); }

}  // namespace ringload::server
