// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/torch_names.hpp"

#include <algorithm>
#include <array>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

struct role_row {
  std::string_view module;
  std::string_view name;
  torch_role role;
};

constexpr std::string_view utils = "torch._utils";

// The names above the blank line do not build tensors, but PyTorch's loader with weights_only=True
// accepts these names.
constexpr std::array<role_row, 35> roles = {{
    {"collections", "OrderedDict", torch_role::plain},
    {"collections", "Counter", torch_role::container},
    {"_codecs", "encode", torch_role::plain},
    {"builtins", "set", torch_role::container},
    {"builtins", "bytearray", torch_role::plain},
    {"builtins", "complex", torch_role::plain},
    {"__builtin__", "set", torch_role::container},
    {"__builtin__", "bytearray", torch_role::plain},
    {"__builtin__", "complex", torch_role::plain},
    {"torch", "device", torch_role::plain},
    {"torch", "per_tensor_affine", torch_role::plain},
    {"torch", "per_tensor_symmetric", torch_role::plain},
    {"torch", "per_channel_affine", torch_role::plain},
    {"torch", "per_channel_symmetric", torch_role::plain},
    {"torch", "per_channel_affine_float_qparams", torch_role::plain},
    {"torch", "Size", torch_role::size},
    {"torch.serialization", "_get_layout", torch_role::layout},
    {"torch.storage", "TypedStorage", torch_role::unsupported},

    {"torch", "Tensor", torch_role::tensor_class},
    {"torch.nn.parameter", "Parameter", torch_role::tensor_class},
    {"torch.nn.parameter", "Buffer", torch_role::tensor_class},
    {utils, "_rebuild_tensor", torch_role::rebuild},
    {utils, "_rebuild_tensor_v2", torch_role::rebuild},
    {utils, "_rebuild_tensor_v3", torch_role::rebuild_typed},
    {utils, "_rebuild_parameter", torch_role::parameter},
    {utils, "_rebuild_parameter_with_state", torch_role::parameter},
    {"torch._tensor", "_rebuild_from_type_v2", torch_role::from_type},
    {utils, "_rebuild_sparse_tensor", torch_role::sparse},
    {utils, "_rebuild_sparse_csr_tensor", torch_role::sparse},  // PyTorch 1.9 to 1.13.
    {utils, "_rebuild_device_tensor_from_cpu_tensor", torch_role::device_tensor},
    {utils, "_rebuild_qtensor", torch_role::unsupported},
    {utils, "_rebuild_nested_tensor", torch_role::unsupported},
    {utils, "_rebuild_wrapper_subclass", torch_role::unsupported},
    {utils, "_rebuild_meta_tensor_no_storage", torch_role::unsupported},
    {utils, "_rebuild_device_tensor_from_numpy", torch_role::unsupported},
}};

struct kind_row {
  std::string_view name;
  std::string_view kind;
};

constexpr std::array<kind_row, 5> unsupported_kinds = {{
    {"_rebuild_qtensor", "a quantised tensor"},
    {"_rebuild_nested_tensor", "a nested tensor"},
    {"_rebuild_wrapper_subclass", "a tensor subclass that wraps another tensor"},
    {"_rebuild_meta_tensor_no_storage", "a tensor on the device 'meta', which has no elements"},
    {"_rebuild_device_tensor_from_numpy", "a tensor kept as a NumPy array inside the pickle"},
}};

struct element_row {
  std::string_view name;
  std::uint8_t bytes;
  std::optional<dtype> type;
};

constexpr std::array<element_row, 13> storage_classes = {{
    {"DoubleStorage", 8, dtype::f64},
    {"FloatStorage", 4, dtype::f32},
    {"HalfStorage", 2, dtype::f16},
    {"BFloat16Storage", 2, dtype::bf16},
    {"LongStorage", 8, dtype::i64},
    {"IntStorage", 4, dtype::i32},
    {"ShortStorage", 2, dtype::i16},
    {"CharStorage", 1, dtype::i8},
    {"ByteStorage", 1, dtype::u8},
    {"BoolStorage", 1, dtype::boolean},
    {"ComplexFloatStorage", 8, dtype::c64},
    {"ComplexDoubleStorage", 16, dtype::c128},
    {"UntypedStorage", 1, std::nullopt},
}};

constexpr std::array<element_row, 5> quantised_storages = {{
    {"QInt8Storage", 1, std::nullopt},
    {"QUInt8Storage", 1, std::nullopt},
    {"QInt32Storage", 4, std::nullopt},
    {"QUInt4x2Storage", 1, std::nullopt},
    {"QUInt2x4Storage", 1, std::nullopt},
}};

