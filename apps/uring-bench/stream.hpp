// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads without a format: moves the bytes of files to the memory of a device, with the ring of the
// engine and the copies of the device, but without parsing, planning and scheduling. Can also run
// only the reads or only the copies.

#include <cstdint>
#include <ringload/device.hpp>
#include <ringload/options.hpp>

#include "target.hpp"

namespace ringload::bench {

enum class half : std::uint8_t {
  // Slots are filled once and copied repeatedly. For the host, nothing is copied, so the measured
  // work is to populate the memory.
  copies,
  // Each block is read and then copied. For the host, each block is read into its final memory.
  both,
};

/// Returns the seconds from the allocation of the device memory to the last byte. Throws
/// `ringload::error`.
double stream(const target& source, const device& load_device, const loader_options& options,
              half part);

}  // namespace ringload::bench
