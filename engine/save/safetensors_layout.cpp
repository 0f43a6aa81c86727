// SPDX-License-Identifier: Apache-2.0

#include "save/safetensors_layout.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <tuple>

#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/description_budget.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/shard_index.hpp"
#include "formats/text/json_text.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t alignment_max = 2U << 20;
constexpr std::size_t rank_max = 64;  // A strict reader refuses tensors with more dimensions.

result<void> check_settings(const safetensors_settings& settings) {
  const auto wrong = [](std::string cause) {
    return fault{errc::invalid_saving, "saving", std::move(cause)};
  };
  const bool power = (settings.alignment & (settings.alignment - 1)) == 0;
  if (!power || settings.alignment < 8 || settings.alignment > alignment_max) {
    return wrong("alignment must be a power of two, 8 to " + grouped(alignment_max));
  }
  if (settings.shards.bytes > 0 && settings.shards.count > 0) {
    return wrong("shard_bytes and shard_count are both set, expected at most one");
  }
  if (!settings.folder && (settings.shards.bytes > 0 || settings.shards.count > 0)) {
    return wrong("shard_bytes and shard_count need a folder, but the path names a file");
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : settings.metadata) {
    if (utf8_valid_bytes(key) != key.size() || utf8_valid_bytes(value) != value.size()) {
      return wrong("metadata '" + printable(key) + "' is not UTF-8");
    }
    keys.push_back(key);
  }
  std::ranges::sort(keys);
  if (const auto duplicate = std::ranges::adjacent_find(keys); duplicate != keys.end()) {
    return wrong("duplicate metadata key '" + printable(*duplicate) + "'");
  }
  return {};
}

result<void> check_name(std::string_view name) {
  const auto wrong = [&](const char* cause) {
    return fault{errc::invalid_tensor, tensor_place(name), cause};
  };
  if (utf8_valid_bytes(name) != name.size()) return wrong("its name is not UTF-8");
  if (name == "__metadata__") return wrong("the name is reserved for metadata");
  if (has_control_character(name)) return wrong("its name has a control character");
  return {};
}

result<std::uint64_t> bytes_of(const layout_tensor& tensor) {
  if (tensor.dtype == dtype::c128) {
    return fault{errc::unsupported_dtype, tensor_place(tensor.name), "safetensors has no C128"};
  }
  if (tensor.shape.size() > rank_max) {
    return fault{errc::invalid_tensor, tensor_place(tensor.name),
                 "it has more than " + grouped(rank_max) + " dimensions"};
  }
  // Strict readers refuse a shape if the product of its nonzero dimensions does not fit into 64
  // bits.
  std::uint64_t elements = 1;
  bool fits = true;
  for (const std::uint64_t size : tensor.shape) {
    const auto product = checked_multiply(elements, std::max<std::uint64_t>(size, 1));
    fits = fits && product;
    elements = product.value_or(1);
  }
  const auto whole = checked_multiply(elements, bits(tensor.dtype));
  const bool empty = std::ranges::find(tensor.shape, std::uint64_t{0}) != tensor.shape.end();
  const auto all_bits = empty && whole ? std::uint64_t{0} : whole;
  if (!fits || !all_bits) {
    return fault{errc::size_overflow, tensor_place(tensor.name),
                 "its shape does not fit in 64 bits"};
  }
  if (*all_bits % 8 != 0) {
    return fault{errc::fractional_bytes, tensor_place(tensor.name),
                 "it has " + grouped(*all_bits) + " bits, expected a multiple of 8"};
  }
  return *all_bits / 8;
}

result<void> check_unique(std::span<const layout_tensor> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const layout_tensor& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto duplicate = std::ranges::adjacent_find(names);
  if (duplicate == names.end()) return {};
  return fault{errc::duplicate_tensor, tensor_place(*duplicate), "duplicate tensor name"};
}

class layouter {
 public:
  layouter(std::span<const layout_tensor> tensors, const safetensors_settings& settings)
      : tensors_(tensors), settings_(settings) {}

