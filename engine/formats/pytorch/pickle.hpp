// SPDX-License-Identifier: Apache-2.0
#pragma once

// A pickle as data. Python runs a pickle as a program that may call anything; this machine calls
// nothing. What would be a call becomes a node that says which function and which arguments, and
// whoever reads the nodes decides what they can mean.
//
// The opcodes are those that Python's own writer uses for the values of a checkpoint, in protocols
// 2 to 5. Any other opcode is refused by name. A value takes 8 bytes, whatever its kind, and the
// number of values is bounded.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Together they keep a pickle that means harm below 100 MB of memory.
inline constexpr std::uint64_t pickle_bytes_max = 32'000'000;
inline constexpr std::size_t pickle_values_max = 5'000'000;  // 100,000 tensors take 3,300,000.
// On the stack at the same time, and as many marks. Writers put a thousand items there, then add
// them to their list or dictionary; only a tuple is put there whole.
inline constexpr std::size_t pickle_stack_max = 1'000'000;

enum class pickle_kind : std::uint8_t {
  none,
  boolean,
  integer,     // That fits in 60 bits.
  number,      // Any other: nobody asks for its value.
  text,        // Or bytes, of Python 2.
  bytes,       // Or a bytearray.
  tuple,       // Or a frozenset.
  list,        // Or a set.
  dict,        // Or an OrderedDict: keys and values in turn.
  global,      // A class or a function, by name.
  call,        // Of a global, or of what another call gave.
  persistent,  // What the writer keeps elsewhere, by what it calls it.
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

  // Where it lies in the parts of the pickle, and how long it is.
  std::uint32_t a() const noexcept { return static_cast<std::uint32_t>(bits_ >> 4); }
  std::uint32_t b() const noexcept { return static_cast<std::uint32_t>(bits_ >> 36); }

 private:
  std::uint64_t bits_ = 0;
};
static_assert(sizeof(pickle_value) == 8);

struct pickle_global {
  std::string_view module;
  std::string_view name;
  std::uint32_t offset = 0;  // The byte of the pickle where it was first named.

  bool is_named(std::string_view module_name, std::string_view global_name) const noexcept {
    return module == module_name && name == global_name;
  }
};

// All that a pickle holds. It points into the bytes that it was read from. A function that takes a
// value asks for one of its kind, and of this pickle.
struct pickle {
  std::string_view bytes;
  std::size_t end = 0;  // Behind its last opcode.
  pickle_value root;
  std::vector<pickle_global> globals;  // Each once.
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

// Reads one pickle from the front of `bytes`, of which no more than pickle_bytes_max count; they
// outlive the answer. Where they end too early: errc::truncated_file. Faults name the byte, counted
// from `first_byte` on.
result<pickle> read_pickle(std::span<const std::byte> bytes, std::uint64_t first_byte = 0);

}  // namespace ringload::inline v0
