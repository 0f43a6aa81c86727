// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides how much of the available memory is used for slots (I/O buffers), for windows and for the
// page cache. Pure functions. `available` is the result of available_bytes(), for example the
// unused part of a control group's limit. An empty optional means no limit.

#include <cstdint>
#include <optional>
#include <ringload/options.hpp>

namespace ringload::inline v0::detail {

// Reduces the number of slots so that the slots occupy at most 1/8 of the available memory. At
// least two slots remain, so that one slot can be read into while the other slot is copied.
//
//   available   slots of 4 MiB (16 requested)
//   1 GiB       16
//   256 MiB      8
//   16 MiB       2
loader_options limit_slots(loader_options options, std::optional<std::uint64_t> available) noexcept;

// Limits the size of a window (the memory for a part of the tensors of a load) to 3/4 of the
// available memory. The remaining quarter is left for slots, headers and the program.
std::uint64_t limit_window(std::uint64_t window_bytes,
                           std::optional<std::uint64_t> available) noexcept;

// Returns true if the files fit into the page cache while the tensors occupy `arena_bytes`. If the
// files do not fit, reads through the page cache evict other pages, possibly of the same load.
bool page_cache_has_room(std::uint64_t file_bytes, std::uint64_t arena_bytes,
                         std::optional<std::uint64_t> available) noexcept;

}  // namespace ringload::inline v0::detail
