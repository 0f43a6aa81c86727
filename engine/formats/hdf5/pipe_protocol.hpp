// SPDX-License-Identifier: Apache-2.0
#pragma once

// The answer of a process that parsed an HDF5 file: the contents or a fault. A hostile file may
// have taken over that process, so every number is checked against the following bytes before
// memory is allocated for it.
//
//   "ringload hdf5 1\n" | bytes of the rest, 8 | 1: contents, 0: a fault | ...
//
// Numbers are little-endian with 8 bytes; texts and lists begin with their length.

#include <cstddef>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

inline constexpr std::size_t message_bytes_max = std::size_t{512} << 20;

std::string encode_message(const result<hdf5_contents>& from);

// Returns faults of the other process, or errc::malformed_header if the message is malformed.
result<hdf5_contents> decode_message(std::span<const std::byte> message);

// Returns true if the message is complete. Checked before the exit status of the process.
bool is_whole_message(std::span<const std::byte> message) noexcept;

}  // namespace ringload::inline v0::h5