  result<checkpoint_layout> run();

 private:
  std::vector<std::uint32_t> ordered() const;
  result<void> add_file(std::string name, std::span<const std::uint32_t> tensors);
  std::string header_of(std::span<const std::uint32_t> tensors) const;
  result<void> add_index();
  result<void> check_readable() const;
  std::string shard_name(std::uint32_t shard, std::uint32_t count) const;

  const std::span<const layout_tensor> tensors_;
  const safetensors_settings& settings_;
  std::vector<std::uint64_t> bytes_;  // Indexed by tensor.
  checkpoint_layout out_;
};

// Returns the order of the tensors in the files. tensor_order::given is the order of the caller.
// tensor_order::reference is the order of the reference implementation: descending alignment of the
// dtypes. The enumerators of dtype are in ascending order of alignment. If settings_.alignment is
// at least 4 KiB, the tensors whose size is a multiple of 4 KiB come first in
// tensor_order::reference. Therefore each of these tensors begins at a multiple of 4 KiB.
std::vector<std::uint32_t> layouter::ordered() const {
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  if (settings_.order == tensor_order::given) return order;
  const bool blocks_first = settings_.alignment >= block_bytes;
  std::ranges::sort(order, {}, [&](std::uint32_t t) {
    const bool later = blocks_first && bytes_[t] % block_bytes != 0;
    return std::tuple(later, -static_cast<int>(tensors_[t].dtype), tensors_[t].name, t);
  });
  return order;
}

std::string layouter::header_of(std::span<const std::uint32_t> tensors) const {
  std::string text = "{";
  if (!settings_.metadata.empty()) {
    text += R"("__metadata__":{)";
    for (const auto& [key, value] : settings_.metadata) {
      if (text.back() != '{') text += ',';
      append_json_string(text, key);
      text += ':';
      append_json_string(text, value);
    }
    text += '}';
  }
  std::uint64_t offset = 0;
  for (const std::uint32_t t : tensors) {
    if (text.size() > 1) text += ',';
    append_json_string(text, tensors_[t].name);
    text += R"(:{"dtype":")" + std::string(name(tensors_[t].dtype)) + R"(","shape":[)";
    for (const std::uint64_t size : tensors_[t].shape) {
      if (text.back() != '[') text += ',';
      append_json_number(text, size);
    }
    text += R"(],"data_offsets":[)";
    append_json_number(text, offset);
    text += ',';
    append_json_number(text, offset += bytes_[t]);
    text += "]}";
  }
  return text + '}';
}

result<void> layouter::add_file(std::string name, std::span<const std::uint32_t> tensors) {
  const std::string json = header_of(tensors);
  const std::uint64_t data_begin =
      round_up<std::uint64_t>(safetensors_prefix_bytes + json.size(), settings_.alignment);
  const std::uint64_t header_bytes = data_begin - safetensors_prefix_bytes;
  if (header_bytes > safetensors_header_bytes_max) {
    return fault{errc::header_too_large, name,
                 "the header would have " + grouped(header_bytes) + " bytes, the limit is " +
                     grouped(safetensors_header_bytes_max)};
  }
  file_layout file_entry;
  file_entry.name = std::move(name);
  for (unsigned i = 0; i < safetensors_prefix_bytes; ++i) {
    file_entry.head.push_back(static_cast<char>(header_bytes >> (8 * i) & 0xFF));
  }
  file_entry.head += json;
  file_entry.head.resize(data_begin, ' ');
  file_entry.bytes = data_begin;
  const auto file = static_cast<std::uint32_t>(out_.files.size());
  for (const std::uint32_t t : tensors) {
    out_.tensors[t] = {file, file_entry.bytes, bytes_[t]};
    file_entry.bytes += bytes_[t];
  }
  out_.files.push_back(std::move(file_entry));
  return {};
}

