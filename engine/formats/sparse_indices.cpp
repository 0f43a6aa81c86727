// SPDX-License-Identifier: Apache-2.0
#include "formats/sparse_indices.hpp"

#include <string>
#include <utility>

#include "formats/text/little_endian.hpp"

namespace ringload::inline v0 {

namespace {

fault wrong(std::string cause) { return {errc::wrong_indices, "", std::move(cause)}; }

}  // namespace

std::optional<index_rule> index_rule_of(const composite_info& whole, std::string_view part,
                                        std::uint64_t values) {
  index_rule rule;
  if (whole.layout == "sparse_coo" && part == "coords") {
    rule.bounds = whole.shape;
    rule.run = values;
    return rule.bounds.empty() ? std::nullopt : std::optional(std::move(rule));
  }
  if (whole.layout != "sparse_csr" || whole.shape.size() != 2) return std::nullopt;
  if (part == "indices") {
    rule.bounds = {whole.shape[1]};
    rule.run = values;
    return rule;
  }
  if (part != "indptr") return std::nullopt;
  rule.last = values;
  return rule;
}

result<void> index_checker::take_one(std::uint64_t value) {
  const std::uint64_t position = position_++;
  if (!rule_.bounds.empty()) {
    const auto dimension = static_cast<std::size_t>(position / rule_.run);
    if (value < rule_.bounds[dimension]) return {};
    return wrong("element " + grouped(position) + " is " + grouped(value) +
                 ", and the dimension has " + grouped(rule_.bounds[dimension]));
  }
  if (position == 0 && value != 0)
    return wrong("it begins with " + grouped(value) + ", and not with 0");
  if (value < previous_) {
    return wrong("element " + grouped(position) + " is " + grouped(value) + ", after " +
                 grouped(previous_));
  }
  previous_ = value;
  return {};
}

result<void> index_checker::take(std::span<const std::byte> bytes) {
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    const auto value = little_endian<std::uint64_t>(bytes.first(sizeof(std::uint64_t)));
    if (auto status = take_one(value); !status) return status;
  }
  return {};
}

result<void> index_checker::finish() const {
  if (!rule_.bounds.empty() || previous_ == rule_.last) return {};
  return wrong("it ends with " + grouped(previous_) + ", and there are " + grouped(rule_.last) +
               " values");
}

}  // namespace ringload::inline v0
