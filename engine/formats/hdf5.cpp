// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/shape.hpp"
#include "formats/text/json_text.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t reason_bytes_max = 200;
constexpr std::uint64_t shuffle_bytes_max = 255;  // The maximum of stored_stream::shuffle_bytes.

// Converts one dataset.
class dataset_parser {
 public:
  dataset_parser(hdf5_dataset&& from, std::uint64_t file_bytes)
      : from_(std::move(from)), file_bytes_(file_bytes) {}

  // The tensor, without its name.
  result<entry> parse();

  // The number of decoded bytes of the dataset.
  std::uint64_t decoded_bytes() const noexcept { return decoded_bytes_; }

 private:
  result<void> check_shape();
  result<void> place_contiguous(entry& out);
  result<void> place_compact(entry& out);
  result<void> place_chunks(entry& out);
  result<void> check_chunks();
  result<void> check_filters() const;
  result<piece> piece_of(std::size_t chunk);
  result<stored_stream> stream_of(const hdf5_chunk& chunk, bool reaches_over);
  std::span<const std::uint64_t> origin_of(std::size_t chunk) const {
    return std::span(from_.chunk_origins).subspan(chunk * from_.shape.size(), from_.shape.size());
  }
  bool inside_file(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= file_bytes_ && bytes <= file_bytes_ - offset;
  }

  hdf5_dataset from_;
  const std::uint64_t file_bytes_;
  std::uint64_t element_bytes_ = 1;
  std::uint64_t bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t decoded_bytes_ = 0;
  // The filters that remain after a mask, for chunks in an order that needs a chain.
  std::shared_ptr<const filter_chain> chain_;
};

std::uint8_t swapped_unit(dtype type) noexcept {
  const unsigned bytes = bits(type) / 8;
  const bool complex = type == dtype::c64 || type == dtype::c128;
  const unsigned unit = complex ? bytes / 2 : bytes;
  return static_cast<std::uint8_t>(unit > 1 ? unit : 0);
}

result<void> dataset_parser::check_shape() {
  if (static_cast<unsigned>(from_.dtype) >= dtype_count || bits(from_.dtype) % 8 != 0) {
    return malformed("its element type is none");
  }
  if (from_.shape.size() > hdf5_rank_max) return malformed("it has too many dimensions");
  element_bytes_ = bits(from_.dtype) / 8;
  const auto count = element_count(from_.shape);
  const auto bytes = count ? checked_multiply(*count, element_bytes_) : std::nullopt;
  if (!bytes) {
    return fault{errc::size_overflow, "",
                 "its shape " + shape_text(from_.shape) + " does not fit in 64 bits"};
  }
  bytes_ = *bytes;
  if (!from_.fill.empty() && from_.fill.size() != element_bytes_) {
    return malformed("its fill value has " + grouped(from_.fill.size()) + " bytes");
  }
  return {};
}

result<entry> dataset_parser::parse() {
  if (auto status = check_shape(); !status) return status.error();
  entry out;
  out.dtype = from_.dtype;
  out.shape = from_.shape;
  out.bytes = bytes_;
  decoded_bytes_ = bytes_;
  if (bytes_ == 0) return out;
  result<void> placed = malformed("its layout is none");
  switch (from_.layout) {
    case hdf5_dataset::kind::contiguous: placed = place_contiguous(out); break;
    case hdf5_dataset::kind::compact: placed = place_compact(out); break;
    case hdf5_dataset::kind::chunked: placed = place_chunks(out); break;
  }
  if (!placed) return placed.error();
  return out;
}

// The form of a dataset that was never written: all elements have the fill value.
std::shared_ptr<const stored_form> nothing_but_fill(const hdf5_dataset& dataset) {
  auto form = std::make_shared<stored_form>();
  form->swap_bytes = dataset.big_endian ? swapped_unit(dataset.dtype) : std::uint8_t{0};
  form->fill = dataset.fill;
  return form;
}

result<void> dataset_parser::place_contiguous(entry& out) {
  if (from_.bytes == 0) {
    out.stored = nothing_but_fill(from_);
    return {};
  }
  if (from_.bytes != bytes_) {
    return fault{errc::wrong_tensor_bytes, "",
                 "it is stored in " + grouped(from_.bytes) + " bytes, its shape and type need " +
                     grouped(bytes_)};
  }
  if (!inside_file(from_.offset, bytes_)) {
    return fault{errc::extent_outside_file, "",
                 grouped(bytes_) + " bytes from byte " + grouped(from_.offset) +
                     " on are not in the file, which ends at " + grouped(file_bytes_)};
  }
  out.offset = from_.offset;
  const std::uint8_t swap = from_.big_endian ? swapped_unit(from_.dtype) : std::uint8_t{0};
  if (swap == 0) return {};
  stored_stream stream;
  stream.offset = from_.offset;
  stream.bytes = stream.decoded_bytes = bytes_;
  out.stored = one_stream(std::move(stream), out.shape, element_bytes_, swap);
  return {};
}

