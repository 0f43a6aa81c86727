// SPDX-License-Identifier: Apache-2.0
#pragma once

// Visits the values of a pickled object for tensors_of_state().

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "formats/description_budget.hpp"
#include "formats/pytorch/torch_state.hpp"

namespace ringload::inline v0 {

// The number of omitted values, and the name of the first omitted value.
struct omitted_values {
  std::uint64_t count = 0;
  std::string first;

  void add(std::string_view name, std::string_view kind) {
    if (count++ != 0) return;
    first = "'" + printable(name) + "'";
    if (!kind.empty()) first += ", " + std::string(kind);
  }
};

class state_walker {
 public:
  state_walker(const pickle& in, const torch_storages& storages, const torch_state_source& from)
      : in_(in), storages_(storages), from_(from), budget_(from.strictness, from.file_bytes) {}

  result<file_entries> run();

 private:
  // Each of these functions returns false after a failure.
  bool check_globals();
  bool visit(pickle_value v, const std::string& name, unsigned depth);
  bool visit_dict(pickle_value v, const std::string& name, unsigned depth);
  std::optional<std::string> repeated_key(const std::vector<pickle_value>& items) const;
  bool visit_nameless(pickle_value v, const std::string& container, unsigned depth,
                      bool& is_reported);
  bool visit_items(std::span<const pickle_value> items, const std::string& name, unsigned depth);
  bool visit_call(const torch_call& call, const std::string& name, unsigned depth);
  bool add_tensor(const torch_call& call, const std::string& name);
  bool add_device_tensor(const torch_call& call, const std::string& name, unsigned depth);
  bool add_sparse(const torch_call& call, const std::string& name, unsigned depth);
  bool from_type(const torch_call& call, const std::string& name, unsigned depth);
  bool add_unreadable(const std::string& name, errc code, std::string cause);
  bool count_object(const std::string& name);
  bool check_budget(bool fits, const std::string& name);

  // The sizes of the lists in `entries_`.
  struct list_sizes {
    std::size_t tensors = 0;
    std::size_t composites = 0;
    std::size_t unreadable = 0;
  };
  list_sizes sizes() const {
    return {entries_.tensors.size(), entries_.composites.size(), entries_.unreadable.size()};
  }
  void shrink_to(const list_sizes& sizes) {
    entries_.tensors.resize(sizes.tensors);
    entries_.composites.resize(sizes.composites);
    entries_.unreadable.resize(sizes.unreadable);
  }

  bool fail(const std::string& name, errc code, std::string cause) {
    fault_ = {code, tensor_place(name), std::move(cause)};
    return false;
  }
  bool strict() const { return from_.strictness == strictness::strict; }
  bool joined(const std::string& parent, std::string_view key, std::string& out);
  bool check_names();
  void add_notes();

  const pickle& in_;
  const torch_storages& storages_;
  const torch_state_source& from_;
  file_entries entries_;
  description_budget budget_;
  omitted_values plain_;  // Values without tensors.
  std::size_t visits_ = 0;
  std::size_t name_bytes_ = 0;
  std::size_t joined_bytes_ = 0;
  std::uint64_t repeated_ = 0;
  fault fault_;
};

}  // namespace ringload::inline v0
