// SPDX-License-Identifier: Apache-2.0
#pragma once

// The message of a process that parsed an HDF5 file. The message has the contents of the file, or a
// fault. A malicious file may control that process. Therefore the number of items is compared with
// the number of received bytes before memory is allocated for the items.
//
//  "ringload hdf5 1\n" | size of the rest in bytes | 1 or 0 | contents (after 1) or fault (after 0)
//
// Every number is little-endian and has 8 bytes. Each text and list begins with its length.

#include <cstddef>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

inline constexpr std::size_t message_bytes_max = std::size_t{512} << 20;

std::string encode_message(const result<hdf5_contents>& from);

// If the other process sent a fault, returns that fault. If the message is malformed, returns
// errc::malformed_header.
result<hdf5_contents> decode_message(std::span<const std::byte> message);

// Returns true if `message` has the prefix and all bytes after the prefix. In this case, the caller
// must ignore the exit status, because the caller may have killed the process after the message.
bool is_whole_message(std::span<const std::byte> message) noexcept;

}  // namespace ringload::inline v0::h5
