// SPDX-License-Identifier: Apache-2.0
#pragma once

// Connects two devices, so that one device copies from the memory of the other.

#include <ringload/allocation_log.hpp>

namespace ringload::inline v0::cuda {

// Lets device `index` read memory of device `peer`, and tests the connection with 64 KiB. The test
// is necessary, because on some machines with an IOMMU, the driver allows the access, but copies
// deliver wrong bytes or never end. Returns true if the test succeeded. If a test does not end, the
// connection is not tested again in this process.
//
// The access is never revoked, because other code may need the access. Selects device `index` for
// the calling thread, which must belong to the library. `log` records the memory of the test.
bool reaches(int index, int peer, const allocation_log& log) noexcept;

}  // namespace ringload::inline v0::cuda
