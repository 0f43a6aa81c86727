// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the command line asks for, as plain data. Each command takes one of these and nothing else.

#include <cstdint>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/options.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "remote_settings.hpp"
#include "selection_text.hpp"

namespace ringload::tool {

// A checkpoint, and what of it.
struct source_request {
  std::vector<std::string> sources;  // One, or several files.
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
  std::string device = "host";  // Of load, a list with commas.
  loader_options within;
  load_options how;
  bool json = false;
  bool progress = true;
  std::string verify;          // A manifest's path, or empty.
  std::string trace;           // Where to write one, or empty.
  std::string allocation_log;  // The same.
};

struct sum_request {
  load_request load;
  std::string attach;  // A keeper's socket, and the source is a name there; or empty.
  digest_algorithm algorithm = digest_algorithm::sha256;
  std::string manifest;  // Where to write one, or empty.
};

struct verify_request {
  load_request load;
  std::string manifest;  // Empty: whole files.
};

enum class tensor_shapes : std::uint8_t { mixed, llama };

// Where a tensor stands in its file.
enum class tensor_order : std::uint8_t {
  dtype,  // Wide elements first, as the reference writer does: each is aligned for its type.
  name,   // By name alone, so that many tensors are not aligned for their type.
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

// From any format to safetensors or .zt.
struct convert_request {
  load_request load;
  std::string to;
  int zstd_level = 0;  // 0: raw.
  std::optional<digest_algorithm> digest;
  std::uint64_t shard_bytes = 0;  // 0: one file.
  std::uint32_t alignment = 0;
  std::string manifest;  // Where to write one, or empty.
};

// .zt files from .zt files, as they are stored or encoded anew.
struct rewrite_request {
  enum class verb : std::uint8_t { append, remove, replace, migrate, compress, decompress, merge };

  verb what = verb::migrate;
  std::vector<std::string> from;   // Of replace: one checkpoint of any format.
  std::string to;                  // Of append and replace a file that is there; else a new one.
  std::vector<std::string> names;  // To be removed, or replaced.
  std::optional<int> zstd_level;   // Empty: as it is stored.
  std::optional<digest_algorithm> digest;
  bool progress = true;
};

// Models for other processes to attach.
struct keep_request {
  load_request load;                                        // Of each.
  std::vector<std::pair<std::string, std::string>> models;  // Name and source.
  std::string socket;
  unsigned mode = 0600;
  std::vector<unsigned> users;  // Empty: all whom the mode lets in.
};

// What --help and --version ask for.
struct text_request {
  std::string text;
};

using any_request =
    std::variant<text_request, ls_request, load_request, sum_request, verify_request, make_request,
                 convert_request, rewrite_request, keep_request>;

}  // namespace ringload::tool
