// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the .zt format of zTensor, versions 1.2, 1.1 and 0.1. A file has the stored bytes of each
// component (a blob) at a multiple of 64. A CBOR manifest and the size of the manifest follow.
// Versions 1.0 and 2.x are refused with an error that states the version.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string_view>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"
#include "formats/zt/zt_index.hpp"

namespace ringload::inline v0 {

// Each dense object becomes a tensor. The components of other objects become tensors with the name
// "object/component". parse_zt() does not read the indices of sparse objects. An object that cannot
// be read is added to file_entries::unreadable. The other objects are still read. A fault has the
// tensor and the file offset of the error in the manifest. The caller must add the name of the
// file.
result<file_entries> parse_zt(input& from, strictness strictness);

// Checks that strict reading accepts a new file of `file_bytes` bytes. `tail` is the result of
// zt_tail(), and follows the blobs of the file.
result<void> check_zt_tail(std::string_view tail, std::uint64_t file_bytes);

// Returns the manifest, for writers that copy objects to another file. Fails if parse_zt() fails
// with `strictness::strict`.
result<zt_index> read_zt_index(input& from);

}  // namespace ringload::inline v0
