// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a process that parsed an HDF5 file says to the one that asked: what is in the file, or why
// not. The message may come from a process that a hostile file has taken over, so every number in
// it is checked against the bytes that follow before anything is allocated for it.
//
//   "ringload hdf5 1\n" | bytes of the rest, 8 | 1: contents, 0: a fault | ...
//
// Numbers are little-endian, of 8 bytes; texts and lists begin with their length.

#include <cstddef>
#include <span>
#include <string>

#include "core/fault.hpp"
#include "formats/hdf5.hpp"

namespace ringload::inline v0::h5 {

inline constexpr std::size_t message_bytes_max = std::size_t{512} << 20;

std::string encode_message(const result<hdf5_contents>& from);

// Faults of the other process, or errc::malformed_header where the message is none.
result<hdf5_contents> decode_message(std::span<const std::byte> message);

// Whether it is there to its end. Looked at before the process is asked how it ended.
bool is_whole_message(std::span<const std::byte> message) noexcept;

}  // namespace ringload::inline v0::h5
