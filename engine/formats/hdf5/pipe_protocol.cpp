// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/pipe_protocol.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringload::inline v0::h5 {

namespace {

constexpr std::string_view magic = "ringload hdf5 1\n";
constexpr std::size_t number_bytes = 8;
constexpr std::size_t prefix_bytes = magic.size() + number_bytes;

void append_number(std::string& to, std::uint64_t value) {
  for (std::size_t i = 0; i < number_bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFFU);
}

class writer {
 public:
  void number(std::uint64_t value) { append_number(out_, value); }
  void bytes(const void* from, std::size_t count) {
    number(count);
    out_.append(static_cast<const char*>(from), count);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// After the first error it returns only zeros and empty values.
class message_reader {
 public:
  explicit message_reader(std::span<const std::byte> from) noexcept : left_(from) {}

  std::uint64_t number() noexcept {
    if (left_.size() < number_bytes) {
      failed_ = true;
      left_ = {};
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = number_bytes; i-- > 0;) {
      value = value << 8U | std::to_integer<std::uint64_t>(left_[i]);
    }
    left_ = left_.subspan(number_bytes);
    return value;
  }
  // Returns the number of elements that follow, of at least `bytes_each` bytes each.
  std::size_t count(std::size_t bytes_each) noexcept {
    const std::uint64_t found = number();
    if (found <= left_.size() / bytes_each) return static_cast<std::size_t>(found);
    failed_ = true;
    left_ = {};
    return 0;
  }
  std::span<const std::byte> bytes() noexcept {
    const std::size_t size = count(1);
    const auto out = left_.first(size);
    left_ = left_.subspan(size);
    return out;
  }
  bool failed() const noexcept { return failed_; }
  bool is_complete() const noexcept { return !failed_ && left_.empty(); }

 private:
  std::span<const std::byte> left_;
  bool failed_ = false;
};

// One description of the message serves both directions: `pass` writes the value or reads it.

template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void pass(writer& to, const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    to.number(std::bit_cast<std::uint64_t>(value));
  } else {
    to.number(static_cast<std::uint64_t>(value));
  }
}
// A number that does not fit becomes another number, which is checked like any number.
template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
void pass(message_reader& from, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    value = std::bit_cast<T>(from.number());
  } else if constexpr (std::is_same_v<T, bool>) {
    value = from.number() != 0;
  } else {
    value = static_cast<T>(from.number());
  }
}

void pass(writer& to, const std::string& text) { to.bytes(text.data(), text.size()); }
void pass(message_reader& from, std::string& text) {
  const auto found = from.bytes();
  text.assign(reinterpret_cast<const char*>(found.data()), found.size());
}

void pass(writer& to, const std::vector<std::byte>& bytes) { to.bytes(bytes.data(), bytes.size()); }
void pass(message_reader& from, std::vector<std::byte>& bytes) {
  const auto found = from.bytes();
  bytes.assign(found.begin(), found.end());
}

// The parameter is const when it is written.
void pass_fields(auto& way, auto& f)
  requires requires { f.element_bytes; }
{
  pass(way, f.filter);
  pass(way, f.element_bytes);
}
void pass_fields(auto& way, auto& c)
  requires requires { c.filter_mask; }
{
  pass(way, c.offset);
  pass(way, c.bytes);
  pass(way, c.filter_mask);
}
void pass_fields(auto& way, auto& l)
  requires requires { l.reason; }
{
  pass(way, l.name);
  pass(way, l.reason);
  pass(way, l.numbers);
}

template <class T>
  requires std::is_class_v<T>
void pass(writer& to, const std::vector<T>& items);
template <class T>
  requires std::is_class_v<T>
void pass(message_reader& from, std::vector<T>& items);
template <class T>
  requires std::is_arithmetic_v<T>
void pass(writer& to, const std::vector<T>& items) {
  to.number(items.size());
  for (const T& item : items) pass(to, item);
}
template <class T>
  requires std::is_arithmetic_v<T>
void pass(message_reader& from, std::vector<T>& items) {
  items.resize(from.count(number_bytes));
  for (T& item : items) pass(from, item);
}

void pass_fields(auto& way, auto& d)
  requires requires { d.chunk_origins; }
{
  pass(way, d.names);
  pass(way, d.dtype);
  pass(way, d.big_endian);
  pass(way, d.shape);
  pass(way, d.layout);
  pass(way, d.offset);
  pass(way, d.bytes);
  pass(way, d.compact);
  pass(way, d.fill);
  pass(way, d.chunk_shape);
  pass(way, d.filters);
  pass(way, d.partial_chunks_unfiltered);
  pass(way, d.chunks);
  pass(way, d.chunk_origins);
}
void pass_fields(auto& way, auto& a)
  requires requires { a.naturals; }
{
  pass(way, a.name);
  pass(way, a.is_list);
  pass(way, a.value_kind);
  pass(way, a.texts);
  pass(way, a.floats);
  pass(way, a.integers);
  pass(way, a.naturals);
}
void pass_fields(auto& way, auto& c)
  requires requires { c.left_out; }
{
  pass(way, c.datasets);
  pass(way, c.attributes);
  pass(way, c.left_out);
  pass(way, c.attributes_left_out);
}

template <class T>
  requires std::is_class_v<T>
void pass(writer& to, const std::vector<T>& items) {
  to.number(items.size());
  for (const T& item : items) {
    if constexpr (std::is_same_v<T, std::string>) {
      pass(to, item);
    } else {
      pass_fields(to, item);
    }
  }
}

// Each element has at least one number, so the memory is at most a few times the message.
template <class T>
  requires std::is_class_v<T>
void pass(message_reader& from, std::vector<T>& items) {
  const std::size_t count = from.count(number_bytes);
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    T& item = items.emplace_back();
    if constexpr (std::is_same_v<T, std::string>) {
      pass(from, item);
    } else {
      pass_fields(from, item);
    }
  }
}

