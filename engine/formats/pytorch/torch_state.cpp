// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/torch_state_walker.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/pytorch/torch_names.hpp"

namespace ringload::inline v0 {

namespace {

constexpr unsigned state_depth_max = 100;
constexpr std::size_t name_bytes_max = std::size_t{32} << 20;     // Limit for all tensor names.
constexpr std::size_t joined_bytes_max = std::size_t{256} << 20;  // Limit for names of all values.

// Returns PyTorch's names of the parts of a layout, in the order of the arguments.
std::span<const std::string_view> parts_of(std::string_view layout) {
  static constexpr std::string_view coo[] = {"indices", "values"};
  static constexpr std::string_view by_row[] = {"crow_indices", "col_indices", "values"};
  static constexpr std::string_view by_column[] = {"ccol_indices", "row_indices", "values"};
  if (layout == "sparse_coo") return coo;
  if (layout == "sparse_csr" || layout == "sparse_bsr") return by_row;
  if (layout == "sparse_csc" || layout == "sparse_bsc") return by_column;
  return {};
}

}  // namespace

bool state_walker::check_globals() {
  for (const pickle_global& global : in_.globals) {
    if (role_of(global) != torch_role::unknown) continue;
    fault_ = {errc::unsupported_feature, "byte " + grouped(from_.first_byte + global.offset),
              "the pickle names '" + full_name(global) +
                  "', which does not belong to a checkpoint of tensors (ringload calls nothing in "
                  "a pickle)"};
    return false;
  }
  return true;
}

bool state_walker::joined(const std::string& parent, std::string_view key, std::string& out) {
  joined_bytes_ += parent.size() + key.size();
  if (joined_bytes_ > joined_bytes_max) {
    return fail(parent, errc::header_too_large, "the names of the values inside are too long");
  }
  out = parent;
  if (!parent.empty()) out += '.';
  out += key;
  return true;
}

// Adds an object that is a tensor, or may contain tensors, to the unreadable objects. The other
// objects of the file are still read.
bool state_walker::add_unreadable(const std::string& name, errc code, std::string cause) {
  if (!count_object(name) || !check_budget(budget_.take_unreadable(name.size()), name))
    return false;
  entries_.unreadable.push_back(
      {name, fault{code, tensor_place(name), std::move(cause)}, !strict()});
  return true;
}

bool state_walker::count_object(const std::string& name) {
  name_bytes_ += name.size();
  const std::size_t objects = entries_.tensors.size() + entries_.unreadable.size();
  if (name_bytes_ <= name_bytes_max && objects < torch_tensors_max) return true;
  return fail(name, errc::header_too_large,
              "the file holds more than " + grouped(torch_tensors_max) + " tensors, or more than " +
                  grouped(name_bytes_max) + " bytes of their names");
}

bool state_walker::check_budget(bool fits, const std::string& name) {
  return fits || fail(name, errc::header_too_large, budget_.cause());
}

bool state_walker::visit_items(std::span<const pickle_value> items, const std::string& name,
                               unsigned depth) {
  std::string child;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!joined(name, std::to_string(i), child) || !visit(items[i], child, depth)) return false;
  }
  return true;
}

// Returns the text of a key that is repeated, or an empty optional. Python would keep only the last
// value, but no program writes such a dictionary.
std::optional<std::string> state_walker::repeated_key(
    const std::vector<pickle_value>& items) const {
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].has_kind(pickle_kind::text)) texts.push_back(in_.text(items[i]));
    if (items[i].has_kind(pickle_kind::integer)) numbers.push_back(items[i].integer());
  }
  std::ranges::sort(texts);
  if (const auto found = std::ranges::adjacent_find(texts); found != texts.end())
    return "'" + printable(*found) + "'";
  std::ranges::sort(numbers);
  const auto found = std::ranges::adjacent_find(numbers);
  return found == numbers.end() ? std::nullopt : std::optional(std::to_string(*found));
}

