// SPDX-License-Identifier: Apache-2.0
#pragma once

// The requests of the command line, as plain data. Each command has its request as its only input.

#include <cstdint>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/delta.hpp>
#include <ringload/options.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "remote_settings.hpp"
#include "selection_text.hpp"

namespace ringload::tool {

// A checkpoint, and the selection of its tensors.
struct source_request {
  std::vector<std::string> sources;  // Either one source, or several files.
  open_options how;
  remote_wish remote;
  selection_text wanted;
};

struct ls_request {
  source_request from;
  bool json = false;
};

struct load_request {
  source_request from;
  std::string device = "host";  // The command load accepts a list with commas.
  loader_options options;
  load_options how;
  std::uint64_t window_bytes = 0;  // 0 means no window.
  bool json = false;
  bool progress = true;
  std::string verify;          // The path of a checksum list, or empty.
  std::string trace;           // The path of the trace file, or empty.
  std::string allocation_log;  // The path of the allocation log, or empty.
};

struct sum_request {
  load_request load;
  // The socket of a keeper, or empty. If set, the source is the name of a model of the keeper.
  std::string attach;
  digest_algorithm algorithm = digest_algorithm::sha256;
  std::string checksums;  // The path of the checksum list to write, or empty.
};

struct verify_request {
  load_request load;
  std::string checksums;  // If empty, whole files are verified.
};

enum class tensor_shapes : std::uint8_t { mixed, llama };

// The order of tensors in a file.
enum class tensor_order : std::uint8_t {
  // Wide elements first, as in the reference writer, so that each tensor is aligned for its type.
  dtype,
  name,  // By name, so that many tensors are not aligned for their type.
};

struct make_request {
  std::string path;
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> tensors;
  std::uint32_t shards = 1;
  tensor_shapes shapes = tensor_shapes::mixed;
  tensor_order order = tensor_order::dtype;
  std::uint64_t seed = 0;
  bool force = false;
  bool progress = true;
};

// A conversion of a checkpoint of any format to safetensors or .zt.
struct convert_request {
  load_request load;
  std::string to;
  int zstd_level = 0;  // 0 means no compression.
  std::optional<digest_algorithm> digest;
  std::uint64_t shard_bytes = 0;  // 0 means one file.
  std::uint32_t alignment = 0;
  std::string checksums;  // The path of the checksum list to write, or empty.
};

// The request of a command that writes a .zt file from .zt files. Objects are copied as they are
// stored, or encoded again.
struct rewrite_request {
  enum class verb : std::uint8_t { append, remove, replace, migrate, compress, decompress, merge };

  verb what = verb::migrate;
  std::vector<std::string> from;  // For replace: one checkpoint of any format.
  std::string to;                 // For append and replace, an existing file. Otherwise a new file.
  std::vector<std::string> names;  // The names to remove or to replace.
  std::optional<int> zstd_level;   // If empty, the stored bytes are not encoded again.
  std::optional<digest_algorithm> digest;
  bool progress = true;
};

struct delta_request {
  load_request load;  // Has two sources: the base and the next version.
  std::string to;
  int zstd_level = 3;
  std::optional<indexed_delta> indexed;
};

// The request to write the version that results from a base version and a chain of deltas.
struct apply_request {
  load_request load;  // The sources are the base, and the deltas in order.
  std::string to;
};

// A model that `keep` serves to other processes.
struct kept_source {
  std::string name;
  std::string source;
  // If true, the source is a version folder, and each new version is served.
  bool is_followed = false;

  friend bool operator==(const kept_source&, const kept_source&) = default;
};

struct keep_request {
  load_request load;  // The load options of every model.
  std::vector<kept_source> models;
  std::uint64_t interval_ms = 1000;  // The time between two checks of followed folders.
  std::string socket;                // If empty, the service manager passes a socket.
  std::string metrics;               // The address for metrics, such as "127.0.0.1:9464", or empty.
  unsigned mode = 0600;
  std::vector<unsigned> users;  // Empty means every user with the permission of the mode.
};

// The request of --help and --version.
struct text_request {
  std::string text;
};

using any_request =
    std::variant<text_request, ls_request, load_request, sum_request, verify_request, make_request,
                 convert_request, rewrite_request, delta_request, apply_request, keep_request>;

}  // namespace ringload::tool