result<void> dataset_parser::place_compact(entry& out) {
  if (from_.compact.size() != bytes_) {
    return fault{errc::wrong_tensor_bytes, "",
                 "its header holds " + grouped(from_.compact.size()) +
                     " bytes, its shape and type need " + grouped(bytes_)};
  }
  stored_stream stream;
  stream.bytes = stream.decoded_bytes = bytes_;
  stream.in_memory = std::make_shared<const std::vector<std::byte>>(std::move(from_.compact));
  const std::uint8_t swap = from_.big_endian ? swapped_unit(from_.dtype) : std::uint8_t{0};
  out.stored = one_stream(std::move(stream), out.shape, element_bytes_, swap);
  return {};
}

result<void> dataset_parser::check_filters() const {
  if (from_.filters.size() > hdf5_filters_max) return malformed("it has too many filters");
  std::size_t deflated = 0;
  for (const chain_filter& filter : from_.filters) {
    if (filter.filter > chain_filter::kind::fletcher32) return malformed("a filter of it is none");
    if (filter.filter == chain_filter::kind::zlib) ++deflated;
    if (filter.filter == chain_filter::kind::shuffle && filter.element_bytes == 0) {
      return malformed("its shuffle is over elements of 0 bytes");
    }
  }
  if (deflated > 1) return unsupported("its chunks are deflated more than once");
  return {};
}

result<void> dataset_parser::check_chunks() {
  if (auto status = check_filters(); !status) return status;
  const std::size_t rank = from_.shape.size();
  const auto elements = element_count(from_.chunk_shape);
  const auto bytes = elements ? checked_multiply(*elements, element_bytes_) : std::nullopt;
  if (rank == 0 || from_.chunk_shape.size() != rank || !bytes || *bytes == 0) {
    return malformed("the shape of its chunks is " + shape_text(from_.chunk_shape) + ", its own " +
                     shape_text(from_.shape));
  }
  chunk_bytes_ = *bytes;
  const auto numbers = checked_multiply(from_.chunks.size(), rank);
  if (from_.chunks.size() > hdf5_chunks_max || numbers != from_.chunk_origins.size()) {
    return malformed("it has " + grouped(from_.chunks.size()) + " chunks, and places for others");
  }
  std::vector<std::size_t> order(from_.chunks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [this](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(origin_of(a), origin_of(b));
  });
  const auto twice = std::ranges::adjacent_find(order, [this](std::size_t a, std::size_t b) {
    return std::ranges::equal(origin_of(a), origin_of(b));
  });
  if (twice != order.end()) {
    return malformed("two of its chunks have the place " + shape_text(origin_of(*twice)));
  }
  return {};
}

result<void> dataset_parser::place_chunks(entry& out) {
  if (auto status = check_chunks(); !status) return status;
  auto form = std::make_shared<stored_form>();
  form->swap_bytes = from_.big_endian ? swapped_unit(from_.dtype) : std::uint8_t{0};
  form->fill = from_.fill;
  out.offset = file_bytes_;
  for (std::size_t i = 0; i < from_.chunks.size(); ++i) {
    auto chunk = piece_of(i);
    if (!chunk) return chunk.error();
    out.offset = std::min(out.offset, chunk->stored.offset);
    form->pieces.push_back(std::move(*chunk));
  }
  if (form->pieces.empty()) out.offset = 0;
  out.stored = std::move(form);
  return {};
}