bool state_walker::visit_dict(pickle_value v, const std::string& name, unsigned depth) {
  const auto& items = in_.container(v);
  if (const auto key = repeated_key(items))
    return fail(name, errc::duplicate_tensor, "its key " + *key + " is repeated");
  std::string child;
  bool is_reported = false;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const pickle_value key = items[i];
    if (key.has_kind(pickle_kind::text)) {
      const std::string_view text = in_.text(key);
      if (utf8_valid_bytes(text) != text.size()) {
        return fail(name, errc::malformed_header, "one of its keys is not UTF-8");
      }
      if (!joined(name, text, child)) return false;
    } else if (key.has_kind(pickle_kind::integer)) {
      if (!joined(name, std::to_string(key.integer()), child)) return false;
    } else if (key.has_kind(pickle_kind::boolean)) {
      if (!joined(name, key.boolean() ? "True" : "False", child)) return false;
    } else if (key.has_kind(pickle_kind::none)) {
      if (!joined(name, "None", child)) return false;
    } else {
      if (!visit_nameless(items[i + 1], name, depth, is_reported)) return false;
      continue;
    }
    if (!visit(items[i + 1], child, depth)) return false;
  }
  return true;
}

// Omits the value of a key that cannot be a name, such as a float or a tuple. If the value has
// tensors, reports the container as unreadable. The container is reported only once.
bool state_walker::visit_nameless(pickle_value v, const std::string& container, unsigned depth,
                                  bool& is_reported) {
  const list_sizes before = sizes();
  if (!visit(v, container, depth)) return false;
  const list_sizes after = sizes();
  if (after.tensors == before.tensors && after.unreadable == before.unreadable) return true;
  shrink_to(before);
  if (std::exchange(is_reported, true)) return true;
  return add_unreadable(container, errc::unsupported_feature,
                        "it has tensors at a key that is neither text nor an integer");
}

bool state_walker::visit(pickle_value v, const std::string& name, unsigned depth) {
  if (++visits_ > pickle_values_max) {
    return fail(name, errc::header_too_large, "the same objects are repeated too often");
  }
  if (depth == state_depth_max) {
    return fail(
        name, errc::malformed_header,
        "it contains itself, or is nested more than " + std::to_string(state_depth_max) + " deep");
  }
  switch (v.kind()) {
    case pickle_kind::dict: return visit_dict(v, name, depth + 1);
    case pickle_kind::list: return visit_items(in_.container(v), name, depth + 1);
    case pickle_kind::tuple: return visit_items(in_.tuple(v), name, depth + 1);
    case pickle_kind::call: {
      const pickle_value callee = in_.callee(v);
      if (callee.has_kind(pickle_kind::global)) {
        return visit_call({in_.global(callee), in_.tuple(in_.arguments(v))}, name, depth + 1);
      }
      return add_unreadable(name, errc::unsupported_feature,
                            "it is the result of calling an object that another call returned");
    }
    case pickle_kind::none: plain_.add(name, "None"); return true;
    case pickle_kind::boolean: plain_.add(name, "True or False"); return true;
    case pickle_kind::integer:
    case pickle_kind::number: plain_.add(name, "a number"); return true;
    case pickle_kind::text: plain_.add(name, "text"); return true;
    case pickle_kind::bytes: plain_.add(name, "bytes"); return true;
    case pickle_kind::global: plain_.add(name, full_name(in_.global(v))); return true;
    case pickle_kind::persistent: plain_.add(name, "a storage without a shape"); return true;
  }
  return true;
}

bool state_walker::visit_call(const torch_call& call, const std::string& name, unsigned depth) {
  if (depth >= state_depth_max) {
    return fail(name, errc::malformed_header,
                "it is nested more than " + std::to_string(state_depth_max) + " deep");
  }
  switch (role_of(call.function)) {
    case torch_role::rebuild:
    case torch_role::rebuild_typed: return add_tensor(call, name);
    case torch_role::parameter:
      if (call.arguments.empty()) {
        return fail(name, errc::malformed_header, "a parameter has no arguments");
      }
      return visit(call.arguments[0], name, depth + 1);
    case torch_role::tensor_class:  // Parameter(tensor)
      if (call.arguments.empty()) {
        return add_unreadable(
            name, errc::unsupported_feature,
            "it is an object of '" + full_name(call.function) +
                "' that is filled after its construction, which is not supported");
      }
      return visit(call.arguments[0], name, depth + 1);
    case torch_role::container:
      if (call.arguments.empty()) break;
      return visit(call.arguments[0], name, depth + 1);
    case torch_role::from_type: return from_type(call, name, depth);
    case torch_role::device_tensor: return add_device_tensor(call, name, depth);
    case torch_role::sparse: return add_sparse(call, name, depth);
    case torch_role::unsupported:
      return add_unreadable(name, errc::unsupported_feature,
                            "it is " + std::string(kind_of_unsupported(call.function)) + " (" +
                                full_name(call.function) + "), which is not supported");
    case torch_role::unknown:
      return add_unreadable(name, errc::unsupported_feature,
                            "it is an object of '" + full_name(call.function) + "'");
    default: break;
  }
  plain_.add(name, full_name(call.function));
  return true;
}

