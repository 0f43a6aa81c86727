// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the command-line text that selects tensors and ranges of tensors:
//
//   --select 'model.layers.0.*'  --slice 'wte.weight[0:128, :]'  --shard '*.q_proj.weight:0'
//   --rank 1/4
//
// The text is parsed without a checkpoint. selection_of() creates the selection when the catalog is
// known.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::tool {

/// A range of indices in one dimension. As in Python, a negative number counts from the end.
struct index_range {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;  // Empty: the end of the dimension.
};

struct slice_text {
  std::string text;  // The original text, for errors.
  std::string name;
  // The ranges of the first dimensions. The other dimensions are not restricted.
  std::vector<index_range> ranges;
};

struct shard_text {
  std::string glob;
  std::uint32_t dim = 0;
};

struct rank_text {
  std::uint64_t rank = 0;
  std::uint64_t ranks = 1;
};

// Chooses the devices of the tensors that match `glob`.
struct place_text {
  enum class way : std::uint8_t { one, spread, sharded };

  std::string glob = "*";
  way how = way::one;
  std::uint32_t number = 0;  // The index of a device, `all_devices`, or a dimension.
};

struct selection_text {
  std::vector<std::string> select;  // Globs. Empty: all tensors.
  std::vector<std::string> except;  // Globs.
  std::vector<slice_text> slices;
  std::vector<shard_text> shards;
  std::optional<rank_text> rank;
  bool experts = false;  // If true, only the routed experts of `rank` are selected.
  std::vector<place_text> places;

  bool everything() const noexcept {
    return select.empty() && except.empty() && slices.empty() && shards.empty() && !experts;
  }
};

// The next functions throw std::invalid_argument if the text is invalid. The message describes the
// error, but does not contain the text.

/// Parses a slice, such as "wte.weight[0:128, :]". The name is the text before the last '['. A
/// range is "a:b", "a:", ":b", ":" or one index.
slice_text parse_slice(std::string_view text);

/// Parses a shard, such as "*.q_proj.weight:0". The glob may contain colons.
shard_text parse_shard(std::string_view text);

/// Parses a placement: "all", "spread", "1" or "dim0". The placement applies to all tensors. With
/// the prefix "GLOB:", it applies to the tensors that match the glob.
place_text parse_place(std::string_view text);

/// Parses a rank: "1/4" is rank 1 of the ranks 0 to 3.
rank_text parse_rank(std::string_view text);

/// Throws std::invalid_argument if an option requires another option: "--shard needs --rank".
/// `prefix` is the text before the name of an option, such as "--".
void check_complete(const selection_text& of, const std::string& prefix);

/// Returns the selection for a checkpoint with the catalog `in`. Throws `ringload::error` if the
/// tensor of a slice does not exist, or if the slice is not within the tensor. The error contains
/// the text of the slice.
selection selection_of(const selection_text& from, const catalog& in);

}  // namespace ringload::tool
