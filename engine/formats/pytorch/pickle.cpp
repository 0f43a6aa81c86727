// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/pickle.hpp"

#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "formats/pytorch/pickle_machine.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t globals_max = 10'000;  // Pickles of PyTorch name some dozens of globals.
// The limit for values counts the state of an object as this number of values.
constexpr std::size_t state_values = 6;
constexpr unsigned protocol_min = 2;
constexpr unsigned protocol_max = 5;

struct opcode_name {
  unsigned char code;
  std::string_view name;
};

// Names of unsupported opcodes, for the message.
constexpr std::array<opcode_name, 18> other_opcodes = {{
    {'i', "INST"},
    {'o', "OBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {'I', "INT"},
    {'S', "STRING"},
    {'V', "UNICODE"},
    {'p', "PUT"},
    {'g', "GET"},
    {'P', "PERSID"},
    {'d', "DICT"},
    {'l', "LIST"},
    {0x8B, "LONG4"},
    {'T', "BINSTRING"},
    {'2', "DUP"},
    {0x92, "NEWOBJ_EX"},
    {0x97, "NEXT_BUFFER"},
}};

std::string opcode_text(unsigned char code) {
  std::array<char, 8> hex = {};
  std::snprintf(hex.data(), hex.size(), "0x%02X", static_cast<unsigned>(code));
  for (const opcode_name& opcode : other_opcodes) {
    if (opcode.code == code) return std::string(opcode.name) + " (" + hex.data() + ")";
  }
  return hex.data();
}

}  // namespace

bool pickle_machine::global() {
  std::string_view module;
  std::string_view name;
  return line(module) && line(name) && push_global(module, name);
}

// Executes STACK_GLOBAL: the module and the name are texts on the stack.
bool pickle_machine::global_of_stack() {
  pickle_value name;
  pickle_value module;
  if (!pop(name) || !pop(module)) return false;
  if (!name.has_kind(pickle_kind::text) || !module.has_kind(pickle_kind::text)) {
    return fail(errc::malformed_header, "the name of a class or function is not text");
  }
  if (name.b() >= pickle_name_bytes_max || module.b() >= pickle_name_bytes_max) {
    return fail(errc::malformed_header, "the name of a class or function is too long");
  }
  return push_global(parsed_.text(module), parsed_.text(name));
}

bool pickle_machine::push_global(std::string_view module, std::string_view name) {
  const auto [position, is_new] = global_numbers_.try_emplace(
      {module, name}, static_cast<std::uint32_t>(parsed_.globals.size()));
  if (is_new) {
    if (parsed_.globals.size() == globals_max) {
      return fail(errc::header_too_large,
                  "the pickle names more than " + grouped(globals_max) + " classes and functions");
    }
    parsed_.globals.push_back({module, name, static_cast<std::uint32_t>(opcode_at_)});
  }
  return push({pickle_kind::global, position->second});
}

// Fills an OrderedDict from the list of its pairs: OrderedDict([["name", tensor], ...]). Python 2
// writes this form.
bool pickle_machine::fill_from_pairs(pickle_value pairs) {
  const std::vector<pickle_value> list = parsed_.container(pairs);
  for (const pickle_value pair : list) {
    const auto items = pair.has_kind(pickle_kind::tuple) ? parsed_.tuple(pair)
                       : pair.has_kind(pickle_kind::list)
                           ? std::span<const pickle_value>(parsed_.container(pair))
                           : std::span<const pickle_value>();
    if (items.size() != 2)
      return fail(errc::malformed_header, "an item of a dictionary is not a pair");
    const std::array<pickle_value, 2> key_and_value = {items[0], items[1]};
    if (!extend(stack_.back(), key_and_value)) return false;
  }
  return true;
}

// The legacy format of torch.save() stores the class of a module as a reference to an external
// object: ("module", class, source file, source code). Returns the class, or an empty optional if
// `identity` refers to another object.
std::optional<pickle_value> pickle_machine::class_of_module(pickle_value identity) const {
  if (!identity.has_kind(pickle_kind::tuple)) return std::nullopt;
  const auto parts = parsed_.tuple(identity);
  const bool is_module = parts.size() >= 2 && parts[0].has_kind(pickle_kind::text) &&
                         parsed_.text(parts[0]) == "module" &&
                         parts[1].has_kind(pickle_kind::global);
  return is_module ? std::optional(parts[1]) : std::nullopt;
}

