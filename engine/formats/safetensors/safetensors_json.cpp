// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/safetensors_json.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <ringload/dtype.hpp>

#include "base/printable.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/text/json_reader.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view metadata_key = "__metadata__";
constexpr std::size_t rank_max_strict = 64;
// Limit of nested containers in an unknown value. The reference allows 127 nested containers, and
// an unknown value is inside two of them: the header and the tensor's entry.
constexpr unsigned unknown_depth_strict = 8;
constexpr unsigned unknown_depth_reference = 127 - 2;

class header_reader {
 public:
  header_reader(std::string_view text, strictness strictness) : in_(text), profile_(strictness) {}

  result<safetensors_json> read();

 private:
  bool strict() const noexcept { return profile_ == strictness::strict; }
  bool read_all();
  bool read_metadata();
  bool read_tensor(std::string_view name);
  bool read_object(entry& tensor, claim& bytes);
  bool read_array(entry& tensor, claim& bytes);
  bool read_dtype(entry& tensor);
  bool read_shape(entry& tensor);
  bool read_offsets(claim& bytes);
  bool check_unknown_keys();
  fault at_fault() const;

  json_reader in_;
  strictness profile_;
  safetensors_json out_;
  std::optional<std::string_view> now_in_;      // The current top-level key.
  std::vector<std::string_view> unknown_keys_;  // Unknown keys of the current entry.
};

std::string byte_place(std::uint64_t file_byte) { return "byte " + grouped(file_byte); }

result<safetensors_json> header_reader::read() {
  if (!read_all()) return at_fault();
  return std::move(out_);
}

fault header_reader::at_fault() const {
  std::string place = byte_place(safetensors_prefix_bytes + in_.position());
  if (now_in_ == metadata_key) {
    place = std::string(metadata_key) + ", " + place;
  } else if (now_in_) {
    place = tensor_place(*now_in_) + ", " + place;
  }
  return {errc::malformed_header, std::move(place), in_.cause()};
}

bool header_reader::read_all() {
  bool metadata_seen = false;
  std::string_view key;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    now_in_ = key;
    if (key != metadata_key) {
      if (!read_tensor(key)) return false;
    } else {
      if (std::exchange(metadata_seen, true)) return in_.fail("the key stands twice");
      if (!read_metadata()) return false;
    }
    now_in_.reset();
  }
  return in_.end();
}

bool header_reader::read_metadata() {
  if (in_.peek() == 'n') return in_.null();
  std::string_view key;
  std::string_view value;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    if (!in_.string(value)) return false;
    out_.metadata.emplace_back(key, value);
  }
  return !in_.failed();
}

bool header_reader::read_tensor(std::string_view name) {
  entry tensor;
  claim bytes;
  in_.peek();
  bytes.tensor = static_cast<std::uint32_t>(out_.tensors.size());
  bytes.file_byte = static_cast<std::uint32_t>(safetensors_prefix_bytes + in_.position());
  if (strict() && has_control_character(name)) {
    return in_.fail("the tensor's name holds a control character");
  }
  tensor.name = name;
  const bool as_array = !strict() && in_.peek() == '[';
  if (!(as_array ? read_array(tensor, bytes) : read_object(tensor, bytes))) return false;
  out_.tensors.push_back(std::move(tensor));
  out_.claims.push_back(bytes);
  return true;
}

bool header_reader::read_object(entry& tensor, claim& bytes) {
  bool dtype_seen = false;
  bool shape_seen = false;
  bool offsets_seen = false;
  const auto once = [&](bool& seen) {
    return !std::exchange(seen, true) || in_.fail("the field stands twice in one entry");
  };
  unknown_keys_.clear();
  std::string_view key;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    bool accepted = false;
    if (key == "dtype") {
      accepted = once(dtype_seen) && read_dtype(tensor);
    } else if (key == "shape") {
      accepted = once(shape_seen) && read_shape(tensor);
    } else if (key == "data_offsets") {
      accepted = once(offsets_seen) && read_offsets(bytes);
    } else {
      unknown_keys_.push_back(key);
      accepted = in_.skip_value(strict() ? unknown_depth_strict : unknown_depth_reference);
    }
    if (!accepted) return false;
  }
  if (in_.failed()) return false;
  if (!dtype_seen) return in_.fail("the entry has no 'dtype'");
  if (!shape_seen) return in_.fail("the entry has no 'shape'");
  if (!offsets_seen) return in_.fail("the entry has no 'data_offsets'");
  return !strict() || check_unknown_keys();
}

bool header_reader::check_unknown_keys() {
  std::ranges::sort(unknown_keys_);
  const auto twice = std::ranges::adjacent_find(unknown_keys_);
  if (twice == unknown_keys_.end()) return true;
  return in_.fail("the key '" + printable(*twice) + "' stands twice in one entry");
}

