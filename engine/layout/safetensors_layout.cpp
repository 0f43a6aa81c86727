// SPDX-License-Identifier: Apache-2.0
#include "layout/safetensors_layout.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <tuple>

#include "core/block.hpp"
#include "core/checked.hpp"
#include "formats/json_text.hpp"
#include "formats/printable.hpp"
#include "formats/safetensors.hpp"
#include "formats/utf8.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t alignment_max = 2U << 20;
constexpr std::size_t rank_max = 64;  // What a strict reader takes.

result<void> check_settings(const safetensors_settings& how) {
  const auto wrong = [](std::string cause) {
    return fault{errc::invalid_saving, "saving", std::move(cause)};
  };
  const bool power = (how.alignment & (how.alignment - 1)) == 0;
  if (!power || how.alignment < 8 || how.alignment > alignment_max) {
    return wrong("alignment must be a power of two, 8 to " + grouped(alignment_max));
  }
  if (how.shards.bytes > 0 && how.shards.count > 0) {
    return wrong("shard_bytes and shard_count are not for the same save");
  }
  if (!how.folder && (how.shards.bytes > 0 || how.shards.count > 0)) {
    return wrong("shards go into a folder, and the path is that of a file");
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : how.metadata) {
    if (utf8_valid_bytes(key) != key.size() || utf8_valid_bytes(value) != value.size()) {
      return wrong("metadata '" + printable(key) + "' is not UTF-8");
    }
    keys.push_back(key);
  }
  std::ranges::sort(keys);
  if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) {
    return wrong("metadata '" + printable(*twice) + "' is given twice");
  }
  return {};
}

result<void> check_name(std::string_view name) {
  const auto wrong = [&](const char* cause) {
    return fault{errc::invalid_tensor, tensor_place(name), cause};
  };
  if (utf8_valid_bytes(name) != name.size()) return wrong("its name is not UTF-8");
  if (name == "__metadata__") return wrong("the format has that name for metadata");
  if (has_control_character(name)) return wrong("its name has a control character");
  return {};
}

result<std::uint64_t> bytes_of(const layout_tensor& one) {
  if (one.dtype == dtype::c128) {
    return fault{errc::unsupported_dtype, tensor_place(one.name), "safetensors has no C128"};
  }
  if (one.shape.size() > rank_max) {
    return fault{errc::invalid_tensor, tensor_place(one.name),
                 "it has more than " + grouped(rank_max) + " dimensions"};
  }
  // Strict readers refuse a product that does not fit, also where a size is 0.
  std::uint64_t elements = 1;
  bool fits = true;
  for (const std::uint64_t size : one.shape) {
    const auto product = checked_multiply(elements, std::max<std::uint64_t>(size, 1));
    fits = fits && product;
    elements = product.value_or(1);
  }
  const auto whole = checked_multiply(elements, bits(one.dtype));
  const bool empty = std::ranges::find(one.shape, std::uint64_t{0}) != one.shape.end();
  const auto all_bits = empty && whole ? std::uint64_t{0} : whole;
  if (!fits || !all_bits) {
    return fault{errc::size_overflow, tensor_place(one.name), "its shape does not fit in 64 bits"};
  }
  if (*all_bits % 8 != 0) {
    return fault{errc::fractional_bytes, tensor_place(one.name),
                 "it is no whole number of bytes long"};
  }
  return *all_bits / 8;
}

result<void> check_unique(std::span<const layout_tensor> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const layout_tensor& one : tensors) names.push_back(one.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return fault{errc::duplicate_tensor, tensor_place(*twice), "it is given twice"};
}

class layouter {
 public:
  layouter(std::span<const layout_tensor> tensors, const safetensors_settings& how)
      : tensors_(tensors), how_(how) {}

  result<checkpoint_layout> run();

 private:
  std::vector<std::uint32_t> ordered() const;
  result<void> add_file(std::string name, std::span<const std::uint32_t> which);
  std::string header_of(std::span<const std::uint32_t> which) const;
  file_layout index() const;
  std::string shard_name(std::uint32_t shard, std::uint32_t count) const;

  const std::span<const layout_tensor> tensors_;
  const safetensors_settings& how_;
  std::vector<std::uint64_t> bytes_;  // By tensor.
  checkpoint_layout out_;
};

// By enumerator, types are in the order of the reference, which its alignment ascends in.
std::vector<std::uint32_t> layouter::ordered() const {
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  if (how_.order == tensor_order::given) return order;
  const bool blocks_first = how_.alignment >= block_bytes;
  std::ranges::sort(order, {}, [&](std::uint32_t t) {
    const bool later = blocks_first && bytes_[t] % block_bytes != 0;
    return std::tuple(later, -static_cast<int>(tensors_[t].dtype), tensors_[t].name, t);
  });
  return order;
}

