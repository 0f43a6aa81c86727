// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a pickle as data. Python runs a pickle as a program that may call any function. This
// machine calls nothing: a call becomes a node with the function and the arguments, and the reader
// of the nodes interprets the calls.
//
// The machine knows the opcodes that Python's writer uses for the values of a checkpoint, in
// protocols 2 to 5. Any other opcode is refused by name. A value of any kind takes 8 bytes, and the
// number of values is bounded.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// These limits keep a malicious pickle below 100 MB of memory.
inline constexpr std::uint64_t pickle_bytes_max = 32'000'000;
inline constexpr std::size_t pickle_values_max = 5'000'000;  // 100,000 tensors take 3,300,000.
// Limit of the stack and of the marks. Writers push a thousand items, then add the items to their
// list or dictionary. Only a tuple is pushed as a whole.
inline constexpr std::size_t pickle_stack_max = 1'000'000;

enum class pickle_kind : std::uint8_t {
  none,
  boolean,
  integer,     // An integer of at most 60 bits.
  number,      // Any other number. The value is not kept.
  text,        // Text, or bytes of Python 2.
  bytes,       // Bytes or a bytearray.
  tuple,       // A tuple or a frozenset.
  list,        // A list or a set.
  dict,        // A dict or an OrderedDict: keys and values alternate.
  global,      // A class or a function, by name.
  call,        // A call of a global or of another call's result.
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

  // Position and length in the parts of the pickle.
  std::uint32_t a() const noexcept { return static_cast<std::uint32_t>(bits_ >> 4); }
  std::uint32_t b() const noexcept { return static_cast<std::uint32_t>(bits_ >> 36); }

 private:
  std::uint64_t bits_ = 0;
};
static_assert(sizeof(pickle_value) == 8);

struct pickle_global {
  std::string_view module;
  std::string_view name;
  std::uint32_t offset = 0;  // Byte of the pickle that first names the global.

  bool is_named(std::string_view module_name, std::string_view global_name) const noexcept {
    return module == module_name && name == global_name;
  }
};

// The content of a pickle. Points into the input bytes. A value argument must be of this pickle and
// of the kind that the function expects.
struct pickle {
  std::string_view bytes;
  std::size_t end = 0;  // Position after the last opcode.
  pickle_value root;
  std::vector<pickle_global> globals;  // Without duplicates.
  std::vector<pickle_value> persistents;

  std::vector<pickle_value> items;
  std::vector<std::vector<pickle_value>> containers;

  std::string_view text(pickle_value v) const { return bytes.substr(v.a(), v.b()); }
  std::span<const pickle_value> tuple(pickle_value v) const {
    return std::span<const pickle_value>(items).subspan(v.a(), v.b());
  }
  const std::vector<pickle_value>& container(pickle_value v) const { return containers[v.a()]; }
  const pickle_global& global(pickle_value v) const { return globals[v.a()]; }
  pickle_value callee(pickle_value v) const { return items[v.a()]; }
  pickle_value arguments(pickle_value v) const { return items[v.a() + 1]; }  // A tuple.
  pickle_value identity(pickle_value v) const { return items[v.a()]; }
};

// Reads one pickle from the front of `bytes`, at most pickle_bytes_max bytes. `bytes` must outlive
// the result. A pickle without its end is errc::truncated_file. Faults name the byte, counted from
// `first_byte`.
result<pickle> read_pickle(std::span<const std::byte> bytes, std::uint64_t first_byte = 0);

}  // namespace ringload::inline v0
