// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/pickle_machine.hpp"

#include <algorithm>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::int64_t integer_max = (std::int64_t{1} << 59) - 1;
constexpr std::uint32_t text_bytes_max = (1U << 28) - 1;
constexpr std::size_t container_values = 4;  // An empty container counts as this number of values.

}  // namespace

pickle_machine::pickle_machine(std::string_view bytes, std::uint64_t first_byte,
                               const pickle_limits& limits)
    : limits_(limits), first_byte_(first_byte) {
  parsed_.bytes = bytes.substr(0, limits_.bytes_max);
  exceeds_limit_ = bytes.size() > limits_.bytes_max;
  // Reserves the maximum sizes, so that these vectors do not reallocate. A pickle has at most one
  // value for each of its bytes. Only `containers` may reallocate, if a small pickle has more than
  // one container for four bytes. Reserved memory without values costs nothing, because the kernel
  // provides no pages for unused memory.
  const std::size_t values_max = std::min(parsed_.bytes.size(), limits_.values_max);
  stack_.reserve(std::min(values_max, pickle_stack_max));
  parsed_.items.reserve(values_max);
  marks_.reserve(std::min(values_max, pickle_stack_max));
  parsed_.containers.reserve(values_max / container_values);
}

bool pickle_machine::fail(errc code, std::string cause) {
  fault_ = {code, "byte " + grouped(first_byte_ + opcode_at_), std::move(cause)};
  return false;
}

bool pickle_machine::take(std::size_t count, std::span<const std::byte>& out) {
  if (count > parsed_.bytes.size() - position_) {
    if (!exceeds_limit_)
      return fail(errc::truncated_file, "the pickle is cut off at its last byte");
    return fail(errc::header_too_large, "the pickle has more than " + grouped(limits_.bytes_max) +
                                            " bytes, which is the limit");
  }
  out = std::as_bytes(std::span(parsed_.bytes)).subspan(position_, count);
  position_ += count;
  return true;
}

bool pickle_machine::line(std::string_view& out) {
  const std::string_view remaining = parsed_.bytes.substr(position_, pickle_name_bytes_max);
  const std::size_t end = remaining.find('\n');
  if (end == std::string_view::npos && remaining.size() == pickle_name_bytes_max) {
    return fail(errc::malformed_header, "the name of a class or function is too long");
  }
  std::span<const std::byte> taken;
  if (end == std::string_view::npos) return take(remaining.size() + 1, taken);
  out = remaining.substr(0, end);
  return take(end + 1, taken);
}

bool pickle_machine::charge(std::size_t values) {
  values_ += values;
  if (values_ <= limits_.values_max) return true;
  return fail(errc::header_too_large,
              "the pickle has more than " + grouped(limits_.values_max) + " values");
}

bool pickle_machine::check_height(std::size_t height) {
  if (height < pickle_stack_max) return true;
  return fail(errc::header_too_large,
              "the pickle's stack has more than " + grouped(pickle_stack_max) + " values or marks");
}

bool pickle_machine::push(pickle_value v) {
  if (!charge(1) || !check_height(stack_.size())) return false;
  stack_.push_back(v);
  return true;
}

bool pickle_machine::pop(pickle_value& out) {
  if (stack_.size() <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  out = stack_.back();
  stack_.pop_back();
  --values_;
  return true;
}

// Sets `begin` to the position of the first value above the last mark, and removes the mark.
bool pickle_machine::to_mark(std::size_t& begin) {
  if (marks_.empty()) return fail(errc::malformed_header, "there is no mark on the stack");
  begin = marks_.back();
  marks_.pop_back();
  return true;
}

bool pickle_machine::push_container(pickle_kind kind) {
  if (!charge(container_values)) return false;
  parsed_.containers.emplace_back();
  return push({kind, static_cast<std::uint32_t>(parsed_.containers.size() - 1)});
}

std::uint32_t pickle_machine::add_items(std::span<const pickle_value> more) {
  const auto index = static_cast<std::uint32_t>(parsed_.items.size());
  parsed_.items.insert(parsed_.items.end(), more.begin(), more.end());
  values_ += more.size();
  return index;
}

bool pickle_machine::push_number(unsigned char code) {
  std::uint64_t value = 0;
  switch (code) {
    case 'K':
      return number<std::uint8_t>(value) &&
             push(pickle_value::of_integer(static_cast<std::int64_t>(value)));
    case 'M':
      return number<std::uint16_t>(value) &&
             push(pickle_value::of_integer(static_cast<std::int64_t>(value)));
    case 'J':
      return number<std::uint32_t>(value) &&
             push(pickle_value::of_integer(static_cast<std::int32_t>(value)));
    case 'G': return number<std::uint64_t>(value) && push({pickle_kind::number, 0});
    default: break;
  }
  // LONG1: little-endian. The highest bit of the last byte is the sign.
  std::span<const std::byte> digits;
  if (!number<std::uint8_t>(value) || !take(static_cast<std::size_t>(value), digits)) return false;
  if (digits.size() > 8) {
    const auto begin = static_cast<std::uint32_t>(position_ - digits.size());
    return push({pickle_kind::number, begin, static_cast<std::uint32_t>(digits.size())});
  }
  const bool negative = !digits.empty() && (digits.back() & std::byte{0x80}) != std::byte{0};
  std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    bits = bits << 8 | std::to_integer<std::uint64_t>(digits[i]);
  }
  const auto integer = static_cast<std::int64_t>(bits);
  if (integer > integer_max || integer < -integer_max) return push({pickle_kind::number, 0});
  return push(pickle_value::of_integer(integer));
}

