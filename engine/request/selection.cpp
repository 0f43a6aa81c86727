// SPDX-License-Identifier: Apache-2.0

#include <ringload/options.hpp>
#include <ringload/selection.hpp>
#include <utility>

namespace ringload::inline v0 {

selection::selection() = default;
selection::selection(const selection& source) = default;
selection::selection(selection&& source) noexcept = default;
selection& selection::operator=(const selection& source) = default;
selection& selection::operator=(selection&& source) noexcept = default;
selection::~selection() = default;

bool selection::is_everything() const noexcept {
  const detail::requests& r = requests_;
  return r.names.empty() && r.globs.empty() && r.predicates.empty() && r.excluded_globs.empty() &&
         r.experts.empty() && r.slices.empty() && r.shards.empty() && r.fused.empty() &&
         r.places.empty();
}

selection::operator load_options() const {
  load_options options;
  options.select = *this;
  return options;
}

selection& selection::names(detail::list_argument<std::string> names) {
  std::vector<std::string> list = std::move(names).take();
  for (std::string& name : list) requests_.names.push_back(std::move(name));
  // An empty list must select no tensor. Without this predicate, a selection with an empty list
  // would select all tensors.
  if (list.empty()) requests_.predicates.emplace_back([](const tensor_info&) { return false; });
  return *this;
}

selection& selection::matching(std::string glob) {
  requests_.globs.push_back(std::move(glob));
  return *this;
}

selection& selection::where(std::function<bool(const tensor_info&)> predicate) {
  requests_.predicates.push_back(std::move(predicate));
  return *this;
}

selection& selection::except(std::string glob) {
  requests_.excluded_globs.push_back(std::move(glob));
  return *this;
}

selection& selection::experts(std::uint64_t rank, std::uint64_t ranks, std::uint64_t experts) {
  requests_.experts.assign(1, {rank, ranks, experts});
  return *this;
}

selection& selection::slice(std::string name, std::uint32_t dim, std::uint64_t first,
                            std::uint64_t count) {
  requests_.slices.push_back({std::move(name), dim, first, count});
  return *this;
}

selection& selection::shard(std::string glob, std::uint32_t dim, std::uint64_t rank,
                            std::uint64_t ranks) {
  requests_.shards.push_back({std::move(glob), dim, rank, ranks});
  return *this;
}

selection& selection::fused(std::string fused_name, detail::list_argument<std::string> names,
                            std::uint32_t dim) {
  requests_.fused.push_back({std::move(fused_name), std::move(names).take(), dim});
  return *this;
}

selection& selection::on(std::string glob, std::uint32_t device) {
  requests_.places.push_back(
      {std::move(glob), detail::place_rule::placement_kind::given_device, device, {}});
  return *this;
}

selection& selection::on(std::function<std::uint32_t(const tensor_info&)> device_of) {
  requests_.places.push_back(
      {{}, detail::place_rule::placement_kind::by_function, 0, std::move(device_of)});
  return *this;
}

selection& selection::spread(std::string glob) {
  requests_.places.push_back({std::move(glob), detail::place_rule::placement_kind::spread, 0, {}});
  return *this;
}

selection& selection::shard(std::string glob, std::uint32_t dim) {
  requests_.places.push_back(
      {std::move(glob), detail::place_rule::placement_kind::sharded, dim, {}});
  return *this;
}

selection& selection::allow_missing() {
  requests_.missing_is_allowed = true;
  return *this;
}

}  // namespace ringload::inline v0
