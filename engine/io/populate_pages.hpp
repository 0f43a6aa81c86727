// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringload::inline v0 {

// A byte_supply for tensors that are mapped instead of read: makes the pages of `into` present.
// `into` must be a mapping of the file that begins at `file_offset`. Returns fewer bytes if the
// file was truncated.
std::int64_t populate_pages(int fd, std::uint64_t file_offset, std::span<std::byte> into,
                            boost::system::error_code& problem) noexcept;

}  // namespace ringload::inline v0