std::string layouter::shard_name(std::uint32_t shard, std::uint32_t count) const {
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), "model-%05u-of-%05u.safetensors", shard + 1, count);
  return text.data();
}

// Adds the index file in the style of the Python library transformers: two spaces of
// indentation, sorted keys.
result<void> layouter::add_index() {
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, {}, [&](std::uint32_t t) { return tensors_[t].name; });
  file_layout index_file;
  index_file.name = "model.safetensors.index.json";
  std::string& text = index_file.head;
  text = "{\n  \"metadata\": {\n    \"total_size\": ";
  append_json_number(text, std::accumulate(bytes_.begin(), bytes_.end(), std::uint64_t{0}));
  text += "\n  },\n  \"weight_map\": {";
  for (const std::uint32_t t : order) {
    text += text.back() == '{' ? "\n    " : ",\n    ";
    append_json_string(text, tensors_[t].name);
    text += ": \"" + out_.files[out_.tensors[t].file].name + '"';
  }
  text += "\n  }\n}\n";
  index_file.bytes = text.size();
  if (index_file.bytes > shard_index_bytes_max) {
    return fault{errc::header_too_large, index_file.name,
                 "the index would have " + grouped(index_file.bytes) + " bytes, the limit is " +
                     grouped(shard_index_bytes_max)};
  }
  out_.files.push_back(std::move(index_file));
  return {};
}

// Fails unless strict reading accepts each file and the checkpoint as a whole.
result<void> layouter::check_readable() const {
  description_budget budget(strictness::strict);
  for (const file_layout& file : out_.files) {
    const auto header = std::as_bytes(std::span(file.head)).subspan(safetensors_prefix_bytes);
    auto entries = parse_safetensors(header, file.bytes, strictness::strict);
    if (!entries) return file.name.empty() ? entries.error() : entries.error().in(file.name);
    budget.add_file(file.bytes);
    if (!budget.take(*entries)) {
      return fault{errc::header_too_large, file.name, budget.cause()};
    }
  }
  return {};
}

result<checkpoint_layout> layouter::run() {
  if (auto status = check_settings(settings_); !status) return status.error();
  std::uint64_t total = 0;
  for (const layout_tensor& tensor : tensors_) {
    if (auto status = check_name(tensor.name); !status) return status.error();
    auto bytes = bytes_of(tensor);
    if (!bytes) return bytes.error();
    const auto sum = checked_add(total, *bytes);
    // Limits all tensors together to 2^62 bytes, so that every file size fits in 63 bits.
    if (!sum || *sum > std::uint64_t{1} << 62) {
      return fault{errc::size_overflow, tensor_place(tensor.name),
                   "the total size of the tensors exceeds 2^62 bytes"};
    }
    total = *sum;
    bytes_.push_back(*bytes);
  }
  if (auto status = check_unique(tensors_); !status) return status.error();
  // All tensors are valid. check_readable() can still refuse the files, for example because a
  // header is too large.

  out_.tensors.resize(tensors_.size());
  const sharding shards = spread(bytes_, settings_.shards);
  std::vector<std::vector<std::uint32_t>> shard_tensors(shards.count);
  for (const std::uint32_t t : ordered()) shard_tensors[shards.of_tensor[t]].push_back(t);
  for (std::uint32_t s = 0; s < shards.count; ++s) {
    std::string name;
    if (settings_.folder) {
      name = shards.count == 1 ? "model.safetensors" : shard_name(s, shards.count);
    }
    if (auto status = add_file(std::move(name), shard_tensors[s]); !status) return status.error();
  }
  if (auto status = check_readable(); !status) return status.error();
  if (shards.count > 1) {
    if (auto status = add_index(); !status) return status.error();
  }
  return std::move(out_);
}

}  // namespace

result<checkpoint_layout> lay_out_safetensors(std::span<const layout_tensor> tensors,
                                              const safetensors_settings& settings) {
  return layouter(tensors, settings).run();
}

}  // namespace ringload::inline v0