result<piece> dataset_parser::piece_of(std::size_t chunk) {
  const auto origin = origin_of(chunk);
  const std::size_t rank = origin.size();
  piece out;
  out.extent.resize(rank);
  bool reaches_over = false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (origin[d] % from_.chunk_shape[d] != 0) {
      return malformed("a chunk of it begins at " + shape_text(origin) + ", its chunks are " +
                       shape_text(from_.chunk_shape));
    }
    if (origin[d] >= from_.shape[d]) {
      return malformed("a chunk of it begins at " + shape_text(origin) + ", outside of its shape " +
                       shape_text(from_.shape));
    }
    out.extent[d] = std::min(from_.chunk_shape[d], from_.shape[d] - origin[d]);
    reaches_over = reaches_over || out.extent[d] < from_.chunk_shape[d];
  }
  auto stream = stream_of(from_.chunks[chunk], reaches_over);
  if (!stream) return stream.error();
  const auto sum = checked_add(decoded_bytes_, stream->decoded_bytes);
  decoded_bytes_ = sum.value_or(~std::uint64_t{0});
  out.stored = std::move(*stream);
  out.origin.assign(origin.begin(), origin.end());
  out.stride_bytes.resize(rank);
  std::uint64_t stride = element_bytes_;
  for (std::size_t d = rank; d-- > 0;) {
    out.stride_bytes[d] = stride;
    stride *= from_.chunk_shape[d];
  }
  return out;
}

// True if the fields of stored_stream can express the filters: shuffle, zlib, then checksum.
bool in_usual_order(const filter_chain& filters) noexcept {
  const auto place = [](const chain_filter& f) { return static_cast<int>(f.filter); };
  for (std::size_t i = 0; i + 1 < filters.size(); ++i) {
    if (place(filters[i]) >= place(filters[i + 1])) return false;
  }
  return filters.empty() || filters.front().filter != chain_filter::kind::shuffle ||
         filters.front().element_bytes <= shuffle_bytes_max;
}

result<stored_stream> dataset_parser::stream_of(const hdf5_chunk& chunk, bool reaches_over) {
  if (!inside_file(chunk.offset, chunk.bytes)) {
    return fault{errc::extent_outside_file, "",
                 "a chunk of " + grouped(chunk.bytes) + " bytes from byte " +
                     grouped(chunk.offset) + " on is not in the file, which ends at " +
                     grouped(file_bytes_)};
  }
  stored_stream out;
  out.offset = chunk.offset;
  out.bytes = chunk.bytes;
  out.decoded_bytes = chunk_bytes_;
  filter_chain filters;
  for (std::size_t i = 0; i < from_.filters.size(); ++i) {
    const bool masked = (chunk.filter_mask >> i & 1U) != 0;
    const chain_filter& filter = from_.filters[i];
    const bool idle = filter.filter == chain_filter::kind::shuffle && filter.element_bytes == 1;
    if (!masked && !idle) filters.push_back(filter);
  }
  if (reaches_over && from_.partial_chunks_unfiltered) filters.clear();
  using kind = chain_filter::kind;
  const auto count = [&](kind filter_kind) {
    return std::ranges::count(filters, filter_kind, &chain_filter::filter);
  };
  // Only the size after zlib depends on the content. A checksum adds 4 bytes.
  const auto checksum_bytes = 4 * static_cast<std::uint64_t>(count(kind::fletcher32));
  const std::uint64_t unpacked_bytes =
      checked_add(chunk_bytes_, checksum_bytes).value_or(~std::uint64_t{0});
  const bool packed = count(kind::zlib) != 0;
  if (packed ? chunk.bytes <= checksum_bytes : chunk.bytes != unpacked_bytes) {
    return fault{errc::wrong_tensor_bytes, "",
                 "a chunk of " + grouped(chunk_bytes_) + " bytes cannot be stored in " +
                     grouped(chunk.bytes)};
  }
  if (filters.empty()) return out;
  if (!in_usual_order(filters)) {
    out.how = codec::zlib;
    if (chain_ == nullptr || *chain_ != filters) {
      chain_ = std::make_shared<const filter_chain>(std::move(filters));
    }
    out.chain = chain_;
    return out;
  }
  for (const chain_filter& filter : filters) {
    switch (filter.filter) {
      case chain_filter::kind::shuffle:
        out.shuffle_bytes = static_cast<std::uint8_t>(filter.element_bytes);
        break;
      case chain_filter::kind::zlib: out.how = codec::zlib; break;
      case chain_filter::kind::fletcher32: out.fletcher32 = true; break;
    }
  }
  return out;
}

result<void> check_name(const std::string& name) {
  if (utf8_valid_bytes(name) == name.size() && name.size() <= hdf5_name_bytes_max) return {};
  return fault{errc::malformed_header, tensor_place(name),
               "its name is longer than " + grouped(hdf5_name_bytes_max) + " bytes or not UTF-8"};
}

