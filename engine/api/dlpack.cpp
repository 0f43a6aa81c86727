// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <limits>
#include <memory>
#include <ringload/dlpack.hpp>
#include <ringload/error.hpp>
#include <vector>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

// The exported object. The object owns the arrays that its DLPack tensor refers to, and keeps the
// source tensor alive. The consumer destroys the object by calling the deleter.
template <class Managed>
struct exported {
  explicit exported(const tensor& source) : owner(source) {}

  Managed managed = {};
  const tensor owner;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

// Computes row-major strides: each stride is the product of the later dimensions. If a tensor has
// no elements, the product may overflow, so the function uses unsigned integers. The strides of a
// tensor without elements are never used.
void set_strides(std::vector<std::int64_t>& strides, const std::vector<std::int64_t>& shape) {
  strides.resize(shape.size());
  std::uint64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[d]);
  }
}

dlpack::device device_of(const tensor& source) {
  const device on = source.device();
  const bool cuda = on.kind() == device_kind::cuda;
  return {cuda ? dlpack::device_type::cuda : dlpack::device_type::cpu, on.index()};
}

template <class Managed>
std::unique_ptr<exported<Managed>> make(const tensor& source) {
  auto holder = std::make_unique<exported<Managed>>(source);
  for (const std::uint64_t d : source.shape()) {
    if (d > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw error(errc::size_overflow, tensor_place(source.name()),
                  "a dimension does not fit in DLPack's 63 bits");
    }
    holder->shape.push_back(static_cast<std::int64_t>(d));
  }
  dlpack::data_type type = dlpack::type_of(source.dtype());
  if (source.dtype() == dtype::f4 && !holder->shape.empty() && holder->shape.back() % 2 == 0) {
    type.lanes = 2;  // Two elements are exported as one item: see to_dlpack().
    holder->shape.back() /= 2;
  }
  set_strides(holder->strides, holder->shape);
  // Reserves memory for the two arrays even if the tensor is a scalar, because some consumers
  // reject null pointers.
  const auto ndim = static_cast<std::int32_t>(holder->shape.size());
  holder->shape.reserve(1);
  holder->strides.reserve(1);

  holder->managed.dl_tensor = {
      .data = source.size_bytes() > 0 ? source.data() : nullptr,
      .device = device_of(source),
      .ndim = ndim,
      .dtype = type,
      .shape = holder->shape.data(),
      .strides = holder->strides.data(),
      .byte_offset = 0,
  };
  holder->managed.manager_ctx = holder.get();
  holder->managed.deleter = [](Managed* self) {
    delete static_cast<exported<Managed>*>(self->manager_ctx);
  };
  return holder;
}

}  // namespace

dlpack::data_type dlpack::type_of(dtype type) noexcept {
  type_code code = type_code::unsigned_integer;
  switch (type) {
    case dtype::boolean: code = type_code::boolean; break;
    case dtype::f4: code = type_code::float4_e2m1fn; break;
    case dtype::f6_e2m3: code = type_code::float6_e2m3fn; break;
    case dtype::f6_e3m2: code = type_code::float6_e3m2fn; break;
    case dtype::f8_e5m2: code = type_code::float8_e5m2; break;
    case dtype::f8_e4m3fn: code = type_code::float8_e4m3fn; break;
    case dtype::f8_e8m0: code = type_code::float8_e8m0fnu; break;
    case dtype::f8_e4m3fnuz: code = type_code::float8_e4m3fnuz; break;
    case dtype::f8_e5m2fnuz: code = type_code::float8_e5m2fnuz; break;
    case dtype::u8:
    case dtype::u16:
    case dtype::u32:
    case dtype::u64: code = type_code::unsigned_integer; break;
    case dtype::i8:
    case dtype::i16:
    case dtype::i32:
    case dtype::i64: code = type_code::signed_integer; break;
    case dtype::f16:
    case dtype::f32:
    case dtype::f64: code = type_code::floating; break;
    case dtype::bf16: code = type_code::bfloat; break;
    case dtype::c64:
    case dtype::c128: code = type_code::complex; break;
  }
  return {code, static_cast<std::uint8_t>(bits(type)), 1};
}

dlpack::managed_tensor_versioned* to_dlpack(const tensor& source) {
  auto holder = make<dlpack::managed_tensor_versioned>(source);
  holder->managed.version = {1, 1};
  if (source.read_only()) holder->managed.flags |= dlpack::flag_read_only;
  return &holder.release()->managed;
}

dlpack::managed_tensor* to_legacy_dlpack(const tensor& source) {
  return &make<dlpack::managed_tensor>(source).release()->managed;
}

}  // namespace ringload::inline v0
