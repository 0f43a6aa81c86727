// SPDX-License-Identifier: Apache-2.0

#include "http_server.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <utility>

#include "http_connection.hpp"

namespace ringload::simulation {

simulated_server* server = nullptr;

namespace {

// In a world with a mild server, the number of faults of each range, and the number of connections
// that are refused or closed early. Together they are fewer than the attempts of a transfer.
constexpr unsigned faults_of_range_max = 2;
constexpr unsigned faults_of_connections_max = 1;

// The target has the form /MODE/INDEX.EXTENSION. A mode is a letter:
//
//   r  ranges, c  ranges in chunks, k  closes each connection, i  interim responses
//   d  Last-Modified in place of an ETag, n  neither, m  redirects to the mode r
//   w  no ranges, u  neither ranges nor a length
constexpr std::string_view modes = "rrrrrckidnmwwu";

}  // namespace

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

server_fault choose_fault(const std::string& key, const requested_object& object) {
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

bool is_connection_faulty() {
  if (!happens(settings().faults.server)) return false;
  if (settings().mild_server) return ++server->faults_of_connections <= faults_of_connections_max;
  count_hard_fault();
  return true;
}

namespace {

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
