// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts values between Python and the library: types by name, shapes, options in dictionaries,
// exceptions.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/delta.hpp>
#include <ringload/dtype.hpp>
#include <ringload/fill.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/selection.hpp>
#include <ringload/stats.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ringload {
inline namespace v0 {
enum class group_reading : std::uint8_t;
struct object_options;
struct remote_options;
struct writer_options;
}  // namespace v0
}  // namespace ringload

namespace ringload::python {

namespace nb = nanobind;

/// Returns a name such as "bf16", "f8_e4m3fn" or "bool".
std::string name_of(dtype type);
/// Returns the type with this name, in upper or lower case. Throws usage_error.
dtype dtype_of(std::string_view name);

/// Reports a wrong option or value of the caller. Becomes ringload.UsageError, which is a
/// ValueError.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws nb::python_error on failure.
nb::tuple tuple_of(std::span<const std::uint64_t> shape);
/// Bytes that are not UTF-8 become surrogates, as in os.fsdecode().
nb::str str_of(std::string_view text);
/// Returns the bytes of a name that str_of() has returned. Returns nothing if the value is not such
/// a str, so that no tensor has this name.
std::optional<std::string> name_from(nb::handle value);
/// Returns the name of a tensor or a key. Throws nb::type_error or usage_error, whose text contains
/// `argument`.
std::string text_from(nb::handle value, const std::string& argument);
/// Returns the name of the type and the value, such as "int 3", for messages.
std::string shown(nb::handle value);

nb::dict dict_of(const load_stats& stats);
// Returns one element for each file, with its path.
nb::list list_of(const std::vector<file_stats>& stats, const catalog& of);
nb::dict dict_of(const tensor_info& info);
nb::dict dict_of(const composite_info& info);
nb::dict dict_of(const save_result& done);
nb::dict dict_of(const delta_result& result);
nb::dict dict_of(const update_result& result);

/// Parses "divided" or "own". Throws usage_error.
group_reading group_reading_of(const std::string& name);

/// Returns the options in a dictionary. None means the default. Throws usage_error for an unknown
/// key or value, and nb::type_error for a value of another type.
loader_options loader_options_of(const nb::dict& given);
open_options open_options_of(const nb::dict& given);
save_options save_options_of(const nb::dict& given);
delta_options delta_options_of(const nb::dict& given);
fill_options fill_options_of(const nb::dict& given);
writer_options writer_options_of(const nb::dict& given);
object_options object_options_of(const nb::dict& given);
#if RINGLOAD_PYTHON_REMOTE
remote_options remote_options_of(const nb::dict& given);
#endif

/// The options of a load, and the checksum list that the options point to.
struct loading_options {
  explicit loading_options(const nb::dict& given);
  loading_options(const loading_options&) = delete;
  loading_options& operator=(const loading_options&) = delete;

  load_options of;

 private:
  checksum_list listed_;
};

/// Returns the tensors of a sequence of (name, DLPack capsule) or (name, Tensor). The caller keeps
/// the capsules, and must keep them alive until the operation has ended.
std::vector<destination> destinations_of(const nb::sequence& named,
                                         std::span<const device> devices);
std::vector<tensor_ref> refs_of(const nb::sequence& named, std::span<const device> devices);

/// Sets the Python exception for a failure of the library.
void set_python_error(const std::exception_ptr& failure);

}  // namespace ringload::python
