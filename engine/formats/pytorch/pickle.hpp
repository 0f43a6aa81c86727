// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a pickle as data. Python executes a pickle as a program that may call any function. This
// reader calls no function. A call becomes a node with the function and the arguments, and
// torch_state.cpp and dcp.cpp interpret the nodes.
//
// The reader supports the opcodes of protocols 2 to 5 that Python writes for the values of a
// checkpoint. Any other opcode causes a fault that states the opcode. A value of any kind needs 8
// bytes, and the number of values is limited.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// With these limits, a malicious pickle needs less than 100 MB of memory.
inline constexpr std::uint64_t pickle_bytes_max = 32'000'000;
// For example, 100,000 tensors need 3,300,000 values.
inline constexpr std::size_t pickle_values_max = 5'000'000;
// Limit for the number of values on the stack, and for the number of marks. Python pushes up to a
// thousand items at a time, and then adds the items to their list or dictionary. Only a tuple needs
// all its items on the stack.
inline constexpr std::size_t pickle_stack_max = 1'000'000;

struct pickle_limits {
  std::uint64_t bytes_max = pickle_bytes_max;
  std::size_t values_max = pickle_values_max;
};

enum class pickle_kind : std::uint8_t {
  none,
  boolean,
  integer,     // An integer with at most 60 bits.
  number,      // Any other number. Its value is not decoded.
  text,        // Text, or bytes from Python 2.
  bytes,       // Bytes or a bytearray.
  tuple,       // A tuple or a frozenset.
  list,        // A list or a set.
  dict,        // A dict or an OrderedDict. Keys and values alternate.
  global,      // The name of a class or a function.
  call,        // A call of a global, or of the result of another call.
  persistent,  // The key of an object outside of the pickle.
};

class pickle_value {
 public:
  pickle_value() noexcept = default;
  pickle_value(pickle_kind kind, std::uint32_t a, std::uint32_t b = 0) noexcept
      : bits_(static_cast<std::uint64_t>(kind) | std::uint64_t{a} << 4 | std::uint64_t{b} << 36) {}
  static pickle_value of_integer(std::int64_t value) noexcept;

  pickle_kind kind() const noexcept { return static_cast<pickle_kind>(bits_ & 0xF); }
  bool has_kind(pickle_kind kind) const noexcept { return this->kind() == kind; }
  std::int64_t integer() const noexcept { return static_cast<std::int64_t>(bits_) >> 4; }
  bool boolean() const noexcept { return a() != 0; }

  // For text, bytes, and a number of more than 8 bytes, a() is the offset in `pickle::bytes`, and
  // b() is the length. For a tuple, list, dict, global, call or persistent value, a() is an index:
  // see the functions of `pickle`. b() is the number of elements of a tuple.
  std::uint32_t a() const noexcept { return static_cast<std::uint32_t>(bits_ >> 4); }
  std::uint32_t b() const noexcept { return static_cast<std::uint32_t>(bits_ >> 36); }

 private:
  std::uint64_t bits_ = 0;
};
static_assert(sizeof(pickle_value) == 8);

struct pickle_global {
  std::string_view module;
  std::string_view name;
  std::uint32_t offset = 0;  // Position of the first opcode that names the global.

  bool is_named(std::string_view module_name, std::string_view global_name) const noexcept {
    return module == module_name && name == global_name;
  }
};

// The content of a pickle, with views of the input bytes. Each value that is passed to a member
// function must belong to this pickle and have the expected kind.
struct pickle {
  std::string_view bytes;
  std::size_t end = 0;  // Position after the last opcode.
  pickle_value root;
  std::vector<pickle_global> globals;  // Without duplicates.
  std::vector<pickle_value> persistents;

  std::vector<pickle_value> items;
  std::vector<std::vector<pickle_value>> containers;
  // The last state of each object that a call created. The key is the index of the call in `items`.
  std::map<std::uint32_t, pickle_value> states;

  std::string_view text(pickle_value v) const { return bytes.substr(v.a(), v.b()); }
  std::span<const pickle_value> tuple(pickle_value v) const {
    return std::span<const pickle_value>(items).subspan(v.a(), v.b());
  }
  const std::vector<pickle_value>& container(pickle_value v) const { return containers[v.a()]; }
  const pickle_global& global(pickle_value v) const { return globals[v.a()]; }
  pickle_value callee(pickle_value v) const { return items[v.a()]; }
  pickle_value arguments(pickle_value v) const { return items[v.a() + 1]; }  // A tuple.
  pickle_value identity(pickle_value v) const { return items[v.a()]; }
  // Returns the state of the object that a call created. Returns None if there is no state.
  pickle_value state(pickle_value v) const {
    if (!v.has_kind(pickle_kind::call)) return {};
    const auto found = states.find(v.a());
    return found == states.end() ? pickle_value() : found->second;
  }
};

// Reads one pickle from the beginning of `bytes`. `bytes` must outlive the result. Returns
// errc::truncated_file if `bytes` ends before the pickle ends. Faults state the byte offset plus
// `first_byte`.
result<pickle> read_pickle(std::span<const std::byte> bytes, std::uint64_t first_byte = 0,
                           const pickle_limits& limits = {});

}  // namespace ringload::inline v0
