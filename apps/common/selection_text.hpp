// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which tensors are wanted and which range of each, as people write it:
//
//   --select 'model.layers.0.*'  --slice 'wte.weight[0:128, :]'  --shard '*.q_proj.weight:0'
//   --rank 1/4
//
// The text is parsed without a checkpoint, and becomes a selection once there is a catalog.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// Elements of one dimension. Numbers below 0 count from the end, as in Python.
struct index_range {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;  // Empty: the dimension's end.
};

struct slice_text {
  std::string text;  // As it was written, for errors.
  std::string name;
  std::vector<index_range> ranges;  // Of the first dimensions; the others are whole.
};

struct shard_text {
  std::string glob;
  std::uint32_t dim = 0;
};

struct rank_text {
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
};

// Where tensors go, of several devices.
struct place_text {
  enum class way : std::uint8_t { one, spread, sharded };

  std::string glob = "*";
  way how = way::one;
  std::uint32_t number = 0;  // Of the device, or `all_devices`; of the dimension.
};

struct selection_text {
  std::vector<std::string> select;  // Globs; none: all tensors.
  std::vector<std::string> except;  // Globs.
  std::vector<slice_text> slices;
  std::vector<shard_text> shards;
  std::optional<rank_text> rank;
  bool experts = false;  // Of the routed experts those of `rank` only.
  std::vector<place_text> places;

  bool everything() const noexcept {
    return select.empty() && except.empty() && slices.empty() && shards.empty() && !experts;
  }
};

// These throw std::invalid_argument, which says what is wrong with the text but not the text.

/// "wte.weight[0:128, :]". Everything before the last '[' is the name. A range is "a:b", "a:",
/// ":b", ":" or one index.
slice_text parse_slice(std::string_view text);

/// "*.q_proj.weight:0"; the glob may have colons.
shard_text parse_shard(std::string_view text);

/// "all", "spread", "1" or "dim0", for every tensor or after "GLOB:" for those that match.
place_text parse_place(std::string_view text);

/// "1/4": rank 1 of the ranks 0 to 3.
rank_text parse_rank(std::string_view text);

/// Throws std::invalid_argument where a part needs another: "--shard needs --rank". `prefix` is
/// "--", or how else the parts are written.
void check_complete(const selection_text& of, const std::string& prefix);

/// For a checkpoint with that catalog. Throws `ringload::error`, with the text of the slice, for a
/// slice of no tensor or outside of it.
selection selection_of(const selection_text& from, const catalog& in);

}  // namespace ringload::tool
