// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exports a tensor to other libraries without a copy, by DLPack: in its versioned form and in the
// older unversioned one.
//
// The types below have DLPack's layout under names of our own, so that this header does not need
// <dlpack/dlpack.h> and works beside any version of it. With that header, cast:
// reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack(t)).
//
// The tensor is loaded completely, so a consumer has no stream to wait for. It lets go of the last
// tensor of a load when no work on the device uses it any more, or calls release_after() of
// `ringload/cuda.hpp` before it does.

#include <cstdint>
#include <ringload/export.hpp>
#include <ringload/tensor.hpp>

namespace ringload::inline v0 {

namespace dlpack {

struct version {
  std::uint32_t major;
  std::uint32_t minor;
};

enum class device_type : std::int32_t { cpu = 1, cuda = 2 };

struct device {
  device_type type;
  std::int32_t id;
};

enum class type_code : std::uint8_t {
  signed_integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e4m3fnuz = 11,
  float8_e5m2 = 12,
  float8_e5m2fnuz = 13,
  float8_e8m0fnu = 14,
  float6_e2m3fn = 15,
  float6_e3m2fn = 16,
  float4_e2m1fn = 17,
};

struct data_type {
  type_code code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct tensor {
  void* data;  // Null for a tensor of 0 bytes, as DLPack asks.
  dlpack::device device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;    // Never null.
  std::int64_t* strides;  // Never null. In elements: row-major, without gaps.
  std::uint64_t byte_offset;
};

struct managed_tensor {
  dlpack::tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed_tensor* self);
};

/// In `flags`: the memory must not be written to.
inline constexpr std::uint64_t flag_read_only = 1;

struct managed_tensor_versioned {
  dlpack::version version;
  void* manager_ctx;
  void (*deleter)(managed_tensor_versioned* self);
  std::uint64_t flags;
  dlpack::tensor dl_tensor;
};

static_assert(sizeof(data_type) == 4 && sizeof(device) == 8);
static_assert(sizeof(void*) != 8 || (sizeof(tensor) == 48 && sizeof(managed_tensor) == 64 &&
                                     sizeof(managed_tensor_versioned) == 80));

/// DLPack's name for an element type. Types of less than a byte are packed.
RINGLOAD_EXPORT data_type type_of(dtype type) noexcept;

}  // namespace dlpack

/// The tensor as DLPack 1.1 describes it, with the strides that 1.2 asks for. Whoever ends up with
/// it calls its `deleter`, once, from any thread; until then the tensor's memory stays, whatever
/// becomes of model and loader. Throws `errc::size_overflow` where a dimension does not fit in 63
/// bits.
///
/// F4 is exported in pairs, 4 bits in 2 lanes and the last dimension halved: PyTorch's
/// float4_e2m1fn_x2, the one form that it takes. (JAX 0.10 on a processor takes F4 in neither
/// form.) Where the last dimension is odd, elements are exported singly, in 1 lane.
RINGLOAD_EXPORT dlpack::managed_tensor_versioned* to_dlpack(const tensor& from);

/// The same for consumers that know DLPack 0.x only. They may not know the types of less than 16
/// bits, and it has no way to say that a tensor is read-only.
RINGLOAD_EXPORT dlpack::managed_tensor* to_legacy_dlpack(const tensor& from);

}  // namespace ringload::inline v0
