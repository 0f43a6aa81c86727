// SPDX-License-Identifier: Apache-2.0
#pragma once

// A load without a format: the bytes of files into the memory of a device, with the engine's own
// ring and the device's own copies, and nothing that parses, plans or schedules. Or one half of
// that alone.

#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/options.hpp>

#include "target.hpp"

namespace ringload::bench {

enum class half : std::uint8_t {
  copies,  // Slots, filled once, are copied again and again. Into the host nothing is copied, so
           // what is measured is making its memory present.
  both,    // Each block is read, and then copied; into the host it is read where it stays.
};

/// Seconds from before the device's memory is taken to the last byte. Throws `ringload::error`.
double stream(const target& of, const device& to, const loader_options& within, half which);

}  // namespace ringload::bench