constexpr std::array<element_row, 23> torch_dtypes = {{
    {"float64", 8, dtype::f64},
    {"float32", 4, dtype::f32},
    {"float16", 2, dtype::f16},
    {"bfloat16", 2, dtype::bf16},
    {"float8_e4m3fn", 1, dtype::f8_e4m3fn},
    {"float8_e5m2", 1, dtype::f8_e5m2},
    {"float8_e4m3fnuz", 1, dtype::f8_e4m3fnuz},
    {"float8_e5m2fnuz", 1, dtype::f8_e5m2fnuz},
    {"float8_e8m0fnu", 1, dtype::f8_e8m0},
    {"float4_e2m1fn_x2", 1, dtype::f4},
    {"int64", 8, dtype::i64},
    {"int32", 4, dtype::i32},
    {"int16", 2, dtype::i16},
    {"int8", 1, dtype::i8},
    {"uint64", 8, dtype::u64},
    {"uint32", 4, dtype::u32},
    {"uint16", 2, dtype::u16},
    {"uint8", 1, dtype::u8},
    {"bool", 1, dtype::boolean},
    {"complex64", 8, dtype::c64},
    {"complex128", 16, dtype::c128},
    {"complex32", 4, std::nullopt},
    {"bcomplex32", 4, std::nullopt},
}};

// Dtypes that a checkpoint may contain as values. Tensors of these dtypes are not supported.
constexpr std::array<std::string_view, 24> other_dtypes = {
    "qint8", "quint8", "qint32", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2",
    "bits8", "bits16", "int1",   "int2",     "int3",     "int4",    "int5",    "int6",
    "int7",  "uint1",  "uint2",  "uint3",    "uint4",    "uint5",   "uint6",   "uint7"};

bool is_other_dtype(const pickle_global& global) noexcept {
  return global.module == "torch" &&
         std::ranges::find(other_dtypes, global.name) != other_dtypes.end();
}

template <class Rows>
const element_row* row_of(const Rows& rows, std::string_view name) noexcept {
  const auto row = std::ranges::find(rows, name, &element_row::name);
  return row == rows.end() ? nullptr : &*row;
}

// Returns true for the modules of torch.FloatStorage, torch.cuda.FloatStorage and
// torch.storage.UntypedStorage.
bool is_of_storages(std::string_view module) noexcept {
  return module == "torch" || module == "torch.cuda" || module == "torch.storage";
}

// Returns true for classes such as torch.FloatTensor and torch.cuda.sparse.FloatTensor. Checkpoints
// contain these classes only as values.
bool is_tensor_type(const pickle_global& global) noexcept {
  return global.name.ends_with("Tensor") &&
         (global.module == "torch" || global.module == "torch.cuda" ||
          global.module == "torch.sparse" || global.module == "torch.cuda.sparse");
}

}  // namespace

torch_role role_of(const pickle_global& global) noexcept {
  for (const role_row& row : roles) {
    if (global.is_named(row.module, row.name)) return row.role;
  }
  if (global.module == "torch" && row_of(torch_dtypes, global.name) != nullptr)
    return torch_role::dtype;
  if (is_other_dtype(global)) return torch_role::dtype;
  if (is_of_storages(global.module) && (row_of(storage_classes, global.name) != nullptr ||
                                        row_of(quantised_storages, global.name) != nullptr)) {
    return torch_role::storage;
  }
  return is_tensor_type(global) ? torch_role::unsupported : torch_role::unknown;
}

std::string_view kind_of_unsupported(const pickle_global& global) noexcept {
  const auto found = std::ranges::find(unsupported_kinds, global.name, &kind_row::name);
  return found == unsupported_kinds.end() ? std::string_view("a tensor of an unknown kind")
                                          : found->kind;
}

std::optional<torch_element> element_of(const pickle_global& global) noexcept {
  if (is_other_dtype(global)) return torch_element{};
  const element_row* row = nullptr;
  if (global.module == "torch") row = row_of(torch_dtypes, global.name);
  if (row == nullptr && is_of_storages(global.module)) row = row_of(storage_classes, global.name);
  if (row == nullptr && is_of_storages(global.module))
    row = row_of(quantised_storages, global.name);
  if (row == nullptr) return std::nullopt;
  return torch_element{.bytes = row->bytes,
                       .dtype = row->type,
                       .is_untyped_storage = row->name == "UntypedStorage",
                       .is_f4_pair = row->type == dtype::f4};
}

std::string full_name(const pickle_global& global) {
  return printable(std::string(global.module) + "." + std::string(global.name));
}

}  // namespace ringload::inline v0
