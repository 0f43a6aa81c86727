// SPDX-License-Identifier: Apache-2.0
#pragma once

// One connection of the simulated HTTP server.

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http_server.hpp"
#include "sockets.hpp"

namespace ringload::simulation {

class server_connection;

struct simulated_server {
  remote_options options;
  std::vector<const known_file*> files;
  std::vector<std::shared_ptr<server_connection>> connections;
  std::map<std::string, unsigned> faults_of_ranges;  // By the target and the last byte.
  unsigned faults_of_connections = 0;
};

// Null outside of a world with a server.
extern simulated_server* server;

inline std::int64_t nanoseconds_of(std::chrono::milliseconds time) {
  return time.count() * 1'000'000;
}

// The time after a limit within which the client must act.
inline constexpr std::int64_t slack = 1'000'000'000;

struct byte_range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

struct requested_object {
  char mode = 'r';
  const std::string* content = nullptr;

  bool has_ranges() const { return mode != 'w' && mode != 'u'; }
  bool has_etag() const { return mode != 'd' && mode != 'n'; }
};

// Violations: an unknown target, a range that is not valid.
requested_object find_object(std::string_view target);
byte_range parse_range(std::string_view text);
std::uint64_t number_at(std::string_view& text);

// The fault of a response to a request. The key names the range.
server_fault choose_fault(const std::string& key, const requested_object& object);
// A connection is refused, or closed early.
bool is_connection_faulty();

struct server_action {
  enum class kinds { bytes, pause, close, reset, silence };

  kinds kind = kinds::bytes;
  std::string bytes = {};
  std::int64_t nanoseconds = 0;
  std::size_t sent = 0;  // Bytes that were sent.
};

class server_connection : public std::enable_shared_from_this<server_connection> {
 public:
  explicit server_connection(std::shared_ptr<stream_end> end) : end_(std::move(end)) {}

  void begin() {
    end_->on_change = [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->change();
    };
  }
  bool has_ended() const { return has_ended_; }

 private:
  using kinds = server_action::kinds;

  void change();
  void pump();
  void finish(bool with_reset);
  void watch_silence() const;

  void answer(const http_request& request);
  void answer_loop(std::string_view target);
  void answer_object(const http_request& request, const requested_object& object);
  // Answers without bytes of the object. Returns false if the fault is another one.
  bool answer_refusal(server_fault fault);
  void answer_part(const requested_object& object, const byte_range& range, server_fault fault);
  void answer_status(unsigned status, const std::string& fields, std::size_t body_bytes);
  void answer_without_response(server_fault fault);
  void answer_unavailable();
  void send_body(std::string body, server_fault fault, bool in_chunks);

  void add(std::string bytes) { actions_.push_back({kinds::bytes, std::move(bytes)}); }
  void add(kinds kind, std::int64_t nanoseconds = 0) {
    actions_.push_back({kind, {}, nanoseconds});
    takes_requests_ &= kind == kinds::pause;
  }

  const std::shared_ptr<stream_end> end_;
  std::string input_;
  std::deque<server_action> actions_;
  bool is_paused_ = false;
  bool takes_requests_ = true;
  bool has_ended_ = false;
  bool is_body_left_ = false;  // The client does not receive the body of the last response.
  bool is_spoiled_ = false;    // Bytes that belong to no response were sent.
  bool is_watched_ = true;     // The client must notice when the server is silent.
};

}  // namespace ringload::simulation
