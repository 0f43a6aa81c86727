// SPDX-License-Identifier: Apache-2.0
#pragma once

// The pages of a mapped file, as something that is brought.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringload::inline v0 {

// Makes the pages of `into` present, which is mapped from the file's `file_offset` on: a
// byte_supply. Where the file has become shorter, there are fewer.
std::int64_t supply_pages(int fd, std::uint64_t file_offset, std::span<std::byte> into,
                          boost::system::error_code& why) noexcept;

}  // namespace ringload::inline v0
