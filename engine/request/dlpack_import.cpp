// SPDX-License-Identifier: Apache-2.0

#include "request/dlpack_import.hpp"

#include <cstdint>
#include <optional>
#include <ringload/error.hpp>
#include <utility>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

// The dtype that corresponds to a DLPack type. PyTorch stores two 4-bit elements in one byte, and
// declares the two elements as one item with 2 lanes. In this case, the last dimension counts
// items, and `per_item` is 2.
struct element {
  dtype type;
  std::uint64_t per_item = 1;
};

std::optional<element> element_of(dlpack::data_type from_type) noexcept {
  for (unsigned i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    const dlpack::data_type known = dlpack::type_of(type);
    if (known.code != from_type.code || known.bits != from_type.bits) continue;
    if (from_type.lanes == 1) return element{type, 1};
    if (from_type.lanes == 8 / bits(type) && bits(type) < 8) return element{type, from_type.lanes};
  }
  return std::nullopt;
}

std::string expected_devices(const device& cuda) {
  return cuda.kind() == device_kind::cuda ? "host memory or " + cuda.name() : "host memory";
}

// Converts a DLPack tensor of either version. `owner` calls the deleter of the tensor.
imported_tensor described(const dlpack::tensor& from, std::shared_ptr<void> owner,
                          const device& cuda, const std::string& place, errc malformed) {
  const auto element_type = element_of(from.dtype);
  if (!element_type) {
    throw error(errc::unsupported_dtype, place,
                "unsupported element type: DLPack code " +
                    std::to_string(static_cast<int>(from.dtype.code)) + " with " +
                    std::to_string(from.dtype.bits) + " bits and " +
                    std::to_string(from.dtype.lanes) + " lanes");
  }
  // In DLPack, device type 3 is host memory that CUDA has pinned.
  const auto kind = static_cast<std::int32_t>(from.device.type);
  const bool on_host = kind == static_cast<std::int32_t>(dlpack::device_type::cpu) || kind == 3;
  const bool on_cuda = from.device.type == dlpack::device_type::cuda &&
                       cuda.kind() == device_kind::cuda && cuda.index() == from.device.id;
  if (!on_host && !on_cuda) {
    throw error(errc::device_unavailable, place,
                "its memory is on DLPack device " + std::to_string(kind) + ":" +
                    std::to_string(from.device.id) + ", expected " + expected_devices(cuda));
  }
  if (from.ndim < 0) {
    throw error(
        malformed, place,
        "its number of dimensions is " + std::to_string(from.ndim) + ", expected at least 0");
  }
  if (from.ndim > 0 && from.shape == nullptr) {
    throw error(malformed, place,
                "its shape is null, expected " + std::to_string(from.ndim) + " dimensions");
  }
  imported_tensor out;
  out.data = static_cast<std::byte*>(from.data) + from.byte_offset;
  if (from.data == nullptr) out.data = nullptr;
  out.dtype = element_type->type;
  if (on_cuda) out.on = cuda;
  for (std::int32_t d = 0; d < from.ndim; ++d) {
    if (from.shape[d] < 0) {
      throw error(malformed, place, "its shape has a negative dimension");
    }
    out.shape.push_back(static_cast<std::uint64_t>(from.shape[d]));
    if (from.strides != nullptr) out.strides.push_back(from.strides[d]);
  }
  if (element_type->per_item > 1 && !out.shape.empty()) {
    const auto elements = checked_multiply(out.shape.back(), element_type->per_item);
    if (!elements) throw error(malformed, place, "its shape does not fit in 64 bits");
    out.shape.back() = *elements;
  }
  // Removes the strides of a dense row-major tensor. This is necessary for elements of less than a
  // byte, because destinations of these types must not have strides.
  std::uint64_t dense = 1;  // The value may wrap around, because the size is checked later.
  bool row_major = true;
  for (std::int32_t d = from.ndim; d-- > 0 && from.strides != nullptr;) {
    row_major =
        row_major && (from.shape[d] == 1 || static_cast<std::uint64_t>(from.strides[d]) == dense);
    dense *= static_cast<std::uint64_t>(from.shape[d]);
  }
  if (row_major) out.strides.clear();
  out.owner = std::move(owner);
  return out;
}

template <class Managed>
std::shared_ptr<Managed> owned(Managed* from) {
  return {from, [](Managed* managed) {
            if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
          }};
}

}  // namespace

imported_tensor import_dlpack(dlpack::managed_tensor_versioned* from, const device& cuda,
                              const std::string& place, errc malformed) {
  // If the major version is unknown, only the members version, manager_ctx and deleter may be used.
  const auto owner = owned(from);
  if (from->version.major > 1) {
    throw error(malformed, place, "its DLPack version is newer than 1.x");
  }
  imported_tensor out = described(from->dl_tensor, owner, cuda, place, malformed);
  constexpr std::uint64_t read_only = 1;
  out.read_only = (from->flags & read_only) != 0;
  return out;
}

imported_tensor import_dlpack(dlpack::managed_tensor* from, const device& cuda,
                              const std::string& place, errc malformed) {
  return described(from->dl_tensor, owned(from), cuda, place, malformed);
}

}  // namespace ringload::inline v0
