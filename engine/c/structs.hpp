// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts structs of the C interface to types of the C++ interface. A caller's struct may be
// shorter or longer than the struct that the library was compiled with.

#include <ringload/c.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/dtype.hpp>
#include <ringload/fill.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/stats.hpp>
#include <ringload/verify.hpp>
#include <vector>

#include "c/status.hpp"

namespace ringload::c {

template <class T>
std::size_t known_bytes(std::size_t struct_bytes) {
  if (struct_bytes < sizeof(std::size_t)) {
    throw invalid_argument("struct_bytes must be the size of the struct");
  }
  return std::min(struct_bytes, sizeof(T));
}

/// Copies the caller's struct. Fields that the caller's version lacks are 0. Null: the defaults.
template <class T>
T received(const T* from) {
  T whole = {};
  if (from) std::memcpy(&whole, from, known_bytes<T>(from->struct_bytes));
  return whole;
}

/// Copies to the caller's struct the fields that the caller's version has.
template <class T>
void give(T* into, T value) {
  required(into, "the struct to fill in is null");
  value.struct_bytes = into->struct_bytes;
  std::memcpy(into, &value, known_bytes<T>(into->struct_bytes));
}

ringload_dtype dtype_of(dtype type) noexcept;
/// Throws if `type` is not a tensor type.
dtype dtype_of(ringload_dtype type);

loader_options loader_options_of(const ringload_loader_options* from);
open_options options_of(const ringload_open_options* from);
/// The options of a load, and the manifest that the options point to.
struct load_settings {
  load_options options;
  std::shared_ptr<const manifest> listed;
};
load_settings options_of(const ringload_load_options* from);
/// Empty for RINGLOAD_DIGEST_NONE.
std::optional<digest_algorithm> digest_of(ringload_digest from);
std::vector<std::uint64_t> shape_of(const std::uint64_t* shape, std::size_t rank);
/// Returns a factory for hashers that call the caller's functions. Empty for null.
std::function<hasher()> hashers_of(const ringload_sha256* from);
fill_options fill_options_of(const ringload_fill_options* from);
/// `on` is the loader's device. Takes ownership of all DLPack tensors, even if the call throws.
std::vector<destination> destinations_of(const ringload_destination* from, std::size_t count,
                                         const device& on);
/// Takes ownership as destinations_of() does.
std::vector<tensor_ref> refs_of(const ringload_saved_tensor* from, std::size_t count,
                                const device& on);
save_options save_options_of(const ringload_save_options* from);
ringload_stats stats_of(const load_stats& from) noexcept;
ringload_file_stats stats_of(const file_stats& from, const file_info& file) noexcept;

}  // namespace ringload::c
