// SPDX-License-Identifier: Apache-2.0
#pragma once

// The contents of a delta file: the difference between a base version of a checkpoint and the next
// version. Pure functions.
//
// Usually, a delta is a .zt file with these attributes:
//
//   ringload.delta                 the version of this layout: 1
//   ringload.delta.base            the identity of the base version
//   ringload.delta.result          the identity of the next version
//   ringload.delta.base_digests    the CRC-32C of each tensor of the base version
//   ringload.delta.result_digests  the CRC-32C of each tensor of the next version
//
// The two lists of digests have the text format of a checksum list. All other attributes of the
// file are the metadata of the next version. The file contains an object for each changed or added
// tensor. The layout of an object is one of these:
//
//   ringload_delta_sparse   components `gaps` and `planes`, see delta_code.hpp
//   ringload_delta_dense    component `planes`
//   dense                   the whole tensor of the next version
//
// Sparse and dense differences have the shape of their tensor and an attribute `dtype`.
//
// A delta can also be a folder with an index (catalog/delta_index.hpp). Its catalog has these
// attributes:
//
//   ringload.delta         "index"
//   ringload.delta.base    the version that the delta is applied to, such as "000006"
//   ringload.delta.result  the version that the delta leads to, such as "000007"
//
// A delta with an index describes changed tensors only, and has digests of their next version only.

#include <cstdint>
#include <map>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Metadata keys with this prefix belong to the format of deltas.
inline constexpr std::string_view delta_key_prefix = "ringload.delta";
inline constexpr std::string_view sparse_layout = "ringload_delta_sparse";
inline constexpr std::string_view dense_layout = "ringload_delta_dense";
inline constexpr std::string_view gaps_part = "gaps";
inline constexpr std::string_view planes_part = "planes";
inline constexpr std::string_view dtype_key = "dtype";

struct version_tensor {
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::uint32_t crc = 0;
};

// All tensors of one version, by name.
using version_tensors = std::map<std::string, version_tensor, std::less<>>;

// Returns a text such as "crc32c 9eba690a". The text is a digest of the names, dtypes, shapes and
// CRC-32C digests of all tensors. Equal versions have the same text.
std::string identity_of(const version_tensors& tensors);

// Returns the attributes that describe both versions in a delta file.
attributes describe_versions(const version_tensors& base, const version_tensors& next);

// Fails with errc::unsupported_feature unless both versions have the same composite objects. A
// delta describes only tensors, so a change of a composite object would be lost.
result<void> check_equal_composites(const catalog& base, const catalog& next);

// The change of one tensor, or the addition of a tensor.
struct tensor_change {
  // `xor_frame` and `overwrite_frame` are the two encodings of a compressed frame: see
  // byte_change.hpp.
  enum class form : std::uint8_t { sparse, dense, whole, xor_frame, overwrite_frame };

  bool is_frame() const noexcept {
    return kind == form::xor_frame || kind == form::overwrite_frame;
  }

  form kind = form::whole;
  // The dtype and the shape of the next version. Not used for a frame, which keeps the dtype and
  // the shape of the base version.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  // Names of tensors in the delta file. `gaps` is set only if `kind` is sparse. `values` is the
  // tensor with the planes, the frame, or the whole tensor.
  std::string gaps;
  std::string values;
  std::string result_digest;  // Used only for a frame. A text such as "adler32 0a1b2c3d".
};

struct delta_contents {
  // True if the delta has an index. `base_crcs`, `result_crcs` and `metadata` are then empty.
  bool is_indexed = false;
  std::string base_identity;
  std::string result_identity;
  std::map<std::string, std::uint32_t, std::less<>> base_crcs;
  std::map<std::string, std::uint32_t, std::less<>> result_crcs;
  std::map<std::string, tensor_change, std::less<>> changes;
  attributes metadata;  // Attributes of the next version.
};

// Returns true if the catalog describes a delta of any layout.
bool is_delta(const catalog& file) noexcept;

// Fails with errc::not_a_checkpoint at `place` if `base` is a delta. A delta has a subset of the
// tensors of a version, so nothing can begin with a delta.
result<void> check_full_version(const catalog& base, const std::string& place);

// Reads the description of a delta from the catalog of its file. Fails with errc::not_a_checkpoint
// if the file is not a delta, and with errc::unsupported_feature if its layout is unknown.
// Fails with errc::malformed_header or errc::malformed_checksum_list if the description is invalid.
result<delta_contents> read_contents(const catalog& file);

}  // namespace ringload::inline v0
