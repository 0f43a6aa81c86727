// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "formats/little_endian.hpp"
#include "formats/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::int64_t integer_max = (std::int64_t{1} << 59) - 1;
constexpr std::uint32_t text_bytes_max = (1U << 28) - 1;
constexpr std::size_t line_bytes_max = 1000;
constexpr std::size_t globals_max = 10'000;  // Of PyTorch's there are some dozens.
constexpr std::size_t container_values = 4;  // What an empty one costs, in values.
// What protocol 3 has beyond 2 are two opcodes for bytes, which are not read.
constexpr unsigned protocol_min = 2;
constexpr unsigned protocol_max = 3;

struct opcode_name {
  unsigned char code;
  std::string_view name;
};

// Those that a writer of other protocols uses: for the message.
constexpr std::array<opcode_name, 24> other_opcodes = {{
    {0x93, "STACK_GLOBAL"}, {0x95, "FRAME"},    {0x94, "MEMOIZE"},
    {'i', "INST"},          {'o', "OBJ"},       {0x82, "EXT1"},
    {0x83, "EXT2"},         {0x84, "EXT4"},     {0x8C, "SHORT_BINUNICODE"},
    {'I', "INT"},           {'S', "STRING"},    {'V', "UNICODE"},
    {'p', "PUT"},           {'g', "GET"},       {'P', "PERSID"},
    {'d', "DICT"},          {'l', "LIST"},      {0x8B, "LONG4"},
    {'T', "BINSTRING"},     {'B', "BINBYTES"},  {'C', "SHORT_BINBYTES"},
    {0x92, "NEWOBJ_EX"},    {0x90, "ADDITEMS"}, {'2', "DUP"},
}};

std::string shown(unsigned char code) {
  std::array<char, 8> hex = {};
  std::snprintf(hex.data(), hex.size(), "0x%02X", static_cast<unsigned>(code));
  for (const opcode_name& each : other_opcodes) {
    if (each.code == code) return std::string(each.name) + " (" + hex.data() + ")";
  }
  return hex.data();
}

class machine {
 public:
  machine(std::string_view bytes, std::uint64_t first_byte) : first_byte_(first_byte) {
    made_.bytes = bytes.substr(0, pickle_bytes_max);
    longer_ = bytes.size() > pickle_bytes_max;
    // Room for all that there can be, so that nothing is ever copied to grow: an opcode makes one
    // value at most. What is not used has no pages.
    const std::size_t most = std::min(made_.bytes.size(), pickle_values_max);
    stack_.reserve(std::min(most, pickle_stack_max));
    made_.items.reserve(most);
    marks_.reserve(std::min(most, pickle_stack_max));
    made_.containers.reserve(most / container_values);
  }

  result<pickle> run();

 private:
  // Each returns false once something was wrong.
  bool step(unsigned char code);
  bool push_number(unsigned char code);
  bool push_text(unsigned char code);
  bool build_tuple(unsigned char code);
  bool fill(unsigned char code);
  bool remember(unsigned char code);
  bool global();
  bool call();
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

  pickle made_;
  bool longer_ = false;
  std::uint64_t first_byte_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::size_t values_ = 0;
  std::vector<pickle_value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<std::optional<pickle_value>> memo_;
  std::unordered_map<std::string_view, std::uint32_t> global_numbers_;  // By both lines.
  fault fault_;
};

bool machine::fail(errc code, std::string cause) {
  fault_ = {code, "byte " + grouped(first_byte_ + opcode_at_), std::move(cause)};
  return false;
}

bool machine::take(std::size_t count, std::span<const std::byte>& out) {
  if (count > made_.bytes.size() - at_) {
    if (!longer_) return fail(errc::truncated_file, "the pickle goes on past its last byte");
    return fail(errc::header_too_large, "the pickle has more than " + grouped(pickle_bytes_max) +
                                            " bytes, and no more are allowed");
  }
  out = std::as_bytes(std::span(made_.bytes)).subspan(at_, count);
  at_ += count;
  return true;
}

template <std::unsigned_integral T>
bool machine::number(std::uint64_t& out) {
  std::span<const std::byte> found;
  if (!take(sizeof(T), found)) return false;
  out = little_endian<T>(found);
  return true;
}

bool machine::line(std::string_view& out) {
  const std::string_view rest = made_.bytes.substr(at_, line_bytes_max);
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos && rest.size() == line_bytes_max) {
    return fail(errc::malformed_header, "the name of a class or function is too long");
  }
  std::span<const std::byte> taken;
  if (end == std::string_view::npos) return take(rest.size() + 1, taken);
  out = rest.substr(0, end);
  return take(end + 1, taken);
}

bool machine::charge(std::size_t values) {
  values_ += values;
  if (values_ <= pickle_values_max) return true;
  return fail(errc::header_too_large,
              "the pickle makes more than " + grouped(pickle_values_max) + " values");
}

bool machine::check_height(std::size_t height) {
  if (height < pickle_stack_max) return true;
  return fail(errc::header_too_large,
              "the pickle's stack has more than " + grouped(pickle_stack_max) + " values");
}