bool pickle_machine::push_text(unsigned char code) {
  std::uint64_t length = 0;
  bool has_length = false;
  switch (code) {
    case 'X':  // BINUNICODE
    case 'B':  // BINBYTES
      has_length = number<std::uint32_t>(length);
      break;
    case 0x8D:  // BINUNICODE8
    case 0x8E:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      has_length = number<std::uint64_t>(length);
      break;
    default:  // SHORT_BINSTRING, SHORT_BINBYTES, SHORT_BINUNICODE
      has_length = number<std::uint8_t>(length);
  }
  std::span<const std::byte> taken;
  const std::size_t begin = position_;
  if (!has_length || !take(static_cast<std::size_t>(length), taken)) return false;
  if (length > text_bytes_max) return fail(errc::header_too_large, "this text is too long");
  const bool is_bytes = code == 'B' || code == 'C' || code == 0x8E || code == 0x96;
  return push({is_bytes ? pickle_kind::bytes : pickle_kind::text, static_cast<std::uint32_t>(begin),
               static_cast<std::uint32_t>(length)});
}

bool pickle_machine::build_tuple(unsigned char code) {
  std::size_t begin = stack_.size();
  if (code == 't' || code == 0x91) {  // TUPLE, FROZENSET
    if (!to_mark(begin)) return false;
  } else {
    const std::size_t count = code == ')' ? 0 : code - 0x84U;
    if (count > stack_.size() - floor()) {
      return fail(errc::malformed_header, "the stack is empty here");
    }
    begin = stack_.size() - count;
  }
  const std::span<const pickle_value> parts = std::span(stack_).subspan(begin);
  const auto count = static_cast<std::uint32_t>(parts.size());
  const std::uint32_t index = add_items(parts);
  stack_.resize(begin);
  values_ -= count;
  return push({pickle_kind::tuple, index, count});
}

// If `into` is a call, the call may create an object of a subclass of list or dict. The reader does
// not create this object, and drops its items.
bool pickle_machine::extend(pickle_value into, std::span<const pickle_value> more) {
  if (into.has_kind(pickle_kind::call)) return true;
  // Charges twice, because a growing vector may hold the old and the new copy of its values.
  if (!charge(2 * more.size())) return false;
  std::vector<pickle_value>& container = parsed_.containers[into.a()];
  container.insert(container.end(), more.begin(), more.end());
  return true;
}

bool pickle_machine::fill(unsigned char code) {
  // APPENDS, SETITEMS and ADDITEMS add all values above the last mark.
  const bool many = code == 'e' || code == 'u' || code == 0x90;
  const bool dict = code == 's' || code == 'u';
  const std::size_t single = dict ? 2 : 1;
  std::size_t begin = 0;
  if (many) {
    if (!to_mark(begin)) return false;
  } else {
    if (stack_.size() - floor() < single) {
      return fail(errc::malformed_header, "the stack is empty here");
    }
    begin = stack_.size() - single;
  }
  if (begin <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  const pickle_value into = stack_[begin - 1];
  if (!into.has_kind(pickle_kind::call) &&
      !into.has_kind(dict ? pickle_kind::dict : pickle_kind::list)) {
    return fail(errc::malformed_header,
                dict ? "an item is set in an object that is not a dictionary"
                     : "an item is appended to an object that is not a list");
  }
  const std::size_t count = stack_.size() - begin;
  if (dict && count % 2 != 0) return fail(errc::malformed_header, "a key has no value");
  if (!extend(into, std::span(stack_).subspan(begin))) return false;
  stack_.resize(begin);
  values_ -= count;
  return true;
}

bool pickle_machine::remember(unsigned char code) {
  const bool wide = code == 'r' || code == 'j';
  std::uint64_t index = 0;
  if (!(wide ? number<std::uint32_t>(index) : number<std::uint8_t>(index))) return false;
  if (code == 'h' || code == 'j') {
    if (index >= memo_.size() || !memo_[index]) {
      return fail(errc::malformed_header, "the memo has no entry " + grouped(index));
    }
    return push(*memo_[index]);
  }
  return remember_as(index);
}

bool pickle_machine::remember_as(std::uint64_t index) {
  if (stack_.size() <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  if (index >= memo_.size()) {
    // The memo is a vector, because Python writes ascending indices with few gaps.
    if (index >= limits_.values_max) {
      return fail(errc::header_too_large, "the memo index " + grouped(index) + " is too large");
    }
    if (!charge(2 * (index + 1 - memo_.size()))) return false;
    constexpr std::size_t usual = 1024;
    if (index >= usual && index >= memo_.capacity()) memo_.reserve(limits_.values_max / 2);
    memo_.resize(index + 1);
  }
  if (!memo_[index]) ++remembered_;
  memo_[index] = stack_.back();
  return true;
}

}  // namespace ringload::inline v0
