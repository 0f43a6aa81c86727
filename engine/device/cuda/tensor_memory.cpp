// SPDX-License-Identifier: Apache-2.0

// Implements the functions of ringload/cuda.hpp that access or release the memory of tensors.

#include <cuda_runtime_api.h>

#include <cassert>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <set>

#include "base/catch_as_fault.hpp"
#include "device/backend.hpp"
#include "device/cuda/cuda_arena.hpp"
#include "device/cuda/host_registration.hpp"
#include "device/cuda/runtime.hpp"
#include "device/pinned_models.hpp"

namespace ringload::inline v0 {

void copy_to_host(const tensor& source, std::uint64_t from, std::span<std::byte> into) {
  assert(source.device().kind() == device_kind::cuda);
  assert(from <= source.size_bytes() && into.size() <= source.size_bytes() - from);
  if (into.empty()) return;
  const device on = source.device();
  auto& memory = static_cast<cuda::cuda_arena&>(source.memory());
  boost::system::error_code failed;
  const auto copy = [&] {
    failed = memory.readers().copy(static_cast<const std::byte*>(source.data()) + from, into);
  };
  if (auto no_device = cuda::on_device(on.index(), copy)) failed = no_device;
  if (failed) throw error(failed, on.name() + ": copying to the host", {});
}

void release(const tensor& used) noexcept {
  assert(used.device().kind() == device_kind::cuda);
  static_cast<cuda::cuda_arena&>(used.memory()).release();
}

void release_after(const tensor& used, void* stream) {
  assert(used.device().kind() == device_kind::cuda);
  const device on = used.device();
  auto& memory = static_cast<cuda::cuda_arena&>(used.memory());
  boost::system::error_code failed;
  const auto record = [&] { failed = memory.add_use(static_cast<cudaStream_t>(stream)); };
  if (auto no_device = cuda::on_device(on.index(), record)) failed = no_device;
  if (!failed) return;
  memory.miss_use();
  throw error(failed, on.name() + ": recording an event", {});
}

std::uint64_t pin(const model& host_model, int index) {
  std::uint64_t pinned_bytes = 0;
  const auto work = [&]() -> result<void> {
    std::set<const arena*> seen;
    for (const tensor& each : host_model) {
      arena& memory = each.memory();
      mapping* const mapped = memory.host_mapping();
      if (mapped == nullptr || !seen.insert(&memory).second) continue;
      auto registered = cuda::register_mapping(index, *mapped, memory.read_only());
      if (!registered) return registered.error();
      note_pinned(memory);
      pinned_bytes += mapped->bytes();
    }
    return {};
  };
  result<void> outcome;
  const auto run = [&] { outcome = catch_as_fault(work); };
  const auto failed = cuda::on_device(index, run);
  if (!failed && !outcome) throw to_error(outcome.error().in("pinning the memory of a model"));
  if (failed) throw error(failed, "pinning the memory of a model", {});
  return pinned_bytes;
}

}  // namespace ringload::inline v0
