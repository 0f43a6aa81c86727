// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the options of an engine: the caller's options, and defaults for its devices and for the
// available memory.

#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/options.hpp>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// Fails if a chosen option has an invalid value.
result<void> check_options(const loader_options& options);

// Chooses the default options for a GPU if any target is a GPU, because these options are also
// sufficient for the host. Some defaults depend on the number of different GPUs in `targets`.
loader_options options_for(const loader_options& options, const std::vector<device>& targets);

// Returns the maximum number of slots. A loader for the host may use additional slots for a mount
// that is limited by its latency. The result is `chosen.slots` if the caller has set `slots` or
// `bytes_in_flight`, or has requested reserved huge pages, which are scarce.
std::uint32_t slots_max_for(const loader_options& requested, const loader_options& chosen,
                            const std::vector<device>& targets);

// Returns the number of additional slots for second reads: an eighth of `slots_max`. A second read
// repeats a read that is late. Few slots are enough, and a slow mount must not receive each read
// twice. The result is 0 with reserved huge pages, which are scarce.
std::uint32_t spare_slots_for(const loader_options& chosen, std::uint32_t slots_max);

}  // namespace ringload::inline v0::detail
