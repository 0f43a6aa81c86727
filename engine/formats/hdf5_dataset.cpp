// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5_dataset.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t shuffle_bytes_max = 255;  // The maximum of stored_stream::shuffle_bytes.

std::uint8_t swapped_unit(dtype type) noexcept {
  const unsigned bytes = bits(type) / 8;
  const bool complex = type == dtype::c64 || type == dtype::c128;
  const unsigned unit = complex ? bytes / 2 : bytes;
  return static_cast<std::uint8_t>(unit > 1 ? unit : 0);
}

// Returns the form of a dataset that was never written: all elements have the fill value.
std::shared_ptr<const stored_form> fill_only_form(const hdf5_dataset& dataset) {
  auto form = std::make_shared<stored_form>();
  form->swap_bytes = dataset.big_endian ? swapped_unit(dataset.dtype) : std::uint8_t{0};
  form->fill = dataset.fill;
  return form;
}

// Returns true if the members of stored_stream can express the filters. These members imply the
// order shuffle, zlib, checksum.
bool in_usual_order(const filter_chain& filters) noexcept {
  const auto place = [](const chain_filter& f) { return static_cast<int>(f.filter); };
  for (std::size_t i = 0; i + 1 < filters.size(); ++i) {
    if (place(filters[i]) >= place(filters[i + 1])) return false;
  }
  return filters.empty() || filters.front().filter != chain_filter::kind::shuffle ||
         filters.front().element_bytes <= shuffle_bytes_max;
}

}  // namespace

result<void> hdf5_dataset_parser::check_shape() {
  if (static_cast<unsigned>(dataset_.dtype) >= dtype_count || bits(dataset_.dtype) % 8 != 0) {
    return malformed("its element type is unknown");
  }
  if (dataset_.shape.size() > hdf5_rank_max) return malformed("it has too many dimensions");
  element_bytes_ = bits(dataset_.dtype) / 8;
  const auto count = element_count(dataset_.shape);
  const auto bytes = count ? checked_multiply(*count, element_bytes_) : std::nullopt;
  if (!bytes) {
    return fault{errc::size_overflow, "",
                 "its shape " + shape_text(dataset_.shape) + " does not fit in 64 bits"};
  }
  bytes_ = *bytes;
  if (!dataset_.fill.empty() && dataset_.fill.size() != element_bytes_) {
    return malformed("its fill value has " + grouped(dataset_.fill.size()) + " bytes");
  }
  return {};
}

result<entry> hdf5_dataset_parser::parse() {
  if (auto status = check_shape(); !status) return status.error();
  entry out;
  out.dtype = dataset_.dtype;
  out.shape = dataset_.shape;
  out.bytes = bytes_;
  decoded_bytes_ = bytes_;
  if (bytes_ == 0) return out;
  result<void> placed = malformed("its layout is unknown");
  switch (dataset_.layout) {
    case hdf5_dataset::kind::contiguous: placed = place_contiguous(out); break;
    case hdf5_dataset::kind::compact: placed = place_compact(out); break;
    case hdf5_dataset::kind::chunked: placed = place_chunks(out); break;
  }
  if (!placed) return placed.error();
  return out;
}

result<void> hdf5_dataset_parser::place_contiguous(entry& out) {
  if (dataset_.bytes == 0) {
    out.stored = fill_only_form(dataset_);
    return {};
  }
  if (dataset_.bytes != bytes_) {
    return fault{errc::wrong_tensor_bytes, "",
                 "it is stored in " + grouped(dataset_.bytes) + " bytes, its shape and type need " +
                     grouped(bytes_)};
  }
  if (!inside_file(dataset_.offset, bytes_)) {
    return fault{errc::extent_outside_file, "",
                 grouped(bytes_) + " bytes from byte " + grouped(dataset_.offset) +
                     " on are not in the file, which ends at " + grouped(file_bytes_)};
  }
  out.offset = dataset_.offset;
  const std::uint8_t swap = dataset_.big_endian ? swapped_unit(dataset_.dtype) : std::uint8_t{0};
  if (swap == 0) return {};
  stored_stream stream;
  stream.offset = dataset_.offset;
  stream.bytes = stream.decoded_bytes = bytes_;
  out.stored = one_stream(std::move(stream), out.shape, element_bytes_, swap);
  return {};
}

result<void> hdf5_dataset_parser::place_compact(entry& out) {
  if (dataset_.compact.size() != bytes_) {
    return fault{errc::wrong_tensor_bytes, "",
                 "its header holds " + grouped(dataset_.compact.size()) +
                     " bytes, its shape and type need " + grouped(bytes_)};
  }
  stored_stream stream;
  stream.bytes = stream.decoded_bytes = bytes_;
  stream.in_memory = std::make_shared<const std::vector<std::byte>>(std::move(dataset_.compact));
  const std::uint8_t swap = dataset_.big_endian ? swapped_unit(dataset_.dtype) : std::uint8_t{0};
  out.stored = one_stream(std::move(stream), out.shape, element_bytes_, swap);
  return {};
}

