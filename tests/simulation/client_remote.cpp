// SPDX-License-Identifier: Apache-2.0

// Loads over HTTP. The clients load from a server as they load from files.

#include <chrono>

#include "client.hpp"
#include "http_server.hpp"

namespace ringload::simulation {

namespace {

constexpr std::chrono::milliseconds request_time_max(60'000);

}  // namespace

// Short time limits: the simulated time costs nothing, but each wait has its events.
remote_options any_remote_options() {
  using std::chrono::milliseconds;
  remote_options options;
  options.connections = 1 + static_cast<std::uint32_t>(random(4));
  options.threads = 1 + static_cast<std::uint32_t>(random(2));
  options.chunk_bytes = std::uint64_t{64 << 10} << random(3);
  options.connect_time_max = milliseconds(3'000);
  options.silence_time_max = milliseconds(2'000);
  options.stall_time_max = milliseconds(20'000);
  options.request_time_max = request_time_max;
  options.redirects_max = 1 + static_cast<std::uint32_t>(random(4));
  options.retry_delay = milliseconds(random(300));
  options.retry_delay_max = milliseconds(300 + random(2'000));
  options.tries_max = settings().mild_server ? 6 : 1 + static_cast<std::uint32_t>(random(5));
  return options;
}

std::string client::source_of(const known_file& file) {
  return settings().has_server && random(2) == 0 ? any_url_of(file) : file.path;
}

client::operation_ptr client::begin_load(const known_file& file, const std::string& source) {
  operation_ptr begun = begin_operation();
  if (source == file.path) return begun;
  // One request after the other, each with all of its time.
  const std::uint64_t requests = 10 + 2 * file.stored.size() + file.content.size() / slot_bytes;
  begun->end_max =
      now() + static_cast<std::int64_t>(requests) * request_time_max.count() * 1'000'000;
  return begun;
}

// The world may refuse the threads of the extension.
void program::start_remote() {
  if (!settings().has_server) return;
  const remote_options options = any_remote_options();
  begin_server(files, options);
  while (extensions.empty()) {
    try {
      extensions.push_back(remote(options));
    } catch (const error& refused) {
      if (settings().faults.thread_refused == 0) {
        violation(std::string("remote() has failed: ") + refused.what());
      }
    }
  }
}

void program::end_remote() {
  if (settings().has_server) end_server();
}

}  // namespace ringload::simulation
