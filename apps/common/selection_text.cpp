// SPDX-License-Identifier: Apache-2.0
#include "selection_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <ringload/error.hpp>
#include <stdexcept>
#include <unordered_map>

#include "size.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

std::int64_t parse_index(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, number);
  const bool too_large = problem == std::errc::result_out_of_range ||
                         number == std::numeric_limits<std::int64_t>::max();
  if (stopped != end || text.empty() || (problem != std::errc() && !too_large)) {
    throw std::invalid_argument("has '" + std::string(text) +
                                "', expected an index or a range, such as 3, 0:128 or :");
  }
  if (too_large) throw std::invalid_argument("has an index of more than 64 bits");
  return number;
}

index_range parse_range(std::string_view text) {
  const std::size_t colon = text.find(':');
  index_range out;
  if (colon == std::string_view::npos) {
    out.begin = parse_index(trimmed(text));
    // For the index -1, the end stays empty, because the index 0 is not the end of the dimension.
    if (out.begin != -1) out.end = out.begin + 1;
    return out;
  }
  if (text.find(':', colon + 1) != std::string_view::npos) {
    throw std::invalid_argument("has a range with a step, expected a range without a step");
  }
  const std::string_view begin = trimmed(text.substr(0, colon));
  const std::string_view end = trimmed(text.substr(colon + 1));
  if (!begin.empty()) out.begin = parse_index(begin);
  if (!end.empty()) out.end = parse_index(end);
  return out;
}

// Returns the index counted from the beginning of a dimension of `size` indices, which may be
// `size`. Returns an empty optional if the index is outside the dimension.
std::optional<std::uint64_t> position_of(std::int64_t index, std::uint64_t size) {
  const auto unsigned_index = static_cast<std::uint64_t>(index);
  if (index >= 0) return unsigned_index <= size ? std::optional(unsigned_index) : std::nullopt;
  const std::uint64_t from_end = 0 - unsigned_index;
  return from_end <= size ? std::optional(size - from_end) : std::nullopt;
}

[[noreturn]] void fail(const slice_text& slice, errc code, const std::string& why) {
  throw error(code, "slice '" + printable(slice.text) + "'", why);
}

using tensors_by_name = std::unordered_map<std::string_view, const tensor_info*>;

// Returns the shape to which a slice of the tensor refers: see selection::slice(). If a part of the
// tensor, here an empty slice, has an original shape, slices count elements of the original shape.
const std::vector<std::uint64_t>& sliced_shape(const catalog& in, const tensor_info& tensor) {
  if (tensor.original_shape.empty()) return tensor.shape;
  catalog alone;
  alone.files = in.files;
  alone.tensors.push_back(tensor);
  const catalog part = chosen(alone, select().slice(tensor.name, 0, 0, 0));
  return part.tensors.front().original_shape.empty() ? tensor.shape : tensor.original_shape;
}

void add_slice(selection& to, const slice_text& slice, const catalog& in,
               const tensors_by_name& by_name) {
  const auto found = by_name.find(slice.name);
  if (found == by_name.end()) {
    fail(slice, errc::no_such_tensor,
         "the checkpoint has no tensor '" + printable(slice.name) + "'");
  }
  const std::vector<std::uint64_t>& shape = sliced_shape(in, *found->second);
  if (slice.ranges.size() > shape.size()) {
    fail(slice, errc::invalid_selection,
         fmt::format("{}, but the tensor has {}", counted(slice.ranges.size(), "range"),
                     counted(shape.size(), "dimension")));
  }
  bool any = false;
  for (std::uint32_t d = 0; d < slice.ranges.size(); ++d) {
    const index_range& range = slice.ranges[d];
    const auto begin = position_of(range.begin, shape[d]);
    const auto end = range.end ? position_of(*range.end, shape[d]) : shape[d];
    if (!begin || !end || *begin > *end) {
      fail(slice, errc::invalid_selection,
           begin && end ? fmt::format("the range of dimension {} ends before it begins", d)
                        : fmt::format("the range is not within dimension {}, whose size is {}", d,
                                      grouped(shape[d])));
    }
    // A range that covers the whole dimension is not added, so that a shard can still divide this
    // dimension.
    if (*begin == 0 && *end == shape[d]) continue;
    to.slice(slice.name, d, *begin, *end - *begin);
    any = true;
  }
  // Adds a range of the whole first dimension, so that the tensor is selected.
  if (!any) to.slice(slice.name, 0, 0, shape[0]);
}

}  // namespace