// Handles _rebuild_from_type_v2(function, class, arguments, state).
bool state_walker::from_type(const torch_call& call, const std::string& name, unsigned depth) {
  const auto a = call.arguments;
  if (a.size() < 3 || !a[0].has_kind(pickle_kind::global) || !a[1].has_kind(pickle_kind::global) ||
      !a[2].has_kind(pickle_kind::tuple)) {
    return fail(name, errc::malformed_header,
                "its arguments must be a function, a class and a tuple");
  }
  if (role_of(in_.global(a[1])) != torch_role::tensor_class) {
    return add_unreadable(name, errc::unsupported_feature,
                          "it is a tensor of the class '" + full_name(in_.global(a[1])) + "'");
  }
  return visit_call({in_.global(a[0]), in_.tuple(a[2])}, name, depth + 1);
}

bool state_walker::add_tensor(const torch_call& call, const std::string& name) {
  auto tensor = rebuilt_tensor(in_, call, storages_);
  if (!tensor) {
    const fault failure = tensor.error();
    if (failure.code == errc::unsupported_feature) {
      return add_unreadable(name, errc::unsupported_feature, failure.cause());
    }
    fault_ = failure.in(tensor_place(name));
    return false;
  }
  if (!count_object(name)) return false;
  const std::uint64_t repeated = repeated_bytes(*tensor);
  const std::uint64_t allowed = std::max(from_.file_bytes, torch_repeated_bytes_usual);
  if (repeated > allowed || repeated_ > allowed - repeated) {
    return fail(name, errc::wrong_tensor_bytes,
                "it repeats its elements: " + grouped(tensor->bytes) +
                    " bytes would be built from far fewer bytes, in a file of " +
                    grouped(from_.file_bytes));
  }
  const std::size_t rank = tensor->shape.size();
  bool fits = budget_.take_tensor(name.size(), rank);
  if (tensor->stored != nullptr) fits = budget_.take_piece(rank);
  if (!check_budget(fits, name)) return false;
  repeated_ += repeated;
  tensor->name = name;
  entries_.tensors.push_back(std::move(*tensor));
  return true;
}

// Handles _rebuild_device_tensor_from_cpu_tensor(tensor, dtype, device, requires_grad). The dtype
// must be the dtype of `tensor`, because ringload does not convert the elements.
bool state_walker::add_device_tensor(const torch_call& call, const std::string& name,
                                     unsigned depth) {
  const auto a = call.arguments;
  if (a.size() < 2 || !a[0].has_kind(pickle_kind::call) || !a[1].has_kind(pickle_kind::global) ||
      role_of(in_.global(a[1])) != torch_role::dtype) {
    return fail(name, errc::malformed_header, "its arguments must be a tensor and a dtype");
  }
  const list_sizes before = sizes();
  if (!visit(a[0], name, depth + 1)) return false;
  if (entries_.unreadable.size() != before.unreadable) return true;
  if (entries_.tensors.size() != before.tensors + 1) {
    return fail(name, errc::malformed_header, "its copy on the CPU is not a dense tensor");
  }
  const auto type = element_of(in_.global(a[1]));
  if (type && type->dtype == entries_.tensors.back().dtype) return true;
  const std::string stored_type(ringload::name(entries_.tensors.back().dtype));
  shrink_to(before);
  return add_unreadable(name, errc::unsupported_feature,
                        "its elements of type " + stored_type + " would be converted to " +
                            full_name(in_.global(a[1])) + ", which is not supported");
}