bool machine::push(pickle_value v) {
  if (!charge(1) || !check_height(stack_.size())) return false;
  stack_.push_back(v);
  return true;
}

bool machine::pop(pickle_value& out) {
  if (stack_.size() <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  out = stack_.back();
  stack_.pop_back();
  --values_;
  return true;
}

// Where the values above the last mark begin.
bool machine::to_mark(std::size_t& begin) {
  if (marks_.empty()) return fail(errc::malformed_header, "there is no mark on the stack");
  begin = marks_.back();
  marks_.pop_back();
  return true;
}

bool machine::push_container(pickle_kind kind) {
  if (!charge(container_values)) return false;
  made_.containers.emplace_back();
  return push({kind, static_cast<std::uint32_t>(made_.containers.size() - 1)});
}

std::uint32_t machine::add_items(std::span<const pickle_value> more) {
  const auto at = static_cast<std::uint32_t>(made_.items.size());
  made_.items.insert(made_.items.end(), more.begin(), more.end());
  values_ += more.size();
  return at;
}

bool machine::push_number(unsigned char code) {
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
  // LONG1: the lowest byte first, the highest bit of the last is the sign.
  std::span<const std::byte> digits;
  if (!number<std::uint8_t>(value) || !take(static_cast<std::size_t>(value), digits)) return false;
  if (digits.size() > 8) {
    const auto begin = static_cast<std::uint32_t>(at_ - digits.size());
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

bool machine::push_text(unsigned char code) {
  std::uint64_t length = 0;
  if (!(code == 'X' ? number<std::uint32_t>(length) : number<std::uint8_t>(length))) return false;
  std::span<const std::byte> taken;
  const std::size_t begin = at_;
  if (!take(static_cast<std::size_t>(length), taken)) return false;
  if (length > text_bytes_max) return fail(errc::header_too_large, "this text is too long");
  return push(
      {pickle_kind::text, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(length)});
}

bool machine::build_tuple(unsigned char code) {
  std::size_t begin = stack_.size();
  if (code == 't') {
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
  const std::uint32_t at = add_items(parts);
  stack_.resize(begin);
  values_ -= count;
  return push({pickle_kind::tuple, at, count});
}

// What a subclass of list or dict, made by a call, is filled with belongs to an object that is
// never made.
bool machine::extend(pickle_value into, std::span<const pickle_value> more) {
  if (into.is(pickle_kind::call)) return true;
  if (!charge(2 * more.size())) return false;  // It grows by copying.
  std::vector<pickle_value>& to = made_.containers[into.a()];
  to.insert(to.end(), more.begin(), more.end());
  return true;
}

bool machine::fill(unsigned char code) {
  const bool many = code == 'e' || code == 'u';
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
  if (!into.is(pickle_kind::call) && !into.is(dict ? pickle_kind::dict : pickle_kind::list)) {
    return fail(errc::malformed_header, dict ? "an item is set in what is no dictionary"
                                             : "an item is appended to what is no list");
  }
  const std::size_t count = stack_.size() - begin;
  if (dict && count % 2 != 0) return fail(errc::malformed_header, "a key has no value");
  if (!extend(into, std::span(stack_).subspan(begin))) return false;
  stack_.resize(begin);
  values_ -= count;
  return true;
}

bool machine::remember(unsigned char code) {
  const bool wide = code == 'r' || code == 'j';
  std::uint64_t index = 0;
  if (!(wide ? number<std::uint32_t>(index) : number<std::uint8_t>(index))) return false;
  if (code == 'h' || code == 'j') {
    if (index >= memo_.size() || !memo_[index]) {
      return fail(errc::malformed_header, "nothing was remembered as " + grouped(index));
    }
    return push(*memo_[index]);
  }
  if (stack_.size() <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  if (index >= memo_.size()) {
    // Writers count up; the gaps of an optimised pickle are few.
    if (index >= pickle_values_max) {
      return fail(errc::header_too_large, "a value would be remembered as " + grouped(index));
    }
    if (!charge(2 * (index + 1 - memo_.size()))) return false;
    constexpr std::size_t usual = 1024;
    if (index >= usual && index >= memo_.capacity()) memo_.reserve(pickle_values_max / 2);
    memo_.resize(index + 1);
  }
  memo_[index] = stack_.back();
  return true;
}

bool machine::global() {
  const std::size_t begin = at_;
  std::string_view module;
  std::string_view name;
  if (!line(module) || !line(name)) return false;
  const auto [found, is_new] = global_numbers_.try_emplace(
      made_.bytes.substr(begin, at_ - begin), static_cast<std::uint32_t>(made_.globals.size()));
  if (is_new) {
    if (made_.globals.size() == globals_max) {
      return fail(errc::header_too_large,
                  "the pickle names more than " + grouped(globals_max) + " classes and functions");
    }
    made_.globals.push_back({module, name, static_cast<std::uint32_t>(opcode_at_)});
  }
  return push({pickle_kind::global, found->second});
}

// OrderedDict([["name", tensor], ...]), as Python 2 wrote it.
bool machine::fill_from_pairs(pickle_value pairs) {
  const std::vector<pickle_value> list = made_.container(pairs);
  for (const pickle_value pair : list) {
    const auto items = pair.is(pickle_kind::tuple) ? made_.tuple(pair)
                       : pair.is(pickle_kind::list)
                           ? std::span<const pickle_value>(made_.container(pair))
                           : std::span<const pickle_value>();
    if (items.size() != 2)
      return fail(errc::malformed_header, "an item of a dictionary is no pair");
    const std::array<pickle_value, 2> both = {items[0], items[1]};
    if (!extend(stack_.back(), both)) return false;
  }
  return true;
}

bool machine::call() {
  pickle_value arguments;
  pickle_value callee;
  if (!pop(arguments) || !pop(callee)) return false;
  if (!arguments.is(pickle_kind::tuple)) {
    return fail(errc::malformed_header, "the arguments of a call are no tuple");
  }
  if (!callee.is(pickle_kind::global) && !callee.is(pickle_kind::call)) {
    return fail(errc::malformed_header, "something is called that is no function");
  }
  // The one class whose objects are filled after they are made, and hold tensors.
  if (callee.is(pickle_kind::global) && made_.global(callee).is("collections", "OrderedDict")) {
    const auto items = made_.tuple(arguments);
    const bool from_pairs = items.size() == 1 && items[0].is(pickle_kind::list);
    if (!items.empty() && !from_pairs) {
      return fail(errc::malformed_header, "an OrderedDict is made of something unknown");
    }
    const pickle_value pairs = from_pairs ? items[0] : pickle_value();
    return push_container(pickle_kind::dict) && (!from_pairs || fill_from_pairs(pairs));
  }
  const std::array<pickle_value, 2> both = {callee, arguments};
  return push({pickle_kind::call, add_items(both)});
}

// The state of an object, which nobody needs; but a tensor's would be another storage.
bool machine::build() {
  pickle_value state;
  if (!pop(state)) return false;
  if (stack_.size() <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  const pickle_value object = stack_.back();
  if (!object.is(pickle_kind::call)) return true;
  const pickle_value callee = made_.callee(object);
  if (!callee.is(pickle_kind::global) || !made_.global(callee).name.starts_with("_rebuild")) {
    return true;
  }
  return fail(errc::unsupported_feature, "a tensor would be changed after it was made");
}

bool machine::step(unsigned char code) {
  pickle_value top;
  std::uint64_t value = 0;
  switch (code) {
    case 0x80:
      if (!number<std::uint8_t>(value)) return false;
      if (value >= protocol_min && value <= protocol_max) return true;
      return fail(errc::unsupported_feature, "this is a pickle of protocol " + grouped(value) +
                                                 ", and protocols 2 and 3 are read");
    case 'N': return push({pickle_kind::none, 0});
    case 0x88: return push({pickle_kind::boolean, 1});
    case 0x89: return push({pickle_kind::boolean, 0});
    case 'J':
    case 'K':
    case 'M':
    case 'G':
    case 0x8A: return push_number(code);
    case 'X':
    case 'U': return push_text(code);
    case '(':
      if (!charge(1) || !check_height(marks_.size())) return false;
      marks_.push_back(stack_.size());
      return true;
    case 't':
    case ')':
    case 0x85:
    case 0x86:
    case 0x87: return build_tuple(code);
    case ']':
    case 0x8F: return push_container(pickle_kind::list);
    case '}': return push_container(pickle_kind::dict);
    case 'a':
    case 'e':
    case 's':
    case 'u': return fill(code);
    case 'q':
    case 'r':
    case 'h':
    case 'j': return remember(code);
    case 'c': return global();
    case 'R':
    case 0x81: return call();
    case 'b': return build();
    case 'Q': {
      if (!pop(top)) return false;
      const pickle_value kept(pickle_kind::persistent, add_items(std::span(&top, 1)));
      made_.persistents.push_back(kept);
      return charge(1) && push(kept);
    }
    default:
      return fail(errc::unsupported_feature,
                  "the opcode " + shown(code) + " is none that a checkpoint of PyTorch's has");
  }
}

result<pickle> machine::run() {
  for (;;) {
    opcode_at_ = at_;
    std::span<const std::byte> code;
    if (!take(1, code)) return fault_;
    const auto opcode = std::to_integer<unsigned char>(code.front());
    if (opcode == '.') break;
    if (!step(opcode)) return fault_;
  }
  if (stack_.size() != 1 || !marks_.empty()) {
    fail(errc::malformed_header,
         "the pickle ends with " + grouped(stack_.size()) + " values on its stack instead of one");
    return fault_;
  }
  made_.root = stack_.back();
  made_.end = at_;
  return std::move(made_);
}

}  // namespace

pickle_value pickle_value::of_integer(std::int64_t value) noexcept {
  pickle_value out;
  out.bits_ =
      static_cast<std::uint64_t>(value) << 4 | static_cast<std::uint64_t>(pickle_kind::integer);
  return out;
}

result<pickle> read_pickle(std::span<const std::byte> bytes, std::uint64_t first_byte) {
  return machine(as_text(bytes), first_byte).run();
}

}  // namespace ringload::inline v0
