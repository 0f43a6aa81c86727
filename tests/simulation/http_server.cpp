// SPDX-License-Identifier: Apache-2.0

#include "http_server.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <vector>

#include "memory.hpp"
#include "sockets.hpp"

namespace ringload::simulation {

namespace {

constexpr std::string_view etag = "\"version-1\"";
constexpr std::string_view other_etag = "\"version-2\"";
constexpr std::string_view modified = "Fri, 06 Nov 2026 08:49:37 GMT";

// The time after a limit within which the client must act.
constexpr std::int64_t slack = 1'000'000'000;

// In a world with a mild server, the number of faults of each range, and the number of connections
// that are refused or closed early. Together they are fewer than the attempts of a transfer.
constexpr unsigned faults_of_range_max = 2;
constexpr unsigned faults_of_connections_max = 1;

class server_connection;

struct simulated_server {
  remote_options options;
  std::vector<const known_file*> files;
  std::vector<std::shared_ptr<server_connection>> connections;
  std::map<std::string, unsigned> faults_of_ranges;  // By the target and the last byte.
  unsigned faults_of_connections = 0;
};

simulated_server* server = nullptr;

std::int64_t nanoseconds_of(std::chrono::milliseconds time) { return time.count() * 1'000'000; }

// ---- Requests ----

struct byte_range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

std::uint64_t number_at(std::string_view& text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc()) violation("a request has an invalid number");
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return value;
}

byte_range parse_range(std::string_view text) {
  if (!text.starts_with("bytes=")) violation("a request has an invalid Range");
  text.remove_prefix(6);
  byte_range range;
  range.first = number_at(text);
  if (!text.starts_with("-")) violation("a request has an invalid Range");
  text.remove_prefix(1);
  range.last = number_at(text);
  if (!text.empty() || range.last < range.first) violation("a request has an invalid Range");
  return range;
}

// The target has the form /MODE/INDEX.EXTENSION. A mode is a letter:
//
//   r  ranges, c  ranges in chunks, k  closes each connection, i  interim responses
//   d  Last-Modified in place of an ETag, n  neither, m  redirects to the mode r
//   w  no ranges, u  neither ranges nor a length
constexpr std::string_view modes = "rrrrrckidnmwwu";

struct requested_object {
  char mode = 'r';
  const std::string* content = nullptr;
};

requested_object find_object(std::string_view target) {
  requested_object found;
  if (target.size() < 5 || target[0] != '/' || target[2] != '/') violation("an unknown target");
  found.mode = target[1];
  target.remove_prefix(3);
  const std::uint64_t index = number_at(target);
  if (index >= server->files.size()) violation("an unknown file is requested");
  found.content = &server->files[index]->content;
  return found;
}

bool is_connection_faulty() {
  if (!happens(settings().faults.server)) return false;
  if (settings().mild_server) return ++server->faults_of_connections <= faults_of_connections_max;
  count_hard_fault();
  return true;
}

// ---- A connection ----

struct server_action {
  enum class kinds { bytes, pause, close, reset, silence };

