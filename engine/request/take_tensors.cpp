// SPDX-License-Identifier: Apache-2.0

#include "request/take_tensors.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/printable.hpp"
#include "request/unreadable.hpp"

namespace ringload::inline v0 {

namespace {

// Returns n if the name contains ".experts.<n>.".
std::optional<std::uint64_t> expert_of(std::string_view name) noexcept {
  constexpr std::string_view mark = ".experts.";
  for (std::size_t position = name.find(mark); position != name.npos;
       position = name.find(mark, position + 1)) {
    const char* const first = name.data() + position + mark.size();
    const char* const last = name.data() + name.size();
    std::uint64_t n = 0;
    const auto [end, failed] = std::from_chars(first, last, n);
    if (failed == std::errc() && end != first && end != last && *end == '.') return n;
  }
  return std::nullopt;
}

bool takes_all(const detail::requests& requests) {
  return requests.names.empty() && requests.globs.empty() && requests.predicates.empty();
}

result<void> take_chosen(const selection_context& context, std::vector<bool>& taken) {
  for (const std::string& wanted_name : context.requests.names) {
    auto t = context.find(wanted_name);
    if (!t) return t.error();
    if (*t) taken[**t] = true;
  }
  for (const std::string& glob : context.requests.globs) {
    bool is_matched = false;
    for (std::uint32_t t = 0; t < context.tensors(); ++t) {
      if (!matches(glob, context.name(t))) continue;
      taken[t] = is_matched = true;
    }
    if (auto status = context.check_any_found(is_matched, glob); !status) return status.error();
  }
  for (const auto& predicate : context.requests.predicates) {
    for (std::uint32_t t = 0; t < context.tensors(); ++t) {
      if (predicate(context.from.tensors[t])) taken[t] = true;
    }
  }
  for (const std::string& glob : context.requests.excluded_globs) {
    for (std::uint32_t t = 0; t < context.tensors(); ++t) {
      if (matches(glob, context.name(t))) taken[t] = false;
    }
  }
  return {};
}

result<void> drop_experts_of_other_ranks(const selection_context& context,
                                         std::vector<bool>& taken) {
  if (context.requests.experts.empty()) return {};
  const auto [rank, ranks, stated] = context.requests.experts.back();
  if (rank >= ranks) return context.invalid_rank(rank, ranks);
  std::uint64_t experts = stated;
  bool has_experts = false;
  for (const tensor_info& tensor : context.from.tensors) {
    const auto n = expert_of(tensor.name);
    has_experts = has_experts || n;
    if (n && stated == 0 && *n < ~std::uint64_t{0}) experts = std::max(experts, *n + 1);
  }
  if (!has_experts && !context.requests.missing_is_allowed) {
    return fault{errc::invalid_selection, context.place(),
                 "the checkpoint has no routed experts, expected names with '.experts.<n>.'"};
  }
  const std::uint64_t experts_per_rank = experts / ranks;
  const std::uint64_t remainder = experts % ranks;
  const std::uint64_t begin = rank * experts_per_rank + std::min(rank, remainder);
  const std::uint64_t end = begin + experts_per_rank + (rank < remainder ? 1 : 0);
  for (std::uint32_t t = 0; t < context.tensors(); ++t) {
    const auto n = expert_of(context.name(t));
    if (n && taken[t] && *n >= experts) {
      return fault{errc::invalid_selection, tensor_place(context.from, context.from.tensors[t]),
                   "it belongs to expert " + grouped(*n) + ", but the selection has only " +
                       grouped(experts) + " experts"};
    }
    if (n && (*n < begin || *n >= end)) taken[t] = false;
  }
  return {};
}

// Marks the parts of fused tensors. A part that no name, glob or predicate selects is not loaded as
// a separate tensor.
result<void> take_fused_parts(const selection_context& context, taken_tensors& taken) {
  for (const detail::fuse_request& request : context.requests.fused) {
    if (request.names.empty()) {
      return fault{errc::invalid_selection, context.place(tensor_place(request.fused_name)),
                   "the fused tensor has no parts, expected at least one name"};
    }
    for (const std::string& part_name : request.names) {
      auto t = context.find(part_name);
      if (!t) return t.error();
      if (!*t) continue;
      taken.fused_part[**t] = true;
      if (takes_all(context.requests)) taken.separate[**t] = false;
    }
  }
  return {};
}

}  // namespace

fault selection_context::invalid_rank(std::uint64_t rank, std::uint64_t ranks) const {
  return {errc::invalid_selection, place(),
          "there is no rank " + grouped(rank) + " of " + grouped(ranks)};
}

result<std::optional<std::uint32_t>> selection_context::find(const std::string& name) const {
  if (const auto index = names.find(name)) return index;
  if (const unreadable_info* const object = unreadable_named(from, name)) return fault_of(*object);
  if (requests.missing_is_allowed) return std::optional<std::uint32_t>();
  return fault{errc::no_such_tensor, place(tensor_place(name))};
}

result<void> selection_context::check_any_found(bool is_matched, const std::string& glob) const {
  if (is_matched) return {};
  for (const unreadable_info& object : from.unreadable) {
    if (matches(glob, object.name) || glob.starts_with(object.name + "/")) return fault_of(object);
  }
  if (requests.missing_is_allowed) return {};
  return fault{errc::no_such_tensor, place(), "no tensor matches '" + printable(glob) + "'"};
}

result<taken_tensors> take_tensors(const selection_context& context) {
  const bool is_everything = takes_all(context.requests);
  taken_tensors taken = {std::vector<bool>(context.tensors(), is_everything),
                         std::vector<bool>(context.tensors())};
  if (auto status = take_chosen(context, taken.separate); !status) return status.error();
  if (auto status = drop_experts_of_other_ranks(context, taken.separate); !status)
    return status.error();
  if (auto status = take_fused_parts(context, taken); !status) return status.error();
  return taken;
}

}  // namespace ringload::inline v0
