// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts structs of the C interface to types of the C++ interface. The first member of each
// struct is the size of the struct, because a C program may have an older or newer version of the
// struct than this library.

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

/// Copies the caller's struct. Members that the caller's version of the struct does not have are 0.
/// If `from` is null, all members are 0, which means the default values.
template <class T>
T read_struct(const T* from) {
  T whole = {};
  if (from) std::memcpy(&whole, from, known_bytes<T>(from->struct_bytes));
  return whole;
}

/// Copies `value` to the caller's struct `into`, without the members that the caller's version of
/// the struct does not have.
template <class T>
void write_struct(T* into, T value) {
  required(into, "the struct to fill in is null");
  value.struct_bytes = into->struct_bytes;
  std::memcpy(into, &value, known_bytes<T>(into->struct_bytes));
}

ringload_dtype dtype_of(dtype type) noexcept;
/// Throws invalid_argument if `type` is not a tensor type.
dtype dtype_of(ringload_dtype type);

/// Returns a struct that points to the texts and the shapes of `tensor`.
ringload_tensor_info info_of(const tensor_info& tensor, const char* file) noexcept;

loader_options loader_options_of(const ringload_loader_options* from);
open_options options_of(const ringload_open_options* from);
/// The options of a load, and the owner of the checksum list to which the options refer.
struct load_settings {
  load_options options;
  std::shared_ptr<const checksum_list> listed;
};
load_settings options_of(const ringload_load_options* from);
/// Returns an empty optional for RINGLOAD_DIGEST_NONE.
std::optional<digest_algorithm> digest_of(ringload_digest from);
std::vector<std::uint64_t> shape_of(const std::uint64_t* shape, std::size_t rank);
/// Returns a function that creates hashers. A hasher calls the functions of the caller. Returns an
/// empty function if `from` is null.
std::function<hasher()> hashers_of(const ringload_sha256* from);
fill_options fill_options_of(const ringload_fill_options* from);
/// `on` is the first device of the loader. Takes ownership of all DLPack tensors, even if the call
/// throws.
std::vector<destination> destinations_of(const ringload_destination* from, std::size_t count,
                                         const device& on);
/// Takes ownership of all DLPack tensors, even if the call throws.
std::vector<tensor_ref> refs_of(const ringload_saved_tensor* from, std::size_t count,
                                const device& on);
tensor_copy_options copy_options_of(const ringload_tensor_copy_options* from);
/// Sets the trace function of `options`. The caller's struct must outlive the load.
void set_trace(load_options& options, const ringload_trace* trace);
save_options save_options_of(const ringload_save_options* from);
ringload_stats stats_of(const load_stats& from) noexcept;
ringload_file_stats stats_of(const file_stats& from, const file_info& file) noexcept;

}  // namespace ringload::c
