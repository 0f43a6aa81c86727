// SPDX-License-Identifier: Apache-2.0
#pragma once

// The server's settings from the command line, and the limits for clients.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/dtype.hpp>
#include <ringload/options.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringload::server {

struct settings {
  // Loopback: anyone who can reach the port can make this process read files and allocate memory.
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any that is free, which is then printed.

  // Only what lies beneath one of these folders is loaded.
  std::vector<std::string> roots;
  bool hub_cache = false;  // And `owner/model[@revision]` of the local Hugging Face cache.

  // And what these hosts have, by its address; none: nothing is fetched from the network.
  std::vector<std::string> allowed_hosts;

  // Models may be saved to new files beneath these; none: not at all.
  std::vector<std::string> save_roots;

  // Loaded from the start on: id and source. No id twice, and no more than the limits below allow.
  std::vector<std::pair<std::string, std::string>> preload;

  // Where other processes attach the models that are ready, by their ids; empty: nowhere.
  std::string keep;

  std::string device = "host";           // As `ringload load --device` has it.
  std::optional<ringload::dtype> dtype;  // What all tensors that can be are converted to.
  loader_options within;
  std::size_t models_max = 16;
  std::size_t loads_max = 2;  // At once. A load that takes another's place waits for it to end.
  std::size_t connections_max = 256;
  // The niceness of the threads that load, 0 to 19: a request gets a processor before they do.
  int load_nice = 10;

  // For receiving a whole request, for sending a piece of a reply, and for a tensor to be loaded.
  std::chrono::seconds timeout{15};
};

inline constexpr std::uint32_t header_bytes_max = 8192;
inline constexpr std::uint64_t body_bytes_max = 65536;
inline constexpr std::uint64_t listed_tensors_max = 10'000;  // In one answer.
inline constexpr std::uint64_t listed_tensors = 1000;        // If the client does not say.
// A piece of a tensor's bytes. Other clients are served between two pieces.
inline constexpr std::size_t piece_bytes = std::size_t{1} << 20;
inline constexpr auto event_every = std::chrono::milliseconds(200);
// How long a shutdown waits for replies in progress.
inline constexpr auto grace = std::chrono::seconds(5);

}  // namespace ringload::server