// Handles _rebuild_sparse_tensor(_get_layout("torch.sparse_csr"), (crow_indices, col_indices,
// values, size)).
bool state_walker::add_sparse(const torch_call& call, const std::string& name, unsigned depth) {
  const auto a = call.arguments;
  const auto malformed = [&] {
    return fail(name, errc::malformed_header,
                "a sparse tensor must have a layout, parts and a size");
  };
  if (a.size() < 2 || !a[0].has_kind(pickle_kind::call) || !a[1].has_kind(pickle_kind::tuple) ||
      !in_.callee(a[0]).has_kind(pickle_kind::global) ||
      role_of(in_.global(in_.callee(a[0]))) != torch_role::layout) {
    return malformed();
  }
  const auto words = in_.tuple(in_.arguments(a[0]));
  if (words.size() != 1 || !words[0].has_kind(pickle_kind::text)) return malformed();
  std::string_view layout = in_.text(words[0]);
  if (layout.starts_with("torch.")) layout.remove_prefix(6);
  const auto parts = parts_of(layout);
  if (parts.empty()) {
    return add_unreadable(name, errc::unsupported_feature,
                          "its layout is '" + printable(layout) + "', which is not supported");
  }
  const auto values = in_.tuple(a[1]);
  if (values.size() <= parts.size()) return malformed();
  auto shape = dims_of(in_, values[parts.size()]);
  if (!shape) return malformed();

  composite whole{name, std::string(layout), {}, std::move(*shape), {}};
  const list_sizes before = sizes();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t tensors = entries_.tensors.size();
    if (!visit(values[i], name + "/" + std::string(parts[i]), depth + 1)) return false;
    if (entries_.unreadable.size() != before.unreadable) {
      const std::string cause = entries_.unreadable.back().cause.cause();
      shrink_to(before);
      return add_unreadable(name, errc::unsupported_feature,
                            "its part '" + std::string(parts[i]) + "': " + cause);
    }
    if (entries_.tensors.size() != tensors + 1) return malformed();
    whole.parts.emplace_back(parts[i]);
  }
  if (!check_budget(budget_.take_tensor(name.size(), whole.shape.size()), name)) return false;
  entries_.composites.push_back(std::move(whole));
  return true;
}

bool state_walker::check_names() {
  std::vector<std::string_view> names;
  names.reserve(entries_.tensors.size() + entries_.composites.size() + entries_.unreadable.size());
  for (const entry& tensor : entries_.tensors) names.push_back(tensor.name);
  for (const composite& object : entries_.composites) names.push_back(object.name);
  for (const unreadable_object& object : entries_.unreadable) names.push_back(object.name);
  std::ranges::sort(names);
  const auto duplicate = std::ranges::adjacent_find(names);
  if (duplicate == names.end()) return true;
  return fail(std::string(*duplicate), errc::duplicate_tensor,
              "two tensors have this name after their keys are joined by dots");
}

void state_walker::add_notes() {
  if (plain_.count != 0) {
    entries_.notes.push_back(grouped(plain_.count) +
                             " values that are not tensors are left out, the first is " +
                             plain_.first);
  }
  if (entries_.unreadable.empty()) return;
  const unreadable_object& first = entries_.unreadable.front();
  entries_.notes.push_back(
      std::string(strict() ? "objects and tensors that cannot be loaded: "
                           : "objects and tensors that are not read, and that are left out: ") +
      grouped(entries_.unreadable.size()) + ", the first is '" + printable(first.name) + "', " +
      first.cause.cause());
}

result<file_entries> state_walker::run() {
  if (strict() && !check_globals()) return fault_;
  const bool lone = in_.root.has_kind(pickle_kind::call);
  if (!visit(in_.root, lone ? from_.lone_name : std::string(), 0)) return fault_;
  if (!check_names()) return fault_;
  std::ranges::sort(entries_.tensors, [](const entry& a, const entry& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.name < b.name;
  });
  add_notes();
  return std::move(entries_);
}

result<file_entries> tensors_of_state(const pickle& in, const torch_storages& storages,
                                      const torch_state_source& from) {
  return state_walker(in, storages, from).run();
}

}  // namespace ringload::inline v0
