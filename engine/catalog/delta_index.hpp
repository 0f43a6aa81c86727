// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts the shards of a delta that has an index (see formats/shard_index.hpp) to the contents of
// a catalog. Each changed tensor becomes an object (`composite`) with one part, the compressed
// difference. Therefore no program can mistake the difference for the tensor.

#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "catalog/assemble.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0 {

// The metadata keys of a catalog that describe a delta. The comments of delta/delta_contents.hpp
// describe the values.
inline constexpr std::string_view delta_layout_key = "ringload.delta";
inline constexpr std::string_view delta_base_key = "ringload.delta.base";
inline constexpr std::string_view delta_result_key = "ringload.delta.result";
inline constexpr std::string_view indexed_layout_name = "index";

// Values of `composite::layout`. The difference is the XOR of all bytes, or the positions and
// values of the changed bytes.
inline constexpr std::string_view indexed_xor_layout = "delta_xor_zstd";
inline constexpr std::string_view indexed_overwrite_layout = "delta_overwrite_zstd";
inline constexpr std::string_view frame_part = "frame";
// The key of an object's attribute. The value is the algorithm and the digest of the changed
// tensor.
inline constexpr std::string_view changed_digest_key = "digest";

// Adds an object for each tensor of the shards, and renames the tensor to "<name>/frame", also in
// `index`. `index.delta` must be set. `shards` must be in the order of `index.shards`. Fails if the
// index does not list a tensor for its shard, or if a digest is missing. Also fails if a tensor
// cannot be a compressed difference. Fails with errc::unsupported_feature or
// errc::digest_unavailable if the index names an unknown encoding, compression or checksum.
result<void> describe_indexed_delta(std::vector<file_content>& shards, shard_index& index);

// Returns the metadata that describes the delta in a catalog.
attributes metadata_of(const index_delta& delta);

}  // namespace ringload::inline v0
