// SPDX-License-Identifier: Apache-2.0

// The answers of the simulated HTTP server.

#include "http_connection.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ringload::simulation {

namespace {

constexpr std::string_view etag = "\"version-1\"";
constexpr std::string_view other_etag = "\"version-2\"";
constexpr std::string_view modified = "Fri, 06 Nov 2026 08:49:37 GMT";

}  // namespace

void server_connection::change() {
  if (has_ended_) return;
  const std::size_t arrived = end_->arrived_bytes();
  const std::size_t known = input_.size();
  input_.resize(known + arrived);
  end_->receive(input_.data() + known, arrived);
  for (;;) {
    const std::size_t head_end = input_.find("\r\n\r\n");
    if (head_end == std::string::npos || !takes_requests_) break;
    const http_request request = parse_request(std::string_view(input_).substr(0, head_end + 2));
    input_.erase(0, head_end + 4);
    answer(request);
  }
  if (end_->has_ended()) return finish(false);
  pump();
}

void server_connection::finish(bool with_reset) {
  if (std::exchange(has_ended_, true)) return;
  actions_.clear();
  if (with_reset) return end_->reset();
  end_->close();
}

void server_connection::pump() {
  while (!has_ended_ && !is_paused_ && !actions_.empty()) {
    server_action& next = actions_.front();
    switch (next.kind) {
      case kinds::close: return finish(false);
      case kinds::reset: return finish(true);
      case kinds::silence: is_paused_ = true; return watch_silence();
      case kinds::pause:
        is_paused_ = true;
        call_at(now() + next.nanoseconds, [self = shared_from_this()] {
          self->is_paused_ = false;
          if (!self->actions_.empty()) self->actions_.pop_front();
          self->pump();
        });
        return;
      case kinds::bytes: break;
    }
    const std::string_view left = std::string_view(next.bytes).substr(next.sent);
    const std::size_t piece = std::min(left.size(), end_->space());
    if (piece == 0 && !left.empty()) return;
    if (piece > 0) end_->send(left.substr(0, piece));
    next.sent += piece;
    if (next.sent == next.bytes.size()) actions_.pop_front();
  }
}

// The client must close a connection whose server is silent.
void server_connection::watch_silence() const {
  if (!is_watched_) return;
  const std::int64_t limit = nanoseconds_of(server->options.silence_time_max);
  call_at(now() + limit + slack, [self = shared_from_this()] {
    if (!self->has_ended_) violation("a client waits for a silent server after its time limit");
  });
}

// ---- Answers ----

namespace {

std::string status_line(unsigned status) { return "HTTP/1.1 " + std::to_string(status) + " S\r\n"; }

// The client closes a connection if a body that it does not need is larger.
constexpr std::size_t received_body_max = 64 << 10;

std::string content_length(std::size_t bytes) {
  return "Content-Length: " + std::to_string(bytes) + "\r\n";
}

std::string content_range(std::uint64_t first, std::uint64_t bytes, std::uint64_t total) {
  return "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(first + bytes - 1) +
         "/" + std::to_string(total) + "\r\n";
}

}  // namespace

void server_connection::answer_status(unsigned status, const std::string& fields,
                                      std::size_t body_bytes) {
  add(status_line(status) + fields + content_length(body_bytes) + "\r\n");
  // The client receives the header before the first byte of a large body.
  if (body_bytes > received_body_max)
    add(kinds::pause, nanoseconds_of(std::chrono::milliseconds(1)));
  if (body_bytes > 0) add(std::string(body_bytes, '-'));
}

