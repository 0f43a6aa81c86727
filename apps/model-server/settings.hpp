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
  // The default is a loopback address, because everybody who can connect to the port can make this
  // process read files and allocate memory.
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;  // 0 means any free port, which is then printed.

  // Only checkpoints beneath these folders can be loaded.
  std::vector<std::string> roots;
  // If true, `owner/model[@revision]` in the local Hugging Face cache can be loaded too.
  bool hub_cache = false;

  // Checkpoints on these hosts can be loaded too, by their addresses. If empty, nothing is read
  // from the network.
  std::vector<std::string> allowed_hosts;

  // Models may be saved to new files beneath these folders. If empty, no save is allowed.
  std::vector<std::string> save_roots;

  // The ids and sources of models that are loaded at the start. The ids are distinct, and their
  // number is within the limits below.
  std::vector<std::pair<std::string, std::string>> preload;

  // The path of the socket at which other processes attach ready models by their ids. If empty, the
  // server creates no socket.
  std::string keep;

  std::string device = "host";  // As in `ringload load --device`.
  // If set, all convertible tensors are converted to this type.
  std::optional<ringload::dtype> dtype;
  loader_options options;
  std::size_t models_max = 16;
  // Maximum number of loads at the same time. A load that replaces another load waits until the
  // other load has ended, and is not counted.
  std::size_t loads_max = 2;
  std::size_t connections_max = 256;
  // The niceness of the threads of the loader, 0 to 19. The default gives priority to the thread
  // that answers requests.
  int load_nice = 10;

  // The time limit for receiving a request, for sending a piece of a reply, and for loading a
  // tensor.
  std::chrono::seconds timeout{15};
};

inline constexpr std::uint32_t header_bytes_max = 8192;
inline constexpr std::uint64_t body_bytes_max = 65536;
// Maximum number of tensors in one response.
inline constexpr std::uint64_t listed_tensors_max = 10'000;
// The default number of tensors in one response.
inline constexpr std::uint64_t listed_tensors = 1000;
// The size of the pieces in which the bytes of a tensor are sent. Other clients are served between
// two pieces.
inline constexpr std::size_t piece_bytes = std::size_t{1} << 20;
inline constexpr auto event_every = std::chrono::milliseconds(200);
// The time that a shutdown waits for replies in progress.
inline constexpr auto grace = std::chrono::seconds(5);

}  // namespace ringload::server
