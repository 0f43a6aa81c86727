// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the .zt format of zTensor, versions 1.2, 1.1 and 0.1. A blob, the stored bytes of one
// component, begins at a multiple of 64 bytes. After the blobs, a file has a CBOR manifest and the
// size of the manifest. Versions 1.0 and 2.x are refused with an error that states the version.

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
// be read is added to file_entries::unreadable. The other objects are still read. A fault states
// the tensor and the file offset of the error in the manifest. The caller must add the name of the
// file.
result<file_entries> parse_zt(input& from, strictness strictness);

// Checks that strict reading will accept a new file of `file_bytes` bytes that ends with `tail`,
// the result of zt_tail(). Does not check the contents of the blobs.
result<void> check_zt_tail(std::string_view tail, std::uint64_t file_bytes);

// Returns the manifest, for writers that copy objects to another file. Fails if parse_zt() fails
// with `strictness::strict`.
result<zt_index> read_zt_index(input& from);

}  // namespace ringload::inline v0
