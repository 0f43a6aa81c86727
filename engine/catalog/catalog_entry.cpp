// SPDX-License-Identifier: Apache-2.0

#include "catalog/catalog_entry.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "formats/checksum_list.hpp"
#include "formats/codec/filter_chain.hpp"

namespace ringload::inline v0 {

namespace {

std::string_view name(codec method) noexcept {
  switch (method) {
    case codec::raw: return "";
    case codec::deflate: return "deflate";
    case codec::zlib: return "zlib";
    case codec::zstd: return "zstd";
    case codec::varint: return "varint";
  }
  return "";
}

bool covers(const piece& stored_piece, const std::vector<std::uint64_t>& shape) {
  return stored_piece.extent == shape &&
         std::ranges::all_of(stored_piece.origin, [](std::uint64_t origin) { return origin == 0; });
}

// Returns true if the elements are contiguous in row-major order. Ignores the strides of dimensions
// of size 1.
bool is_row_major(const piece& stored_piece, std::uint64_t element_bytes) {
  std::uint64_t expected = element_bytes;
  for (std::size_t d = stored_piece.extent.size(); d-- > 0;) {
    if (stored_piece.extent[d] == 1) continue;
    if (stored_piece.stride_bytes[d] != expected) return false;
    expected *= stored_piece.extent[d];
  }
  return true;
}

bool is_plain_run(const stored_form& form, const entry& tensor) {
  if (form.pieces.size() != 1 || form.swap_bytes != 0 || bits(tensor.dtype) % 8 != 0) return false;
  const piece& only = form.pieces.front();
  const stored_stream& stream = only.stored;
  return stream.stored_codec == codec::raw && stream.chain == nullptr &&
         stream.shuffle_bytes == 0 && !stream.fletcher32 && !stream.crc32 &&
         stream.in_memory == nullptr && covers(only, tensor.shape) &&
         is_row_major(only, bits(tensor.dtype) / 8);
}

void append_word(std::string& words, std::string_view word) {
  if (word.empty() || words.find(word) != std::string::npos) return;
  if (!words.empty()) words += '+';
  words += word;
}

void append_filters(std::string& words, const filter_chain& filters) {
  using kind = chain_filter::kind;
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (filters[i].filter == kind::zlib) append_word(words, name(codec::zlib));
    if (filters[i].filter == kind::shuffle) append_word(words, "shuffle");
  }
}

std::string encoding_of(const stored_form& form, const entry& tensor) {
  std::string words;
  const auto any_piece = [&](auto&& test) { return std::ranges::any_of(form.pieces, test); };
  for (const piece& stored_piece : form.pieces) {
    if (stored_piece.stored.chain != nullptr) {
      append_filters(words, *stored_piece.stored.chain);
    } else {
      append_word(words, name(stored_piece.stored.stored_codec));
    }
  }
  if (any_piece([](const piece& p) { return p.stored.in_memory != nullptr; })) {
    append_word(words, "inline");
  }
  if (any_piece([](const piece& p) { return p.stored.shuffle_bytes != 0; })) {
    append_word(words, "shuffle");
  }
  if (form.swap_bytes != 0) append_word(words, "big_endian");
  if (form.pieces.size() != 1 || !covers(form.pieces.front(), tensor.shape)) {
    append_word(words, "chunked");
  } else if (bits(tensor.dtype) % 8 == 0 &&
             !is_row_major(form.pieces.front(), bits(tensor.dtype) / 8)) {
    append_word(words, "strided");
  }
  return words;
}

// Returns the sum of the sizes of all streams in files. Counts each stream once, even if several
// pieces share the stream.
std::uint64_t stored_bytes_of(const stored_form& form) {
  using key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  std::vector<key> streams;
  streams.reserve(form.pieces.size());
  for (const piece& stored_piece : form.pieces) {
    if (stored_piece.stored.in_memory != nullptr) continue;
    streams.emplace_back(stored_piece.stored.file, stored_piece.stored.offset,
                         stored_piece.stored.bytes);
  }
  std::ranges::sort(streams);
  const auto duplicates = std::ranges::unique(streams);
  streams.erase(duplicates.begin(), duplicates.end());
  std::uint64_t sum = 0;
  for (const key& stream : streams) sum += std::get<2>(stream);
  return sum;
}

std::shared_ptr<const stored_form> renumbered(std::shared_ptr<const stored_form> form,
                                              const std::vector<std::uint32_t>& files) {
  const auto moves = [&](const piece& p) { return files[p.stored.file] != p.stored.file; };
  if (std::ranges::none_of(form->pieces, moves)) return form;
  auto out = std::make_shared<stored_form>(*form);
  for (piece& stored_piece : out->pieces)
    stored_piece.stored.file = files[stored_piece.stored.file];
  return out;
}

std::shared_ptr<const stored_digest> renumbered(std::shared_ptr<const stored_digest> digest,
                                                const std::vector<std::uint32_t>& files) {
  if (files[digest->stream.file] == digest->stream.file) return digest;
  auto out = std::make_shared<stored_digest>(*digest);
  out->stream.file = files[digest->stream.file];
  return out;
}

}  // namespace

catalog_entry catalog_entry_of(entry&& tensor, const std::vector<std::uint32_t>& files) {
  catalog_entry out;
  tensor_info& info = out.info;
  info.file = files.front();
  info.offset = tensor.offset;
  info.stored_bytes = tensor.bytes;
  if (tensor.stored != nullptr && is_plain_run(*tensor.stored, tensor)) {
    const piece& only = tensor.stored->pieces.front();
    info.file = files[only.stored.file];
    info.offset = only.stored.offset + only.first_byte;
  } else if (tensor.stored != nullptr) {
    info.encoding = encoding_of(*tensor.stored, tensor);
    info.stored_bytes = stored_bytes_of(*tensor.stored);
    out.stored = renumbered(std::move(tensor.stored), files);
  }
  info.name = std::move(tensor.name);
  info.dtype = tensor.dtype;
  info.shape = std::move(tensor.shape);
  info.bytes = tensor.bytes;
  info.type = std::move(tensor.type);
  info.original_shape = std::move(tensor.original_shape);
  info.attributes = std::move(tensor.attributes);
  if (tensor.digest != nullptr) {
    info.digest = std::string(name(tensor.digest->algorithm)) + " " + hex(tensor.digest->bytes);
    out.digest = renumbered(std::move(tensor.digest), files);
  }
  return out;
}

}  // namespace ringload::inline v0
