// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exports tensors to other libraries without a copy, with DLPack. DLPack 1.x (the versioned form)
// and DLPack 0.x (the unversioned form) are supported.
//
// The types below have the same memory layout as the types of DLPack, but other names. Therefore
// this header does not need <dlpack/dlpack.h>, and can be used together with any version of that
// header. To convert a pointer, use reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack(t)).
//
// An exported tensor is completely loaded, so the consumer need not wait for a CUDA stream. Before
// the last tensor of a load is destroyed, all device work that uses the memory of the load must
// have completed. Only work that was declared with release_after() of `ringload/cuda.hpp` may still
// run.

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
  void* data;  // The address of the elements. Null for a tensor of 0 bytes, as DLPack requires.
  dlpack::device device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;    // Never null.
  std::int64_t* strides;  // The row-major strides in elements. Never null.
  std::uint64_t byte_offset;
};

struct managed_tensor {
  dlpack::tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed_tensor* self);
};

/// A bit of `flags`. If the bit is set, a program must not write to the memory.
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

/// Returns the DLPack type of the dtype `type`. Elements of less than 8 bits are packed.
RINGLOAD_EXPORT data_type type_of(dtype type) noexcept;

}  // namespace dlpack

/// Exports a tensor as DLPack 1.1, with the strides that DLPack 1.2 requires. The consumer must
/// call `deleter` once, from any thread. The memory of the tensor stays valid until that call, even
/// if the model and the loader are destroyed. Throws `errc::size_overflow` if a dimension does not
/// fit in 63 bits.
///
/// Two elements of F4 are exported as one element of 4 bits with 2 lanes, and the last dimension is
/// halved. This type is PyTorch's float4_e2m1fn_x2, which is the only form of F4 that PyTorch
/// accepts. If the last dimension is odd, each element is exported with 1 lane. JAX 0.10 on a CPU
/// accepts neither form.
RINGLOAD_EXPORT dlpack::managed_tensor_versioned* to_dlpack(const tensor& exported);

/// Exports a tensor for consumers that support DLPack 0.x only. DLPack 0.x has no floating-point
/// types of less than 16 bits. Therefore a consumer may refuse a tensor of these types. The
/// unversioned form has no flag for read-only memory.
RINGLOAD_EXPORT dlpack::managed_tensor* to_legacy_dlpack(const tensor& exported);

}  // namespace ringload::inline v0