result<void> hdf5_dataset_parser::check_filters() const {
  if (dataset_.filters.size() > hdf5_filters_max) return malformed("it has too many filters");
  std::size_t deflated = 0;
  for (const chain_filter& filter : dataset_.filters) {
    if (filter.filter > chain_filter::kind::fletcher32)
      return malformed("one of its filters is unknown");
    if (filter.filter == chain_filter::kind::zlib) ++deflated;
    if (filter.filter == chain_filter::kind::shuffle && filter.element_bytes == 0) {
      return malformed("its shuffle is over elements of 0 bytes");
    }
  }
  if (deflated > 1) return unsupported("its chunks are deflated more than once");
  return {};
}

result<void> hdf5_dataset_parser::check_chunks() {
  if (auto status = check_filters(); !status) return status;
  const std::size_t rank = dataset_.shape.size();
  const auto elements = element_count(dataset_.chunk_shape);
  const auto bytes = elements ? checked_multiply(*elements, element_bytes_) : std::nullopt;
  if (rank == 0 || dataset_.chunk_shape.size() != rank || !bytes || *bytes == 0) {
    return malformed("the shape of its chunks is " + shape_text(dataset_.chunk_shape) +
                     ", its own " + shape_text(dataset_.shape));
  }
  chunk_bytes_ = *bytes;
  const auto numbers = checked_multiply(dataset_.chunks.size(), rank);
  if (dataset_.chunks.size() > hdf5_chunks_max || numbers != dataset_.chunk_origins.size()) {
    return malformed("it has " + grouped(dataset_.chunks.size()) +
                     " chunks, but their positions do not match this number");
  }
  std::vector<std::size_t> order(dataset_.chunks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [this](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(origin_of(a), origin_of(b));
  });
  const auto duplicate = std::ranges::adjacent_find(order, [this](std::size_t a, std::size_t b) {
    return std::ranges::equal(origin_of(a), origin_of(b));
  });
  if (duplicate != order.end()) {
    return malformed("two of its chunks have the place " + shape_text(origin_of(*duplicate)));
  }
  return {};
}

result<void> hdf5_dataset_parser::place_chunks(entry& out) {
  if (auto status = check_chunks(); !status) return status;
  auto form = std::make_shared<stored_form>();
  form->swap_bytes = dataset_.big_endian ? swapped_unit(dataset_.dtype) : std::uint8_t{0};
  form->fill = dataset_.fill;
  out.offset = file_bytes_;
  for (std::size_t i = 0; i < dataset_.chunks.size(); ++i) {
    auto chunk = piece_of(i);
    if (!chunk) return chunk.error();
    out.offset = std::min(out.offset, chunk->stored.offset);
    form->pieces.push_back(std::move(*chunk));
  }
  if (form->pieces.empty()) out.offset = 0;
  out.stored = std::move(form);
  return {};
}

result<piece> hdf5_dataset_parser::piece_of(std::size_t chunk) {
  const auto origin = origin_of(chunk);
  const std::size_t rank = origin.size();
  piece out;
  out.extent.resize(rank);
  bool is_partial = false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (origin[d] % dataset_.chunk_shape[d] != 0) {
      return malformed("a chunk begins at " + shape_text(origin) + ", but chunks have the shape " +
                       shape_text(dataset_.chunk_shape));
    }
    if (origin[d] >= dataset_.shape[d]) {
      return malformed("a chunk begins at " + shape_text(origin) + ", outside of the shape " +
                       shape_text(dataset_.shape));
    }
    out.extent[d] = std::min(dataset_.chunk_shape[d], dataset_.shape[d] - origin[d]);
    is_partial = is_partial || out.extent[d] < dataset_.chunk_shape[d];
  }
  auto stream = stream_of(dataset_.chunks[chunk], is_partial);
  if (!stream) return stream.error();
  const auto sum = checked_add(decoded_bytes_, stream->decoded_bytes);
  decoded_bytes_ = sum.value_or(~std::uint64_t{0});
  out.stored = std::move(*stream);
  out.origin.assign(origin.begin(), origin.end());
  out.stride_bytes.resize(rank);
  std::uint64_t stride = element_bytes_;
  for (std::size_t d = rank; d-- > 0;) {
    out.stride_bytes[d] = stride;
    stride *= dataset_.chunk_shape[d];
  }
  return out;
}

result<stored_stream> hdf5_dataset_parser::stream_of(const hdf5_chunk& chunk, bool is_partial) {
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
  for (std::size_t i = 0; i < dataset_.filters.size(); ++i) {
    const bool masked = (chunk.filter_mask >> i & 1U) != 0;
    const chain_filter& filter = dataset_.filters[i];
    const bool idle = filter.filter == chain_filter::kind::shuffle && filter.element_bytes == 1;
    if (!masked && !idle) filters.push_back(filter);
  }
  if (is_partial && dataset_.partial_chunks_unfiltered) filters.clear();
  using kind = chain_filter::kind;
  const auto count = [&](kind filter_kind) {
    return std::ranges::count(filters, filter_kind, &chain_filter::filter);
  };
  // The size after zlib depends on the content. A checksum adds 4 bytes. A shuffle keeps the size.
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
    out.stored_codec = codec::zlib;
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
      case chain_filter::kind::zlib: out.stored_codec = codec::zlib; break;
      case chain_filter::kind::fletcher32: out.fletcher32 = true; break;
    }
  }
  return out;
}

}  // namespace ringload::inline v0
