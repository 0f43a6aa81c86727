// SPDX-License-Identifier: Apache-2.0
#pragma once

// One request on one connection, and its answer. Touched in its lane's thread only.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "remote/http/answer.hpp"

namespace ringload::inline v0::remote_http {

class host_pool;

// Takes a body piece by piece, no faster than it is wanted.
class body_sink {
 public:
  virtual ~body_sink() = default;

  // Where the next bytes go. Waits while nobody wants them, and ends at wake(). No room: it has all
  // that it takes. Empty: the connection may go, the rest is not wanted.
  virtual boost::asio::awaitable<std::optional<std::span<std::byte>>> room(host_pool& on) = 0;
  // So many have come there. Returns what x.arrived grows by.
  virtual std::uint64_t take(std::size_t bytes) = 0;
  // What is wrong where more comes than it takes.
  virtual fault too_long() const = 0;
  virtual void wake() noexcept = 0;
};

// Where the body of an answer goes.
struct body_place {
  enum class kind : std::uint8_t {
    drop,    // Nowhere: it is not read further than is cheap, and the connection may go.
    memory,  // To `into`, which it must fill exactly.
    text,    // To `text`, at most so many bytes.
    stream,  // To `sink`.
  };
  kind how = kind::drop;
  std::span<std::byte> into = {};
  std::string* text = nullptr;
  std::uint64_t text_bytes_max = 0;
  body_sink* sink = nullptr;
};

struct exchange_failure {
  fault what;
  bool final = false;   // It would fail the same way again.
  bool silent = false;  // A time limit was reached.
};

class link;  // A connection: see http_connection.hpp.

struct exchange {
  // What is asked.
  std::string request;  // The whole head.
  bool head = false;    // HEAD: the answer has no body.
  bool awaited = false;
  std::function<body_place(const answer_head&)> place;  // Called once the head has come.

  // What became of it, once `done` is called.
  std::optional<exchange_failure> failure;
  answer_head answer;         // status 0: none came.
  std::uint64_t arrived = 0;  // Of the body, in its place.
  bool private_peer = false;  // Of a connection that was made: the server's address is_private().

  // The pool's.
  std::optional<boost::asio::any_completion_handler<void()>>
      done;                // Assigning one recurses in 1.81.
  link* on = nullptr;      // Null: it waits for a connection, or has ended.
  bool cancelled = false;  // While it was on one.
  bool repeated = false;   // The connection that it was sent on first had been closed meanwhile.
};

}  // namespace ringload::inline v0::remote_http