  kinds kind = kinds::bytes;
  std::string bytes = {};
  std::int64_t nanoseconds = 0;
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
  void answer_status(unsigned status, const std::string& fields, std::size_t body_bytes);
  void answer_without_response(server_fault fault);
  void answer_unavailable();
  void send_body(std::string body, server_fault fault, bool in_chunks);
  static server_fault choose_fault(const std::string& key, const requested_object& object);

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
  bool is_spoiled_ = false;  // Bytes that belong to no response were sent.
  bool is_watched_ = true;   // The client must notice when the server is silent.
};

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
    const std::size_t piece = std::min(next.bytes.size(), end_->space());
    if (piece == 0 && !next.bytes.empty()) return;
    end_->send(std::string_view(next.bytes).substr(0, piece));
    next.bytes.erase(0, piece);
    if (next.bytes.empty()) actions_.pop_front();
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

std::string status_line(unsigned status) { return "HTTP/1.1 " + std::to_string(status) + " S\r\n"; }

std::string content_length(std::size_t bytes) {
  return "Content-Length: " + std::to_string(bytes) + "\r\n";
}

std::string content_range(std::uint64_t first, std::uint64_t bytes, std::uint64_t total) {
  return "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(first + bytes - 1) +
         "/" + std::to_string(total) + "\r\n";
}

// The content of a response. The fault decides what differs from a correct response.
struct object_part {
  unsigned status = 206;
  std::string fields;
  std::string body;
};

void server_connection::answer_status(unsigned status, const std::string& fields,
                                      std::size_t body_bytes) {
  add(status_line(status) + fields + content_length(body_bytes) + "\r\n" +
      std::string(body_bytes, '-'));
}

// A small body is received to keep the connection, and a large body is not.
void server_connection::answer_unavailable() {
  constexpr unsigned statuses[] = {408, 429, 500, 502, 503, 504};
  constexpr std::size_t body_bytes[] = {0, 20, 100'000};
  constexpr const char* delays[] = {"", "Retry-After: 0\r\n", "Retry-After: 1\r\n",
                                    "Retry-After: soon\r\n"};
  answer_status(statuses[random(6)], delays[random(4)], body_bytes[random(3)]);
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
  if (is_spoiled_) count_hard_fault();
  if (request.target.starts_with("/loop/")) return answer_loop(request.target);
  const requested_object object = find_object(request.target);
  if (object.mode == 'm') {
    const std::string place = random(2) == 0 ? "" : "http://127.0.0.1:8080";
    return answer_status(302, "Location: " + place + "/r" + request.target.substr(2) + "\r\n", 0);
  }
  answer_object(request, object);
}

server_fault server_connection::choose_fault(const std::string& key,
                                             const requested_object& object) {
  // The end of a body without a length is no fault that a client can notice.
  if (object.mode == 'u' || !happens(settings().faults.server)) return server_fault::none;
  if (!settings().mild_server) {
    count_hard_fault();
    constexpr auto all = static_cast<std::uint64_t>(server_fault::last);
    const auto chosen = static_cast<server_fault>(1 + random(all - 1));
    return chosen == server_fault::last_repeatable ? server_fault::unavailable : chosen;
  }
  if (++server->faults_of_ranges[key] > faults_of_range_max) return server_fault::none;
  constexpr auto repeatable = static_cast<std::uint64_t>(server_fault::last_repeatable);
  return static_cast<server_fault>(1 + random(repeatable - 1));
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

void server_connection::answer_object(const http_request& request, const requested_object& object) {
  using enum server_fault;
  const std::string& content = *object.content;
  const bool has_ranges = object.mode != 'w' && object.mode != 'u';
  const bool has_etag = object.mode != 'd' && object.mode != 'n';
  byte_range range = {0, content.size() - 1};
  const std::string* const range_text = request.field("range");
  if (has_ranges && range_text) range = parse_range(*range_text);
  if (range.first >= content.size()) violation("a range begins behind the object");
  const std::string key = request.target + " " + std::to_string(range.last);
  range.last = std::min<std::uint64_t>(range.last, content.size() - 1);
  // The first request of an object has no condition. All others must have one.
  const std::string* const condition = request.field("if-match");
  const bool is_conditional = condition || request.field("if-unmodified-since");
  if (range.first > 0 && object.mode != 'n' && !is_conditional) {
    violation("a request does not name the version of the object");
  }
  server_fault fault = choose_fault(key, object);
  // The client knows no version that could differ.
  if (!is_conditional && fault == other_version) fault = unavailable;
  if (!has_etag && fault == other_version) fault = unavailable;
  // Bodies without ranges are received only as far as they are needed.
  is_watched_ = has_ranges;
  if (fault == unavailable) return answer_unavailable();
  if (fault == delayed_for_long) return answer_status(503, "Retry-After: 100000\r\n", 0);
  constexpr unsigned refusals[] = {401, 403, 404, 410, 412, 416, 418};
  if (fault == refused) return answer_status(refusals[random(7)], {}, 10);
  if (fault == redirect_loop) return answer_status(302, "Location: /loop/2\r\n", 0);
  if (fault == redirect_to_nowhere) {
    constexpr const char* places[] = {"http://127.0.0.1:81/r/0", "ftp://127.0.0.1/", "http://"};
    return answer_status(307, "Location: " + std::string(places[random(3)]) + "\r\n", 0);
  }
  if (fault == closed_before || fault == reset_before || fault == silent_before ||
      fault == garbage || fault == endless_header || fault == endless_interim) {
    return answer_without_response(fault);
  }
  if (condition && has_etag && *condition != etag) return answer_status(412, {}, 0);
  object_part part;
  std::uint64_t first = range.first;
  std::uint64_t bytes = range.last - range.first + 1;
  if (fault == fewer_bytes && has_ranges) bytes = 1 + random(bytes);
  if (fault == other_range && has_ranges) {
    first = random(content.size());
    bytes = std::min<std::uint64_t>(bytes, content.size() - first);
  }
  const bool is_whole = !has_ranges || fault == whole_object;
  if (is_whole) {
    part.status = 200;
    first = 0;
    bytes = content.size();
  }
  part.body = content.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(bytes));
  if (fault == other_version) {
    for (char& byte : part.body) byte = static_cast<char>(~byte);
  }
  if (!is_whole && fault != no_range) {
    const std::uint64_t total = content.size() + (fault == wrong_total ? 1 + random(100) : 0);
    part.fields = fault == invalid_range ? "Content-Range: bytes 7-3/2\r\n"
                                         : content_range(first, bytes, total);
  }
  if (has_etag) {
    part.fields += "ETag: " + std::string(fault == other_version ? other_etag : etag) + "\r\n";
  }
  if (object.mode == 'd') part.fields += "Last-Modified: " + std::string(modified) + "\r\n";
  if (fault == encoded) part.fields += "Content-Encoding: gzip\r\n";
  const bool in_chunks = object.mode == 'c' || fault == invalid_chunk;
  std::uint64_t length = bytes;
  if (fault == wrong_length) length = random(2) == 0 ? random(bytes) : bytes + 1 + random(100);
  if (in_chunks) part.fields += "Transfer-Encoding: chunked\r\n";
  if (!in_chunks && object.mode != 'u') part.fields += content_length(length);
  const bool closes = object.mode == 'k' || object.mode == 'u';
  if (closes) part.fields += "Connection: close\r\n";
  if (object.mode == 'i') add(status_line(103) + "Link: <a>\r\n\r\n");
  if (random(4) == 0) add(kinds::pause, static_cast<std::int64_t>(random(20'000'000)));
  add(status_line(part.status) + part.fields + "\r\n");
  send_body(std::move(part.body), fault, in_chunks);
  if (fault == more_bytes || fault == wrong_length) is_spoiled_ = true;
  if (!takes_requests_) return;
  if (closes) return add(kinds::close);
  if (fault != none || !is_connection_faulty()) return;
  // The client does not know yet that the connection will be closed.
  add(kinds::pause, static_cast<std::int64_t>(random(1'000'000) << random(12)));
  add(kinds::close);
}

connect_answer decide_connection(std::uint16_t port, const std::shared_ptr<stream_end>& client) {
  const std::uint64_t limit = (server->options.connections + server->options.threads - 1) /
                              server->options.threads * server->options.threads;
  if (connections_to({server_address, port}) > limit) {
    violation("more connections to a server than the option allows");
  }
  if (!is_connection_faulty()) return connect_answer::accepted;
  if (random(2) == 0) return connect_answer::refused;
  call_at(now() + nanoseconds_of(server->options.connect_time_max) + slack, [client] {
    if (!client->is_closed()) violation("a client waits for a connection after its time limit");
  });
  return connect_answer::unanswered;
}

void accept_connection(std::shared_ptr<stream_end> end) {
  std::erase_if(server->connections, [](const auto& known) { return known->has_ended(); });
  server->connections.push_back(std::make_shared<server_connection>(std::move(end)));
  server->connections.back()->begin();
}

}  // namespace

http_request parse_request(std::string_view head) {
  http_request request;
  const auto next_line = [&head] {
    const std::size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    return line;
  };
  const std::string_view first = next_line();
  const std::size_t method_end = first.find(' ');
  const std::size_t target_end = first.rfind(' ');
  if (method_end == first.npos || first.substr(target_end) != " HTTP/1.1") {
    violation("a request line is not valid");
  }
  request.method = first.substr(0, method_end);
  request.target = first.substr(method_end + 1, target_end - method_end - 1);
  while (!head.empty()) {
    const std::string_view line = next_line();
    const std::size_t colon = line.find(": ");
    if (colon == line.npos) violation("a field of a request is not valid");
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    request.fields[name] = line.substr(colon + 2);
  }
  if (request.method != "GET" || !request.field("host")) violation("an unexpected request");
  return request;
}

void begin_server(const known_files& files, const remote_options& options) {
  server = new simulated_server;
  server->options = options;
  for (const known_file& file : files.all()) server->files.push_back(&file);
  server->files.push_back(&files.wide());
  for (const std::uint16_t port : server_ports) {
    listen_at({server_address, port},
              {[port](const auto& client) { return decide_connection(port, client); },
               accept_connection});
  }
}

void end_server() {
  delete server;
  server = nullptr;
}

std::string any_url_of(const known_file& file) {
  const auto found = std::ranges::find(server->files, &file);
  return std::string("http://127.0.0.1/") + modes[random(modes.size())] + "/" +
         std::to_string(found - server->files.begin()) +
         std::filesystem::path(file.path).extension().string();
}

}  // namespace ringload::simulation
