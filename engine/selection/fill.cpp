// SPDX-License-Identifier: Apache-2.0

// Destinations, described by the caller or by DLPack.

#include <cstdint>
#include <optional>
#include <ringload/fill.hpp>
#include <utility>

#include "core/fault.hpp"
#include "formats/printable.hpp"

namespace ringload::inline v0 {

destination::destination() = default;
destination::destination(std::string n, void* d, ringload::dtype t, std::vector<std::uint64_t> s,
                         ringload::device o)
    : name(std::move(n)), data(d), dtype(t), shape(std::move(s)), on(o) {}
destination::destination(const destination& other) = default;
destination::destination(destination&& other) noexcept = default;
destination& destination::operator=(const destination& other) = default;
destination& destination::operator=(destination&& other) noexcept = default;
destination::~destination() = default;

fill_policies::fill_policies() = default;
fill_policies::fill_policies(const fill_policies& other) = default;
fill_policies::fill_policies(fill_policies&& other) noexcept = default;
fill_policies& fill_policies::operator=(const fill_policies& other) = default;
fill_policies& fill_policies::operator=(fill_policies&& other) noexcept = default;
fill_policies::~fill_policies() = default;

fill_error::fill_error(const error& why, std::vector<std::string> whole,
                       std::vector<std::string> torn)
    : error(why),
      whole_(std::make_shared<const std::vector<std::string>>(std::move(whole))),
      torn_(std::make_shared<const std::vector<std::string>>(std::move(torn))) {}

fill_error::~fill_error() = default;

namespace {

// The dtype of a DLPack type. PyTorch has 4-bit types in pairs, 2 lanes to a byte, and its last
// dimension counts the pairs.
struct element {
  dtype type;
  std::uint64_t per_item = 1;
};

std::optional<element> element_of(dlpack::data_type what) noexcept {
  for (unsigned i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    const dlpack::data_type own = dlpack::type_of(type);
    if (own.code != what.code || own.bits != what.bits) continue;
    if (what.lanes == 1) return element{type, 1};
    if (what.lanes == 8 / bits(type) && bits(type) < 8) return element{type, what.lanes};
  }
  return std::nullopt;
}

// Of either form; `owner` calls the deleter.
destination described(std::string name, const dlpack::tensor& from, std::shared_ptr<void> owner,
                      const device& cuda) {
  const std::string place = "destination '" + printable(name) + "'";
  const auto what = element_of(from.dtype);
  if (!what) {
    throw error(errc::unsupported_dtype, place,
                "no element type here has DLPack's code " +
                    std::to_string(static_cast<int>(from.dtype.code)) + " with " +
                    std::to_string(from.dtype.bits) + " bits and " +
                    std::to_string(from.dtype.lanes) + " lanes");
  }
  // 3 is host memory that CUDA has pinned.
  const auto kind = static_cast<std::int32_t>(from.device.type);
  const bool on_host = kind == static_cast<std::int32_t>(dlpack::device_type::cpu) || kind == 3;
  const bool on_cuda = from.device.type == dlpack::device_type::cuda &&
                       cuda.kind() == device_kind::cuda && cuda.index() == from.device.id;
  if (!on_host && !on_cuda) {
    throw error(errc::device_unavailable, place,
                "its memory is of DLPack's device " + std::to_string(kind) + ":" +
                    std::to_string(from.device.id) + ", and " + cuda.name() + " was given for it");
  }
  destination out;
  out.name = std::move(name);
  out.data = static_cast<std::byte*>(from.data) + from.byte_offset;
  if (from.data == nullptr) out.data = nullptr;
  out.dtype = what->type;
  if (on_cuda) out.on = cuda;
  for (std::int32_t d = 0; d < from.ndim; ++d) {
    if (from.shape[d] < 0) {
      throw error(errc::invalid_destination, place, "a dimension of its shape is negative");
    }
    out.shape.push_back(static_cast<std::uint64_t>(from.shape[d]));
    if (from.strides != nullptr) out.strides.push_back(from.strides[d]);
  }
  if (what->per_item > 1 && !out.shape.empty()) out.shape.back() *= what->per_item;
  // Strides of a dense row-major tensor are dropped: without strides a type of less than a byte is
  // known to be dense.
  std::int64_t dense = 1;
  bool row_major = true;
  for (std::int32_t d = from.ndim; d-- > 0 && from.strides != nullptr;) {
    row_major = row_major && (from.shape[d] == 1 || from.strides[d] == dense);
    dense *= from.shape[d];
  }
  if (row_major) out.strides.clear();
  out.owner = std::move(owner);
  return out;
}

template <class Managed>
destination adopted(std::string name, Managed* from, const device& cuda) {
  const auto release = [](Managed* one) {
    if (one != nullptr && one->deleter != nullptr) one->deleter(one);
  };
  std::shared_ptr<Managed> owner(from, release);
  return described(std::move(name), from->dl_tensor, owner, cuda);
}

}  // namespace

destination destination_of(std::string name, dlpack::managed_tensor_versioned* from, device cuda) {
  constexpr std::uint64_t read_only = 1;
  if (from->version.major > 1 || (from->flags & read_only) != 0) {
    const std::string place = "destination '" + printable(name) + "'";
    const bool newer = from->version.major > 1;
    // With an unknown major version, only version, manager_ctx and deleter have known offsets.
    if (from->deleter != nullptr) from->deleter(from);
    throw error(errc::invalid_destination, place,
                newer ? "its DLPack is of a newer major version than 1" : "it is read-only");
  }
  return adopted(std::move(name), from, cuda);
}

destination destination_of(std::string name, dlpack::managed_tensor* from, device cuda) {
  return adopted(std::move(name), from, cuda);
}

}  // namespace ringload::inline v0
