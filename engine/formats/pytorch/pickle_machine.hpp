// SPDX-License-Identifier: Apache-2.0
#pragma once

// Executes the opcodes of one pickle for read_pickle(). Functions that return bool set `fault_` and
// return false after a failure.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/pytorch/pickle.hpp"
#include "formats/text/little_endian.hpp"

namespace ringload::inline v0 {

// Limit for the length of the name of a class or function, and of its module.
inline constexpr std::size_t pickle_name_bytes_max = 1000;

class pickle_machine {
 public:
  pickle_machine(std::string_view bytes, std::uint64_t first_byte, const pickle_limits& limits);

  result<pickle> run();

 private:
  bool step(unsigned char code);
  bool push_number(unsigned char code);
  bool push_text(unsigned char code);
  bool build_tuple(unsigned char code);
  bool fill(unsigned char code);
  bool remember(unsigned char code);
  bool remember_as(std::uint64_t index);
  bool global();
  bool global_of_stack();
  bool push_global(std::string_view module, std::string_view name);
  bool call();
  std::optional<pickle_value> class_of_module(pickle_value identity) const;
  bool build();
  bool fill_from_pairs(pickle_value pairs);
  bool extend(pickle_value into, std::span<const pickle_value> more);

  bool fail(errc code, std::string cause);
  bool take(std::size_t count, std::span<const std::byte>& out);
  bool line(std::string_view& out);
  bool charge(std::size_t values);
  bool check_height(std::size_t height);
  bool push(pickle_value v);
  bool pop(pickle_value& out);
  bool to_mark(std::size_t& begin);
  bool push_container(pickle_kind kind);
  std::uint32_t add_items(std::span<const pickle_value> more);
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  template <std::unsigned_integral T>
  bool number(std::uint64_t& out);

  const pickle_limits limits_;
  pickle parsed_;
  bool exceeds_limit_ = false;
  std::uint64_t first_byte_;
  std::size_t position_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t values_ = 0;
  std::vector<pickle_value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<std::optional<pickle_value>> memo_;
  std::uint64_t remembered_ = 0;  // Number of values in memo_. Also the next index of MEMOIZE.
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> global_numbers_;
  fault fault_;
};

template <std::unsigned_integral T>
bool pickle_machine::number(std::uint64_t& out) {
  std::span<const std::byte> taken;
  if (!take(sizeof(T), taken)) return false;
  out = little_endian<T>(taken);
  return true;
}

}  // namespace ringload::inline v0