// ["U8", [1], [0, 1]]: no format text allows it, but the reference's deserialiser lets it through.
bool header_reader::read_array(entry& tensor, claim& bytes) {
  const auto item = [&] { return in_.next_item() || in_.fail("the entry has too few items"); };
  if (!in_.enter_array()) return false;
  if (!item() || !read_dtype(tensor)) return false;
  if (!item() || !read_shape(tensor)) return false;
  if (!item() || !read_offsets(bytes)) return false;
  if (in_.next_item()) return in_.fail("the entry has too many items");
  return !in_.failed();
}

bool header_reader::read_dtype(entry& tensor) {
  std::string_view name;
  in_.peek();
  const std::size_t begin = in_.position();
  // {"U8": null}: the reference also accepts this by accident.
  const bool as_object = !strict() && in_.peek() == '{';
  if (as_object) {
    if (!in_.enter_object()) return false;
    if (!in_.next_key(name)) return in_.fail("the dtype is empty");
    if (!in_.null()) return false;
    std::string_view more;
    if (in_.next_key(more)) return in_.fail("the dtype names two types");
  } else {
    in_.string(name);
  }
  if (in_.failed()) return false;
  const auto type = dtype_named(name);
  // The format has no complex numbers of two f64.
  if (!type || *type == dtype::c128)
    return in_.fail_at(begin, "unknown dtype '" + printable(name) + "'");
  tensor.dtype = *type;
  return true;
}

bool header_reader::read_shape(entry& tensor) {
  if (!in_.enter_array()) return false;
  while (in_.next_item()) {
    std::uint64_t dim = 0;
    if (!in_.unsigned_integer(dim)) return false;
    if (strict() && tensor.shape.size() == rank_max_strict) {
      return in_.fail("the shape has more than " + std::to_string(rank_max_strict) + " dimensions");
    }
    tensor.shape.push_back(dim);
  }
  return !in_.failed();
}

bool header_reader::read_offsets(claim& bytes) {
  const auto item = [&] {
    return in_.next_item() || in_.fail("data_offsets must be two numbers: begin and end");
  };
  if (!in_.enter_array()) return false;
  if (!item() || !in_.unsigned_integer(bytes.begin)) return false;
  if (!item() || !in_.unsigned_integer(bytes.end)) return false;
  if (in_.next_item()) return in_.fail("data_offsets must be two numbers: begin and end");
  return !in_.failed();
}

// Returns the indices sorted by name. Equal names keep their order. Sorting instead of hashing
// keeps the cost at n log n for any names.
template <class Range, class Name>
std::vector<std::uint32_t> by_name(const Range& range, Name name) {
  std::vector<std::uint32_t> order(range.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const int compared = name(range[a]).compare(name(range[b]));
    return compared != 0 ? compared < 0 : a < b;
  });
  return order;
}

std::optional<fault> check_tensors_once(safetensors_json& header, strictness strictness) {
  const auto name = [](const entry& e) -> const std::string& { return e.name; };
  const auto order = by_name(header.tensors, name);
  std::vector<bool> dropped(header.tensors.size());
  bool has_duplicates = false;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const entry& first = header.tensors[order[i - 1]];
    if (first.name != header.tensors[order[i]].name) continue;
    if (strictness == strictness::strict) {
      return fault{errc::duplicate_tensor, tensor_place(first.name),
                   "the header describes it twice, at bytes " +
                       grouped(header.claims[order[i - 1]].file_byte) + " and " +
                       grouped(header.claims[order[i]].file_byte)};
    }
    dropped[order[i - 1]] = has_duplicates = true;  // The last entry wins, as in the reference.
  }
  // The remaining claims keep the old indices of their tensors, which do not change.
  if (has_duplicates)
    std::erase_if(header.claims, [&](const claim& c) { return dropped[c.tensor]; });
  return std::nullopt;
}

std::optional<fault> check_metadata_once(safetensors_json& header, strictness strictness) {
  auto& pairs = header.metadata;
  const auto key = [](const auto& pair) -> const std::string& { return pair.first; };
  const auto order = by_name(pairs, key);
  std::vector<bool> dropped(pairs.size());
  bool has_duplicates = false;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (pairs[order[i - 1]].first != pairs[order[i]].first) continue;
    if (strictness == strictness::strict) {
      return fault{errc::malformed_header, std::string(metadata_key),
                   "the key '" + printable(pairs[order[i]].first) + "' stands twice"};
    }
    dropped[order[i - 1]] = has_duplicates = true;
  }
  if (!has_duplicates) return std::nullopt;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!dropped[i]) std::swap(pairs[kept++], pairs[i]);
  }
  pairs.resize(kept);
  return std::nullopt;
}

}  // namespace

result<safetensors_json> describe_header(std::string_view text, strictness strictness) {
  auto header = header_reader(text, strictness).read();
  if (!header) return header.error();
  if (auto failure = check_tensors_once(*header, strictness)) return *failure;
  if (auto failure = check_metadata_once(*header, strictness)) return *failure;
  return header;
}

}  // namespace ringload::inline v0