// A small body is received to keep the connection, and a large body is not. The client must close
// the connection then.
void server_connection::answer_unavailable() {
  constexpr unsigned statuses[] = {408, 429, 500, 502, 503, 504};
  constexpr std::size_t body_bytes[] = {0, 20, 100'000};
  constexpr const char* delays[] = {"", "Retry-After: 0\r\n", "Retry-After: 1\r\n",
                                    "Retry-After: soon\r\n"};
  const std::size_t bytes = body_bytes[random(3)];
  is_body_left_ = bytes > received_body_max;
  answer_status(statuses[random(6)], delays[random(4)], bytes);
}

void server_connection::answer_without_response(server_fault fault) {
  switch (fault) {
    case server_fault::closed_before: return add(kinds::close);
    case server_fault::reset_before: return add(kinds::reset);
    case server_fault::silent_before: return add(kinds::silence);
    case server_fault::garbage:
      add(std::string(1 + random(5000), static_cast<char>(random(256))));
      return add(kinds::close);
    case server_fault::endless_header:
      add(status_line(200) + "Field: " + std::string(200'000, 'x'));
      return add(kinds::silence);
    case server_fault::endless_interim:
      for (int i = 0; i < 100; ++i) add(status_line(103) + "\r\n");
      return add(kinds::silence);
    default: return answer_status(500, {}, 0);
  }
}

// Each redirect of a loop has a number.
void server_connection::answer_loop(std::string_view target) {
  target.remove_prefix(std::string_view("/loop/").size());
  const std::uint64_t number = number_at(target);
  if (number > server->options.redirects_max) violation("too many redirects are followed");
  answer_status(302, "Location: /loop/" + std::to_string(number + 1) + "\r\n", 0);
}

void server_connection::answer(const http_request& request) {
  if (is_body_left_) violation("a request follows a response whose body was not received");
  if (is_spoiled_) count_hard_fault();
  if (request.target.starts_with("/loop/")) return answer_loop(request.target);
  const requested_object object = find_object(request.target);
  if (object.mode == 'm') {
    const std::string place = random(2) == 0 ? "" : "http://127.0.0.1:8080";
    return answer_status(302, "Location: " + place + "/r" + request.target.substr(2) + "\r\n", 0);
  }
  answer_object(request, object);
}

void server_connection::send_body(std::string body, server_fault fault, bool in_chunks) {
  std::size_t sent = body.size();
  const bool is_partial = fault == server_fault::cut || fault == server_fault::reset_within ||
                          fault == server_fault::silent_within ||
                          fault == server_fault::invalid_chunk || fault == server_fault::slow_body;
  if (is_partial) sent = random(body.size());
  const std::string rest = body.substr(sent);
  body.resize(sent);
  if (in_chunks) {
    while (!body.empty()) {
      const std::size_t bytes = std::min<std::size_t>(body.size(), 1 + random(30'000));
      char size[20] = {};
      *std::to_chars(size, size + sizeof size, bytes, 16).ptr = 0;
      add(size + std::string("\r\n") + body.substr(0, bytes) + "\r\n");
      body.erase(0, bytes);
    }
    if (!is_partial) add("0\r\n\r\n");
  } else {
    add(std::move(body));
  }
  switch (fault) {
    case server_fault::cut: return add(kinds::close);
    case server_fault::reset_within: return add(kinds::reset);
    case server_fault::silent_within: return add(kinds::silence);
    case server_fault::invalid_chunk: add("no number\r\n"); return add(kinds::close);
    case server_fault::more_bytes: add(std::string(1 + random(200'000), '+')); return;
    case server_fault::slow_body:
      for (const char byte : rest.substr(0, 200)) {
        add(kinds::pause, nanoseconds_of(server->options.silence_time_max) / 2);
        add(std::string(1, byte));
      }
      return add(kinds::silence);
    default: return;
  }
}

bool server_connection::answer_refusal(server_fault fault) {
  using enum server_fault;
  constexpr unsigned refusals[] = {401, 403, 404, 410, 412, 416, 418};
  constexpr const char* places[] = {"http://127.0.0.1:81/r/0", "ftp://127.0.0.1/", "http://"};
  switch (fault) {
    case unavailable: answer_unavailable(); return true;
    case delayed_for_long: answer_status(503, "Retry-After: 100000\r\n", 0); return true;
    case refused: answer_status(refusals[random(7)], {}, 10); return true;
    case redirect_loop: answer_status(302, "Location: /loop/1\r\n", 0); return true;
    case redirect_to_nowhere:
      answer_status(307, "Location: " + std::string(places[random(3)]) + "\r\n", 0);
      return true;
    case closed_before:
    case reset_before:
    case silent_before:
    case garbage:
    case endless_header:
    case endless_interim: answer_without_response(fault); return true;
    default: return false;
  }
}

void server_connection::answer_object(const http_request& request, const requested_object& object) {
  const std::uint64_t total = object.content->size();
  byte_range range = {0, total - 1};
  const std::string* const range_text = request.field("range");
  if (object.has_ranges() && range_text) range = parse_range(*range_text);
  if (range.first >= total) {
    // The server has told another size.
    if (hard_faults() == 0) violation("a range begins behind the object");
    return answer_status(416, {}, 0);
  }
  const std::string key = request.target + " " + std::to_string(range.last);
  range.last = std::min<std::uint64_t>(range.last, total - 1);
  // The first request of an object has no condition. All others must have one.
  const std::string* const condition = request.field("if-match");
  const bool is_conditional = condition || request.field("if-unmodified-since");
  if (range.first > 0 && object.mode != 'n' && !is_conditional) {
    violation("a request does not name the version of the object");
  }
  server_fault fault = choose_fault(key, object);
  // Without an ETag, the client cannot notice another version.
  if (fault == server_fault::other_version && !condition) fault = server_fault::unavailable;
  // Bodies without ranges are received only as far as they are needed.
  is_watched_ = object.has_ranges();
  if (answer_refusal(fault)) return;
  if (condition && *condition != etag) return answer_status(412, {}, 0);
  answer_part(object, range, fault);
}

void server_connection::answer_part(const requested_object& object, const byte_range& range,
                                    server_fault fault) {
  using enum server_fault;
  const std::string& content = *object.content;
  const bool is_whole = !object.has_ranges() || fault == whole_object;
  std::uint64_t first = is_whole ? 0 : range.first;
  std::uint64_t bytes = is_whole ? content.size() : range.last - range.first + 1;
  if (!is_whole && fault == fewer_bytes) bytes = 1 + random(bytes);
  if (!is_whole && fault == other_range) {
    first = random(content.size());
    bytes = std::min<std::uint64_t>(bytes, content.size() - first);
  }
  std::string body =
      content.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(bytes));
  if (fault == other_version) {
    for (char& byte : body) byte = static_cast<char>(~byte);
  }
  std::string head = object.mode == 'i' ? status_line(103) + "Link: <a>\r\n\r\n" : "";
  head += status_line(is_whole ? 200 : 206);
  if (!is_whole && fault == invalid_range) head += "Content-Range: bytes 7-3/2\r\n";
  if (!is_whole && fault != no_range && fault != invalid_range) {
    const std::uint64_t more = fault == wrong_total ? 1 + random(100) : 0;
    head += content_range(first, bytes, content.size() + more);
  }
  const std::string_view version = fault == other_version ? other_etag : etag;
  if (object.has_etag()) head += "ETag: " + std::string(version) + "\r\n";
  if (object.mode == 'd') head += "Last-Modified: " + std::string(modified) + "\r\n";
  if (fault == encoded) head += "Content-Encoding: gzip\r\n";
  const bool in_chunks = object.mode == 'c' || fault == invalid_chunk;
  std::uint64_t length = bytes;
  if (fault == wrong_length) length = random(2) == 0 ? random(bytes) : bytes + 1 + random(100);
  if (in_chunks) head += "Transfer-Encoding: chunked\r\n";
  if (!in_chunks && object.mode != 'u') head += content_length(length);
  const bool closes = object.mode == 'k' || object.mode == 'u';
  if (closes) head += "Connection: close\r\n";
  if (random(4) == 0) add(kinds::pause, static_cast<std::int64_t>(random(20'000'000)));
  add(head + "\r\n");
  send_body(std::move(body), fault, in_chunks);
  if (fault == more_bytes || fault == wrong_length) is_spoiled_ = true;
  if (!takes_requests_) return;
  if (closes) return add(kinds::close);
  if (fault != none || !is_connection_faulty()) return;
  // The client does not know yet that the connection will be closed.
  add(kinds::pause, static_cast<std::int64_t>(random(1'000'000) << random(12)));
  add(kinds::close);
}

}  // namespace ringload::simulation