std::string layouter::header_of(std::span<const std::uint32_t> which) const {
  std::string text = "{";
  if (!how_.metadata.empty()) {
    text += R"("__metadata__":{)";
    for (const auto& [key, value] : how_.metadata) {
      if (text.back() != '{') text += ',';
      append_json_string(text, key);
      text += ':';
      append_json_string(text, value);
    }
    text += '}';
  }
  std::uint64_t at = 0;
  for (const std::uint32_t t : which) {
    if (text.size() > 1) text += ',';
    append_json_string(text, tensors_[t].name);
    text += R"(:{"dtype":")" + std::string(name(tensors_[t].dtype)) + R"(","shape":[)";
    for (const std::uint64_t size : tensors_[t].shape) {
      if (text.back() != '[') text += ',';
      append_json_number(text, size);
    }
    text += R"(],"data_offsets":[)";
    append_json_number(text, at);
    text += ',';
    append_json_number(text, at += bytes_[t]);
    text += "]}";
  }
  return text + '}';
}

result<void> layouter::add_file(std::string name, std::span<const std::uint32_t> which) {
  const std::string json = header_of(which);
  const std::uint64_t data_begin =
      round_up<std::uint64_t>(safetensors_prefix_bytes + json.size(), how_.alignment);
  const std::uint64_t header_bytes = data_begin - safetensors_prefix_bytes;
  if (header_bytes > safetensors_header_bytes_max) {
    return fault{errc::header_too_large, name,
                 "the header would have " + grouped(header_bytes) + " bytes, and no more than " +
                     grouped(safetensors_header_bytes_max) + " are allowed"};
  }
  file_layout made;
  made.name = std::move(name);
  for (unsigned i = 0; i < safetensors_prefix_bytes; ++i) {
    made.head.push_back(static_cast<char>(header_bytes >> (8 * i) & 0xFF));
  }
  made.head += json;
  made.head.resize(data_begin, ' ');
  made.bytes = data_begin;
  const auto file = static_cast<std::uint32_t>(out_.files.size());
  for (const std::uint32_t t : which) {
    out_.tensors[t] = {file, made.bytes, bytes_[t]};
    made.bytes += bytes_[t];
  }
  out_.files.push_back(std::move(made));
  return {};
}

std::string layouter::shard_name(std::uint32_t shard, std::uint32_t count) const {
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), "model-%05u-of-%05u.safetensors", shard + 1, count);
  return text.data();
}

// As transformers writes it: two spaces of indent, keys sorted.
file_layout layouter::index() const {
  std::vector<std::uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::ranges::sort(order, {}, [&](std::uint32_t t) { return tensors_[t].name; });
  file_layout made;
  made.name = "model.safetensors.index.json";
  std::string& text = made.head;
  text = "{\n  \"metadata\": {\n    \"total_size\": ";
  append_json_number(text, std::accumulate(bytes_.begin(), bytes_.end(), std::uint64_t{0}));
  text += "\n  },\n  \"weight_map\": {";
  for (const std::uint32_t t : order) {
    text += text.back() == '{' ? "\n    " : ",\n    ";
    append_json_string(text, tensors_[t].name);
    text += ": \"" + out_.files[out_.tensors[t].file].name + '"';
  }
  text += "\n  }\n}\n";
  made.bytes = text.size();
  return made;
}

result<checkpoint_layout> layouter::run() {
  if (auto good = check_settings(how_); !good) return good.error();
  std::uint64_t total = 0;
  for (const layout_tensor& one : tensors_) {
    if (auto good = check_name(one.name); !good) return good.error();
    auto bytes = bytes_of(one);
    if (!bytes) return bytes.error();
    const auto sum = checked_add(total, *bytes);
    // No file is longer than 63 bits count.
    if (!sum || *sum > std::uint64_t{1} << 62) {
      return fault{errc::size_overflow, tensor_place(one.name), "all together are too large"};
    }
    total = *sum;
    bytes_.push_back(*bytes);
  }
  if (auto good = check_unique(tensors_); !good) return good.error();
  // Each tensor can be written. Below it is decided where.

  out_.tensors.resize(tensors_.size());
  const sharding shards = spread(bytes_, how_.shards);
  std::vector<std::vector<std::uint32_t>> of_shard(shards.count);
  for (const std::uint32_t t : ordered()) of_shard[shards.of_tensor[t]].push_back(t);
  for (std::uint32_t s = 0; s < shards.count; ++s) {
    std::string name;
    if (how_.folder) {
      name = shards.count == 1 ? "model.safetensors" : shard_name(s, shards.count);
    }
    if (auto good = add_file(std::move(name), of_shard[s]); !good) return good.error();
  }
  if (shards.count > 1) out_.files.push_back(index());
  return std::move(out_);
}

}  // namespace

result<checkpoint_layout> lay_out_safetensors(std::span<const layout_tensor> tensors,
                                              const safetensors_settings& how) {
  return layouter(tensors, how).run();
}

}  // namespace ringload::inline v0
