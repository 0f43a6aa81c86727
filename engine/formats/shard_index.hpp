// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses `model.safetensors.index.json` and similar indices, which list the shard of each tensor.
// Each tensor is read only from the shard that the index lists.
//
// A delta describes the changes between two versions of a checkpoint. The programs SGLang,
// ModelExpress and slime publish deltas as an index with shards. The metadata of a delta index has
// the key "delta_encoding". Each tensor in the shards of a delta is a compressed difference. The
// metadata of a shard has the digest of each changed tensor.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Equal to the limit for a safetensors header. Real indices are much smaller.
inline constexpr std::uint64_t shard_index_bytes_max = 100'000'000;

// The metadata of a delta index.
struct index_delta {
  std::string encoding;      // "xor" or "overwrite".
  std::string version;       // The version that the delta produces, such as "000007".
  std::string base_version;  // The version that the delta is applied to.
  std::string compression;   // "zstd".
  std::string checksum;      // The algorithm of the digests in the shards, such as "adler32".
};

struct shard_index {
  // Distinct, sorted paths relative to the folder of the index, spelled as in the index.
  std::vector<std::string> shards;
  // Pairs of a tensor name and a shard number, sorted by name.
  std::vector<std::pair<std::string, std::uint32_t>> tensors;
  // The value of "total_size", which is often wrong.
  std::optional<std::uint64_t> total_bytes;
  std::optional<index_delta> delta;  // Empty if the index lists whole tensors.
};

// The list of tensors may be empty only in a delta index. Returns a fault if a key of `index_delta`
// is missing from a delta index, if a tensor name is duplicate, or if the name of a shard does not
// end with `suffix`. Also returns a fault for a path that could leave the folder (absolute, or with
// `..`) by the rules of POSIX or of Windows.
RINGLOAD_EXPORT result<shard_index> parse_shard_index(std::span<const std::byte> text,
                                                      std::string_view suffix = ".safetensors");

// Returns the text of a delta index. `tensors` has pairs of a tensor name and a shard name.
std::string delta_index_text(const index_delta& delta,
                             std::span<const std::pair<std::string, std::string>> tensors);

// Returns whether the index describes a delta. `beginning` is the beginning of the index, or the
// whole index. Returns an empty optional if `beginning` is too short to decide, or is invalid.
std::optional<bool> describes_delta(std::string_view beginning);

}  // namespace ringload::inline v0