slice_text parse_slice(std::string_view text) {
  const std::size_t bracket = text.rfind('[');
  if (bracket == std::string_view::npos || !text.ends_with(']')) {
    throw std::invalid_argument(
        "has no ranges in brackets at the end, expected for example 'NAME[0:128, :]'");
  }
  slice_text out{std::string(text), std::string(text.substr(0, bracket)), {}};
  std::string_view ranges = text.substr(bracket + 1, text.size() - bracket - 2);
  if (trimmed(ranges).empty()) throw std::invalid_argument("has no range in its brackets");
  while (true) {
    const std::size_t comma = ranges.find(',');
    out.ranges.push_back(parse_range(trimmed(ranges.substr(0, comma))));
    if (comma == std::string_view::npos) return out;
    ranges.remove_prefix(comma + 1);
  }
}

shard_text parse_shard(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    throw std::invalid_argument("is invalid, expected GLOB:DIM, such as '*.q_proj.weight:0'");
  }
  const auto dim = parse_number(text.substr(colon + 1));
  if (!dim || *dim > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("does not end with the number of a dimension, counted from 0");
  }
  return {std::string(text.substr(0, colon)), static_cast<std::uint32_t>(*dim)};
}

place_text parse_place(std::string_view text) {
  place_text out;
  const std::size_t colon = text.rfind(':');
  if (colon == 0) throw std::invalid_argument("has no glob before its colon");
  if (colon != std::string_view::npos) out.glob = text.substr(0, colon);
  std::string_view where = colon == std::string_view::npos ? text : text.substr(colon + 1);
  if (where == "all") {
    out.number = all_devices;
    return out;
  }
  if (where == "spread") {
    out.how = place_text::way::spread;
    return out;
  }
  if (where.starts_with("dim")) {
    out.how = place_text::way::sharded;
    where.remove_prefix(3);
  }
  const auto number = parse_number(where);
  if (!number || *number >= all_devices) {
    throw std::invalid_argument("does not end with all, spread, the number of a device, or dimN");
  }
  out.number = static_cast<std::uint32_t>(*number);
  return out;
}

rank_text parse_rank(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto rank = parse_number(text.substr(0, slash));
  const auto ranks =
      slash == std::string_view::npos ? std::nullopt : parse_number(text.substr(slash + 1));
  if (!rank || !ranks) {
    throw std::invalid_argument("is invalid, expected R/N, such as '0/4' or '3/4'");
  }
  if (*rank >= *ranks) {
    throw std::invalid_argument(
        *ranks == 0 ? "has 0 ranks, expected at least 1"
                    : fmt::format("is invalid, expected 0/{0} to {1}/{0}", *ranks, *ranks - 1));
  }
  return {*rank, *ranks};
}

void check_complete(const selection_text& of, const std::string& prefix) {
  const auto needs = [&prefix](const char* part, const std::string& other) {
    throw std::invalid_argument(prefix + part + " needs " + other);
  };
  if (!of.shards.empty() && !of.rank) needs("shard", prefix + "rank");
  if (of.experts && !of.rank) needs("experts", prefix + "rank");
  if (of.rank && of.shards.empty() && !of.experts) {
    needs("rank", prefix + "shard or " + prefix + "experts");
  }
}

selection selection_of(const selection_text& from, const catalog& in) {
  const rank_text rank = from.rank.value_or(rank_text());
  selection out;
  for (const std::string& glob : from.select) out.matching(glob);
  for (const std::string& glob : from.except) out.except(glob);
  if (from.experts) out.experts(rank.rank, rank.ranks);
  if (!from.slices.empty()) {
    tensors_by_name by_name;
    for (const tensor_info& each : in.tensors) by_name.emplace(each.name, &each);
    for (const slice_text& slice : from.slices) add_slice(out, slice, in, by_name);
  }
  for (const shard_text& shard : from.shards) {
    out.shard(shard.glob, shard.dim, rank.rank, rank.ranks);
  }
  for (const place_text& place : from.places) {
    switch (place.how) {
      case place_text::way::one: out.on(place.glob, place.number); break;
      case place_text::way::spread: out.spread(place.glob); break;
      case place_text::way::sharded: out.shard(place.glob, place.number); break;
    }
  }
  return out;
}

}  // namespace ringload::tool
