// SPDX-License-Identifier: Apache-2.0
#pragma once

// First step of choose(): finds the selected tensors, without their ranges and devices. Pure
// functions.

#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "catalog/name_index.hpp"

namespace ringload::inline v0 {

struct selection_context {
  const catalog& from;
  const name_index& names;  // The index of the names in `from`.
  const detail::requests& requests;
  const std::string& source;  // The name of `from` for error texts. May be empty.

  std::uint32_t tensors() const { return static_cast<std::uint32_t>(from.tensors.size()); }
  const std::string& name(std::uint32_t t) const { return from.tensors[t].name; }

  // Returns the place of an error. The overload without `subject` is for errors that do not belong
  // to one tensor.
  std::string place() const { return place("selection"); }
  std::string place(const std::string& subject) const {
    return source.empty() ? subject : source + ": " + subject;
  }
  fault invalid_rank(std::uint64_t rank, std::uint64_t ranks) const;

  // Returns the index of the tensor `name`. If the tensor does not exist and missing names are
  // allowed, returns an empty optional.
  result<std::optional<std::uint32_t>> find(const std::string& name) const;
  // Fails if `is_matched` is false, which means that `glob` matches no tensor. If missing names are
  // allowed, fails only if `glob` matches an unreadable object.
  result<void> check_any_found(bool is_matched, const std::string& glob) const;
};

// Both lists are indexed by tensor of the catalog. Both elements of a tensor can be true.
struct taken_tensors {
  std::vector<bool> separate;    // True if the tensor is loaded separately.
  std::vector<bool> fused_part;  // True if the tensor is a part of a fused tensor.

  bool is_taken(std::uint32_t t) const { return separate[t] || fused_part[t]; }
};

// Applies the names, globs, predicates, exceptions, experts and fused tensors of the selection.
// Tensors of slices are added later, by choose().
result<taken_tensors> take_tensors(const selection_context& context);

}  // namespace ringload::inline v0
