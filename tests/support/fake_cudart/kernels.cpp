// SPDX-License-Identifier: Apache-2.0

// What stands in for the kernels: the same conversions, carried out by the stand-in's device.

#include "device/cuda/kernels.hpp"

#include <cstdint>

#include "support/fake_cudart/fake_cudart.hpp"
#include "support/fake_cudart/runtime.hpp"

namespace ringload::inline v0::cuda {

using namespace ringload::testing::fake_cudart;

cudaError_t launch_conversions(const conversion_batch& batch, conversion how, cudaStream_t on) {
  const call now("launch_conversions");
  if (now.failed()) return now.says();
  if (!now.may_use(on) || batch.count == 0 || batch.count > conversion_batch::pieces_max ||
      !how.needed()) {
    return now.says(cudaErrorInvalidValue);
  }
  // Within a kernel there is no order.
  for (unsigned i = batch.count; i-- > 0;) {
    const conversion_piece& piece = batch.pieces[i];
    const auto there = reinterpret_cast<std::uintptr_t>(piece.from);
    work w;
    w.to = static_cast<std::byte*>(piece.to);
    w.from = reinterpret_cast<const std::byte*>(there - mapped_at);
    w.bytes = piece.elements * how.from_bytes();
    w.as = how;
    if (there < mapped_at || !the().device.is_pinned(w.from, w.bytes)) {
      now.complain("the source is not pinned memory by the device's address");
      return now.says(cudaErrorInvalidValue);
    }
    if (piece.elements == 0 || reinterpret_cast<std::uintptr_t>(piece.to) % how.to_bytes() != 0 ||
        !the().device.behind(w.to, w.bytes_written(), current_device)) {
      now.complain("the target is not aligned memory of this device");
      return now.says(cudaErrorInvalidValue);
    }
    on->state->held.push_back(std::move(w));
  }
  return now.says();
}

}  // namespace ringload::inline v0::cuda