std::string json_of(const hdf5_attribute& from) {
  std::string out;
  const auto append_all = [&](const auto& values, auto&& append) {
    bool first = true;
    for (const auto& value : values) {
      if (!std::exchange(first, false)) out += ", ";
      append(out, value);
    }
  };
  if (from.is_list) out += '[';
  switch (from.value_kind) {
    case hdf5_attribute::kind::texts:
      append_all(from.texts, [](auto& to, const auto& v) { append_json_string(to, v); });
      break;
    case hdf5_attribute::kind::floats:
      append_all(from.floats, [](auto& to, double v) { append_json_number(to, v); });
      break;
    case hdf5_attribute::kind::integers:
      append_all(from.integers, [](auto& to, std::int64_t v) { append_json_number(to, v); });
      break;
    case hdf5_attribute::kind::naturals:
      append_all(from.naturals, [](auto& to, std::uint64_t v) { append_json_number(to, v); });
      break;
  }
  if (from.is_list) out += ']';
  return out;
}

attributes::value_type metadata_of(const hdf5_attribute& from) {
  const bool one_text =
      !from.is_list && from.value_kind == hdf5_attribute::kind::texts && from.texts.size() == 1;
  return {as_utf8(from.name),
          one_text ? attribute(as_utf8(from.texts.front())) : attribute::json(json_of(from))};
}

std::string left_out_note(std::uint64_t count, std::string_view kind, const hdf5_left_out& first) {
  return std::string(kind) + ", and that are left out: " + grouped(count) + ", the first is '" +
         printable(first.name) + "' (" + printable(first.reason, reason_bytes_max) + ")";
}

result<void> add_left_out(const std::vector<hdf5_left_out>& from, strictness strictness,
                          file_entries& to) {
  for (const bool numbers : {true, false}) {
    const auto first = std::ranges::find(from, numbers, &hdf5_left_out::numbers);
    if (first == from.end()) continue;
    if (numbers && strictness == strictness::strict) {
      return fault{errc::unsupported_feature, tensor_place(first->name),
                   printable(first->reason, reason_bytes_max)};
    }
    const auto count = std::ranges::count(from, numbers, &hdf5_left_out::numbers);
    to.notes.push_back(left_out_note(
        static_cast<std::uint64_t>(count),
        numbers ? "tensors that are not read" : "objects that are no tensors", *first));
  }
  return {};
}

result<void> check_names_once(std::vector<std::string_view> names) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return fault{errc::duplicate_tensor, tensor_place(*twice),
               "two paths of the file become this name, in which '/' is a dot"};
}

}  // namespace

result<file_entries> parse_hdf5(hdf5_contents found, std::uint64_t file_bytes,
                                strictness strictness) {
  file_entries out;
  std::uint64_t decoded = 0;
  for (hdf5_dataset& dataset : found.datasets) {
    if (dataset.names.empty()) return malformed("a dataset has no name");
    std::vector<std::string> names = std::move(dataset.names);
    for (const std::string& name : names) {
      if (auto status = check_name(name); !status) return status.error();
    }
    dataset_parser work(std::move(dataset), file_bytes);
    auto tensor = work.parse();
    if (!tensor) return tensor.error().in(tensor_place(names.front()));
    decoded = checked_add(decoded, work.decoded_bytes()).value_or(~std::uint64_t{0});
    for (std::string& name : names) {
      out.tensors.push_back(*tensor);
      out.tensors.back().name = std::move(name);
    }
    if (out.tensors.size() > hdf5_names_max) return malformed("it has too many datasets");
  }
  if (decoded > hdf5_bytes_usual && decoded / hdf5_ratio_max > file_bytes) {
    return fault{errc::header_too_large, "byte 0",
                 "the datasets would become " + grouped(decoded) + " bytes, more than " +
                     grouped(hdf5_ratio_max) + " times the file's " + grouped(file_bytes)};
  }
  std::vector<std::string_view> names;
  for (const entry& tensor : out.tensors) names.push_back(tensor.name);
  if (auto status = check_names_once(std::move(names)); !status) return status.error();
  if (auto status = add_left_out(found.left_out, strictness, out); !status) return status.error();
  std::ranges::sort(out.tensors, {}, [](const entry& e) { return std::tie(e.offset, e.name); });
  for (const hdf5_attribute& attribute : found.attributes) {
    out.metadata.push_back(metadata_of(attribute));
  };
  if (found.attributes_left_out > 0) {
    out.notes.push_back(
        "attributes that are neither texts nor a few numbers, and that are left "
        "out: " +
        grouped(found.attributes_left_out));
  }
  return out;
}

}  // namespace ringload::inline v0