bool pickle_machine::call() {
  pickle_value arguments;
  pickle_value callee;
  if (!pop(arguments) || !pop(callee)) return false;
  if (!arguments.has_kind(pickle_kind::tuple)) {
    return fail(errc::malformed_header, "the arguments of a call are not a tuple");
  }
  if (!callee.has_kind(pickle_kind::global) && !callee.has_kind(pickle_kind::call)) {
    return fail(errc::malformed_header, "a call has an object that is not a function");
  }
  // A call of OrderedDict becomes a dictionary, because later opcodes may add tensors to the
  // dictionary.
  if (callee.has_kind(pickle_kind::global) &&
      parsed_.global(callee).is_named("collections", "OrderedDict")) {
    const auto items = parsed_.tuple(arguments);
    const bool from_pairs = items.size() == 1 && items[0].has_kind(pickle_kind::list);
    if (!items.empty() && !from_pairs) {
      return fail(errc::malformed_header, "an OrderedDict has unknown arguments");
    }
    const pickle_value pairs = from_pairs ? items[0] : pickle_value();
    return push_container(pickle_kind::dict) && (!from_pairs || fill_from_pairs(pairs));
  }
  const std::array<pickle_value, 2> parts = {callee, arguments};
  return push({pickle_kind::call, add_items(parts)});
}

// Stores the state of an object that a call created. Refuses the state of a tensor, because the
// state would replace the storage.
bool pickle_machine::build() {
  pickle_value state;
  if (!pop(state)) return false;
  if (stack_.size() <= floor()) return fail(errc::malformed_header, "the stack is empty here");
  const pickle_value object = stack_.back();
  if (!object.has_kind(pickle_kind::call)) return true;
  const pickle_value callee = parsed_.callee(object);
  if (!callee.has_kind(pickle_kind::global) ||
      !parsed_.global(callee).name.starts_with("_rebuild")) {
    parsed_.states[object.a()] = state;
    return charge(state_values);
  }
  return fail(errc::unsupported_feature, "the pickle changes a tensor after building it");
}

bool pickle_machine::step(unsigned char code) {
  pickle_value top;
  std::uint64_t value = 0;
  switch (code) {
    case 0x80:
      if (!number<std::uint8_t>(value)) return false;
      if (value >= protocol_min && value <= protocol_max) return true;
      return fail(errc::unsupported_feature,
                  "this is a pickle of protocol " + grouped(value) + ", expected 2 to 5");
    case 'N': return push({pickle_kind::none, 0});
    case 0x88: return push({pickle_kind::boolean, 1});
    case 0x89: return push({pickle_kind::boolean, 0});
    case 'J':
    case 'K':
    case 'M':
    case 'G':
    case 0x8A: return push_number(code);
    case 'X':
    case 'U':
    case 'B':
    case 'C':
    case 0x8C:
    case 0x8D:
    case 0x8E:
    case 0x96: return push_text(code);
    // FRAME: the number of bytes that Python reads in advance. This reader ignores the number.
    case 0x95: return number<std::uint64_t>(value);
    case '(':
      if (!charge(1) || !check_height(marks_.size())) return false;
      marks_.push_back(stack_.size());
      return true;
    case 't':
    case 0x91:
    case ')':
    case 0x85:
    case 0x86:
    case 0x87: return build_tuple(code);
    case ']':
    case 0x8F: return push_container(pickle_kind::list);
    case '}': return push_container(pickle_kind::dict);
    case 'a':
    case 'e':
    case 0x90:
    case 's':
    case 'u': return fill(code);
    case 'q':
    case 'r':
    case 'h':
    case 'j': return remember(code);
    case 0x94: return remember_as(remembered_);
    case 'c': return global();
    case 0x93: return global_of_stack();
    case 'R':
    case 0x81: return call();
    case 'b': return build();
    case 'Q': {
      if (!pop(top)) return false;
      if (const auto module_class = class_of_module(top)) return charge(1) && push(*module_class);
      const pickle_value persistent(pickle_kind::persistent, add_items(std::span(&top, 1)));
      parsed_.persistents.push_back(persistent);
      return charge(1) && push(persistent);
    }
    default:
      return fail(errc::unsupported_feature,
                  "the opcode " + opcode_text(code) + " is not used by PyTorch's checkpoints");
  }
}

result<pickle> pickle_machine::run() {
  for (;;) {
    opcode_at_ = position_;
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
  parsed_.root = stack_.back();
  parsed_.end = position_;
  return std::move(parsed_);
}

pickle_value pickle_value::of_integer(std::int64_t value) noexcept {
  pickle_value out;
  out.bits_ =
      static_cast<std::uint64_t>(value) << 4 | static_cast<std::uint64_t>(pickle_kind::integer);
  return out;
}

result<pickle> read_pickle(std::span<const std::byte> bytes, std::uint64_t first_byte,
                           const pickle_limits& limits) {
  return pickle_machine(as_text(bytes), first_byte, limits).run();
}

}  // namespace ringload::inline v0