fault malformed() {
  return {errc::malformed_header, "",
          "the process that parses HDF5 files sent an unreadable message, expected one of the "
          "same version"};
}

constexpr std::uint64_t own_code_kind = 0;     // The code of the fault is an errc
constexpr std::uint64_t system_code_kind = 1;  // or an errno.

}  // namespace

std::string encode_message(const result<hdf5_contents>& from) {
  writer body;
  body.number(from ? 1 : 0);
  if (from) {
    pass_fields(body, *from);
  } else {
    const fault& problem = from.error();
    body.number(problem.code.category() == category() ? own_code_kind : system_code_kind);
    body.number(static_cast<std::uint64_t>(problem.code.value()));
    pass(body, problem.where);
    pass(body, problem.cause);
  }
  const std::string rest = body.take();
  std::string out(magic);
  append_number(out, rest.size());
  return out + rest;
}

bool is_whole_message(std::span<const std::byte> message) noexcept {
  if (message.size() < prefix_bytes || message.size() > message_bytes_max ||
      std::memcmp(message.data(), magic.data(), magic.size()) != 0) {
    return false;
  }
  return message_reader(message.subspan(magic.size(), number_bytes)).number() ==
         message.size() - prefix_bytes;
}

result<hdf5_contents> decode_message(std::span<const std::byte> message) {
  if (!is_whole_message(message)) return malformed();
  message_reader from(message.subspan(prefix_bytes));
  const bool found = from.number() == 1;
  if (found) {
    hdf5_contents out;
    pass_fields(from, out);
    if (!from.is_complete()) return malformed();
    return out;
  }
  const std::uint64_t kind = from.number();
  const std::uint64_t code = from.number();
  fault problem;
  pass(from, problem.where);
  pass(from, problem.cause);
  constexpr std::uint64_t code_max = 4096;
  if (!from.is_complete() || code == 0 || code > code_max) return malformed();
  const int value = static_cast<int>(code);
  const bool is_own_code =
      kind == own_code_kind && code <= static_cast<std::uint64_t>(errc::wrong_digest);
  problem.code = is_own_code ? make_error_code(static_cast<errc>(value))
                             : boost::system::error_code(value, boost::system::system_category());
  return problem;
}

}  // namespace ringload::inline v0::h5
