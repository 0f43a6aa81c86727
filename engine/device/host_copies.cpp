// SPDX-License-Identifier: Apache-2.0

#include "device/host_copies.hpp"

#include <cstring>

#include "base/numeric/convert.hpp"
#include "base/numeric/strided_copy.hpp"

namespace ringload::inline v0 {

void run_copies(const copy_operation& op) noexcept {
  for (const copy_op& c : op.copies) {
    const std::byte* const from = op.slot + c.slot_offset;
    std::byte* const to = op.destination(c);
    if (c.map != no_index) {
      copy_strided(op.maps[c.map], {from, c.bytes}, c.source_offset, to);
    } else if (c.cast.needed()) {
      convert(from, to, c.bytes / c.cast.from_bytes(), c.cast);
    } else {
      std::memcpy(to, from, c.bytes);
    }
  }
}

}  // namespace ringload::inline v0
