// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/safetensors_json.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <ringload/dtype.hpp>

#include "base/printable.hpp"
#include "formats/description_budget.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/text/json_reader.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view metadata_key = "__metadata__";
constexpr std::size_t rank_max_strict = 64;
constexpr std::size_t keys_max_strict = 100'000;  // Maximum number of metadata keys.
constexpr std::size_t keys_between_checks = 65'536;
// Limits for the nesting depth of an unknown value. The reference implementation allows 127 nested
// containers, including the header and the tensor's entry, which enclose the unknown value.
constexpr unsigned unknown_depth_strict = 8;
constexpr unsigned unknown_depth_reference = 127 - 2;

// Returns the indices sorted by name. Equal names keep their order. No hash table is used, because
// sorting takes at most n log n steps even for malicious names.
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

using key_value = std::pair<std::string, std::string>;

// Removes each pair whose key also occurs in a later pair. Returns the key of one removed pair.
std::optional<std::string> drop_duplicate_keys(std::vector<key_value>& pairs) {
  const auto key = [](const key_value& pair) -> const std::string& { return pair.first; };
  const auto order = by_name(pairs, key);
  std::vector<bool> dropped(pairs.size());
  std::optional<std::string> duplicate;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::string& current = pairs[order[i]].first;
    if (pairs[order[i - 1]].first != current) continue;
    dropped[order[i - 1]] = true;
    if (!duplicate) duplicate = current;
  }
  if (!duplicate) return std::nullopt;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!dropped[i]) std::swap(pairs[kept++], pairs[i]);
  }
  pairs.resize(kept);
  return duplicate;
}

class header_reader {
 public:
  header_reader(std::string_view text, std::uint64_t file_bytes, strictness strictness)
      : in_(text), strictness_(strictness), budget_(strictness, file_bytes) {}

  result<safetensors_json> read();

 private:
  bool strict() const noexcept { return strictness_ == strictness::strict; }
  bool read_all();
  bool read_metadata();
  bool check_metadata();
  bool read_tensor(std::string_view name);
  bool read_object(entry& tensor, claim& bytes);
  bool read_array(entry& tensor, claim& bytes);
  bool read_dtype(entry& tensor);
  bool read_shape(entry& tensor);
  bool read_offsets(claim& bytes);
  bool check_unknown_keys();
  bool fail_over_budget();
  fault parse_fault() const;

  json_reader in_;
  strictness strictness_;
  description_budget budget_;
  bool is_over_budget_ = false;
  safetensors_json out_;
  std::optional<std::string_view> current_key_;  // The current top-level key.
  std::vector<std::string_view> unknown_keys_;   // Unknown keys of the current entry.
};

std::string byte_place(std::uint64_t file_byte) { return "byte " + grouped(file_byte); }

result<safetensors_json> header_reader::read() {
  if (!read_all()) return parse_fault();
  return std::move(out_);
}

fault header_reader::parse_fault() const {
  std::string place = byte_place(safetensors_prefix_bytes + in_.position());
  if (current_key_ == metadata_key) {
    place = std::string(metadata_key) + ", " + place;
  } else if (current_key_) {
    place = tensor_place(*current_key_) + ", " + place;
  }
  return {is_over_budget_ ? errc::header_too_large : errc::malformed_header, std::move(place),
          in_.cause()};
}

bool header_reader::read_all() {
  bool metadata_seen = false;
  std::string_view key;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    current_key_ = key;
    if (key != metadata_key) {
      if (!read_tensor(key)) return false;
    } else {
      if (std::exchange(metadata_seen, true)) return in_.fail("duplicate key");
      if (!read_metadata()) return false;
    }
    current_key_.reset();
  }
  return in_.end();
}

bool header_reader::read_metadata() {
  if (in_.peek() == 'n') return in_.null();
  std::string_view key;
  std::string_view value;
  std::size_t check_at = keys_between_checks;
  if (!in_.enter_object()) return false;
  while (in_.next_key(key)) {
    if (!in_.string(value)) return false;
    if (!budget_.take_attribute(key.size(), value.size())) return fail_over_budget();
    out_.metadata.emplace_back(key, value);
    if (strict() && out_.metadata.size() > keys_max_strict) {
      return in_.fail("the metadata has more than " + grouped(keys_max_strict) + " keys");
    }
    // Duplicates are also dropped while reading, so that millions of duplicates need little memory.
    if (out_.metadata.size() < check_at) continue;
    if (!check_metadata()) return false;
    check_at = 2 * out_.metadata.size() + keys_between_checks;
  }
  return !in_.failed() && check_metadata();
}

bool header_reader::fail_over_budget() {
  is_over_budget_ = true;
  return in_.fail(budget_.cause());
}

bool header_reader::check_metadata() {
  const auto duplicate = drop_duplicate_keys(out_.metadata);
  if (!duplicate || !strict()) return true;
  return in_.fail("duplicate key '" + printable(*duplicate) + "'");
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
  if (!budget_.take_tensor(name.size(), tensor.shape.size())) return fail_over_budget();
  out_.tensors.push_back(std::move(tensor));
  out_.claims.push_back(bytes);
  return true;
}

bool header_reader::read_object(entry& tensor, claim& bytes) {
  bool dtype_seen = false;
  bool shape_seen = false;
  bool offsets_seen = false;
  const auto once = [&](bool& seen) {
    return !std::exchange(seen, true) || in_.fail("duplicate field");
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
  const auto duplicate = std::ranges::adjacent_find(unknown_keys_);
  if (duplicate == unknown_keys_.end()) return true;
  return in_.fail("duplicate key '" + printable(*duplicate) + "' in one entry");
}

// Reads ["U8", [1], [0, 1]]. The documentation of the format does not allow this form of an entry,
// but the reference implementation accepts the form.
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
  // Reads {"U8": null}, which the reference implementation accepts by accident.
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
                   "the header describes the tensor twice, at bytes " +
                       grouped(header.claims[order[i - 1]].file_byte) + " and " +
                       grouped(header.claims[order[i]].file_byte)};
    }
    // As in the reference implementation, the last entry is used.
    dropped[order[i - 1]] = has_duplicates = true;
  }
  // A claim contains the index of its tensor. The indices in the remaining claims stay valid,
  // because no tensor is moved.
  if (has_duplicates)
    std::erase_if(header.claims, [&](const claim& c) { return dropped[c.tensor]; });
  return std::nullopt;
}

}  // namespace

result<safetensors_json> describe_header(std::string_view text, std::uint64_t file_bytes,
                                         strictness strictness) {
  auto header = header_reader(text, file_bytes, strictness).read();
  if (!header) return header.error();
  if (auto failure = check_tensors_once(*header, strictness)) return *failure;
  return header;
}

}  // namespace ringload::inline v0
