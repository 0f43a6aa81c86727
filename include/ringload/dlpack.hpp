// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exports a tensor to other libraries without a copy, with DLPack: in the versioned form and in the
// older unversioned form.
//
// The types below have DLPack's layout under ringload names, so this header does not need
// <dlpack/dlpack.h> and works beside any version of it. With that header, cast:
// reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack(t)).
//
// The tensor is loaded completely, so a consumer need not wait for a stream. The consumer must drop
// the last tensor of a load only when no work on the device uses it, or must call release_after()
// of `ringload/cuda.hpp` before.

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
  void* data;  // Null for a tensor of 0 bytes, as DLPack requires.
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

/// Flag for `flags`: the memory must not be written to.
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

/// Returns DLPack's type for an element type. Types of less than a byte are packed.
RINGLOAD_EXPORT data_type type_of(dtype type) noexcept;

}  // namespace dlpack

/// Returns the tensor in the form of DLPack 1.1, with the strides that 1.2 requires. The consumer
/// calls its `deleter` once, from any thread. Until then the tensor's memory stays valid, even if
/// model and loader are destroyed. Throws `errc::size_overflow` if a dimension does not fit in 63
/// bits.
///
/// F4 is exported in pairs, as 4 bits in 2 lanes with half of the last dimension. This is PyTorch's
/// float4_e2m1fn_x2, the only form that PyTorch accepts. (JAX 0.10 on a CPU accepts neither form of
/// F4.) If the last dimension is odd, elements are exported singly, in 1 lane.
RINGLOAD_EXPORT dlpack::managed_tensor_versioned* to_dlpack(const tensor& from);

/// Returns the tensor for consumers that only support DLPack 0.x. Such consumers may not support
/// types of less than 16 bits. The unversioned form cannot mark a tensor as read-only.
RINGLOAD_EXPORT dlpack::managed_tensor* to_legacy_dlpack(const tensor& from);

}  // namespace ringload::inline v0
