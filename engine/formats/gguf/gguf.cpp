// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/description_budget.hpp"
#include "formats/gguf/gguf_metadata.hpp"
#include "formats/gguf/gguf_types.hpp"
#include "formats/shape.hpp"
#include "formats/text/input_cursor.hpp"
#include "formats/text/json_text.hpp"

namespace ringload::inline v0 {

namespace {

// Limits for the size of a name. The first limit is the specification's, which the package gguf
// does not check. Some programs are built with a larger limit than the specification's.
constexpr std::uint64_t name_bytes_max_strict = 64;
constexpr std::uint64_t name_bytes_max_reference = 255;
constexpr std::uint32_t gguf_rank_max = 4;
// Size of the smallest tensor info, which has an empty name and no dimensions.
constexpr std::uint64_t info_bytes_min = 8 + 4 + 4 + 8;

struct prologue {
  std::endian order = std::endian::little;
  std::uint64_t tensors = 0;
  std::uint64_t pairs = 0;
};

bool read_version(input_cursor& in, std::endian& order) {
  const std::uint64_t begin = in.position();
  std::uint32_t version = 0;
  if (!in.number(version)) return false;
  // GGUF has no flag for the byte order. The version is 2 or 3. If its lower 16 bits are 0, the
  // version was read in the wrong byte order, so the file is big-endian.
  order = (version & 0xFFFFU) == 0 && version != 0 ? std::endian::big : std::endian::little;
  if (order == std::endian::big) version = __builtin_bswap32(version);
  if (version == 2 || version == 3) return true;
  return in.fail_at(begin, errc::unsupported_feature,
                    "this is version " + grouped(version) + " of GGUF, expected 2 or 3");
}

bool read_prologue(input_cursor& in, prologue& out) {
  std::string_view magic;
  if (!in.text(gguf_magic.size(), magic)) return false;
  if (magic != gguf_magic) {
    return in.fail_at(0, errc::malformed_header, "the file does not begin with 'GGUF'");
  }
  if (!read_version(in, out.order)) return false;
  const std::uint64_t counts_at = in.position();
  if (!in.number(out.tensors, out.order) || !in.number(out.pairs, out.order)) return false;
  // Checks the counts before memory is allocated for the tensors and pairs.
  const std::uint64_t left = in.left();
  if (out.tensors > left / info_bytes_min || out.pairs > left / gguf_pair_bytes_min ||
      out.tensors * info_bytes_min + out.pairs * gguf_pair_bytes_min > left) {
    return in.fail_at(counts_at, errc::header_outside_file,
                      grouped(out.tensors) + " tensors and " + grouped(out.pairs) +
                          " pairs do not fit in the remaining " + grouped(left) + " bytes");
  }
  if (out.tensors > gguf_tensors_max || out.pairs > gguf_pairs_max) {
    return in.fail(errc::header_too_large, grouped(out.tensors) + " tensors and " +
                                               grouped(out.pairs) + " pairs, the limits are " +
                                               grouped(gguf_tensors_max) + " and " +
                                               grouped(gguf_pairs_max));
  }
  return true;
}

// The content of one tensor info.
struct tensor_claim {
  std::uint64_t info_byte = 0;
  std::string name;
  std::vector<std::uint64_t> dims;  // Innermost dimension first, as in the file.
  const gguf_type* type = nullptr;
  std::uint64_t offset = 0;  // Offset from the start of the data section.
};

fault at_tensor(const tensor_claim& claim, errc code, std::string cause) {
  return {code, tensor_place(claim.name) + ", byte " + grouped(claim.info_byte), std::move(cause)};
}

bool read_name(input_cursor& in, std::endian order, strictness strictness, tensor_claim& out) {
  const std::uint64_t begin = in.position();
  std::uint64_t bytes = 0;
  std::string_view text;
  if (!in.number(bytes, order)) return false;
  const std::uint64_t bytes_max =
      strictness == strictness::strict ? name_bytes_max_strict : name_bytes_max_reference;
  if (bytes > bytes_max) {
    return in.fail_at(
        begin, errc::malformed_header,
        "a tensor's name has " + grouped(bytes) + " bytes, the limit is " + grouped(bytes_max));
  }
  if (!in.text(static_cast<std::size_t>(bytes), text)) return false;
  if (utf8_valid_bytes(text) != text.size()) {
    return in.fail_at(begin, errc::header_not_utf8,
                      "the name of tensor '" + printable(text) + "' is not UTF-8");
  }
  out.name = text;
  return true;
}

bool read_dims(input_cursor& in, std::endian order, tensor_claim& out) {
  std::uint32_t rank = 0;
  if (!in.number(rank, order)) return false;
  if (rank > gguf_rank_max) {
    return in.fail(at_tensor(
        out, errc::malformed_header,
        "it has " + grouped(rank) + " dimensions, the limit is " + grouped(gguf_rank_max)));
  }
  out.dims.resize(rank);
  for (std::uint64_t& dim : out.dims) {
    if (!in.number(dim, order)) return false;
    if (dim >> 63U != 0) {
      return in.fail(at_tensor(out, errc::size_overflow,
                               "the dimension " + grouped(dim) + " does not fit in 63 bits"));
    }
  }
  return true;
}

bool read_type(input_cursor& in, std::endian order, tensor_claim& out) {
  std::uint32_t id = 0;
  if (!in.number(id, order)) return false;
  out.type = gguf_type_of(id);
  if (out.type != nullptr) return true;
  return in.fail(at_tensor(out, errc::unsupported_feature,
                           "its type number is " + grouped(id) + ", which " +
                               (gguf_type_removed(id) ? "GGUF has removed" : "is unknown")));
}

bool read_info(input_cursor& in, std::endian order, strictness strictness, tensor_claim& out) {
  out.info_byte = in.position();
  return read_name(in, order, strictness, out) && read_dims(in, order, out) &&
         read_type(in, order, out) && in.number(out.offset, order);
}

result<std::uint64_t> bytes_of(const tensor_claim& claim) {
  const gguf_type& type = *claim.type;
  const std::uint64_t row = claim.dims.empty() ? 1 : claim.dims.front();
  if (row % type.block_elements != 0) {
    return at_tensor(claim, errc::wrong_tensor_bytes,
                     "its rows have " + grouped(row) + " elements, expected a multiple of " +
                         grouped(type.block_elements) + ", the block size of " +
                         std::string(type.name));
  }
  const auto elements = element_count(claim.dims);
  const auto bytes = elements ? checked_multiply(*elements / type.block_elements, type.block_bytes)
                              : std::optional<std::uint64_t>{};
  if (!bytes) {
    return at_tensor(claim, errc::size_overflow,
                     "the size of " + std::string(type.name) + " " + shape_text(claim.dims) +
                         " does not fit in 64 bits");
  }
  return *bytes;
}

// The data section, and the number of bytes that the previous tensors occupy in the section.
struct packed_section {
  std::uint64_t begin = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t alignment = 0;
  std::uint64_t filled = 0;  // Number of bytes from `begin`. A multiple of the alignment.
};

// Sets the range of the tensor, and moves `data.filled` to the aligned end of the range.
std::optional<fault> place(const tensor_claim& claim, packed_section& data, entry& out) {
  const auto bytes = bytes_of(claim);
  if (!bytes) return bytes.error();
  if (claim.offset != data.filled) {
    return at_tensor(claim, errc::invalid_offsets,
                     "its offset is " + grouped(claim.offset) +
                         ", but the tensors before it end, after alignment, at " +
                         grouped(data.filled));
  }
  const std::uint64_t section_bytes = data.file_bytes - data.begin;
  if (claim.offset > section_bytes || *bytes > section_bytes - claim.offset) {
    const auto end = checked_add(claim.offset, *bytes);
    const auto in_file = end ? checked_add(*end, data.begin) : end;
    return at_tensor(claim, errc::extent_outside_file,
                     "its bytes end at " + (in_file ? grouped(*in_file) : "a byte beyond 64 bits") +
                         " but the file ends at " + grouped(data.file_bytes));
  }
  out.offset = data.begin + claim.offset;
  out.bytes = *bytes;
  // The alignment is at most 2^31, so this sum overflows only for an end near 2^64. No file is that
  // large.
  const auto padded = checked_add(claim.offset + *bytes, data.alignment - 1);
  if (!padded) {
    return at_tensor(claim, errc::size_overflow, "its aligned end does not fit in 64 bits");
  }
  data.filled = round_down(*padded, data.alignment);
  return std::nullopt;
}

void describe(tensor_claim claim, std::endian order, entry& out) {
  out.name = std::move(claim.name);
  out.shape.assign(claim.dims.rbegin(), claim.dims.rend());
  if (!claim.type->plain) {
    out.dtype = dtype::u8;
    out.type = claim.type->name;
    out.original_shape = std::move(out.shape);
    out.shape = {out.bytes};
    return;
  }
  out.dtype = *claim.type->plain;
  const auto width = static_cast<std::uint8_t>(bits(out.dtype) / 8);
  if (order == std::endian::little || width == 1 || out.bytes == 0) return;
  stored_stream raw;
  raw.offset = out.offset;
  raw.bytes = out.bytes;
  raw.decoded_bytes = out.bytes;
  out.stored = one_stream(std::move(raw), out.shape, width, width);
}

bool read_infos(input_cursor& in, const prologue& counts, strictness strictness,
                description_budget& budget, std::vector<tensor_claim>& out) {
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < counts.tensors; ++i) {
    tensor_claim& claim = out.emplace_back();
    if (!read_info(in, counts.order, strictness, claim)) return false;
    if (!budget.take_tensor(claim.name.size(), claim.dims.size())) {
      return in.fail(at_tensor(claim, errc::header_too_large, budget.cause()));
    }
    if (claim.name.empty() && strictness == strictness::strict) {
      return in.fail(at_tensor(claim, errc::malformed_header, "its name is empty"));
    }
    if (!names.insert(claim.name).second) {
      return in.fail(at_tensor(claim, errc::duplicate_tensor, "another tensor has the same name"));
    }
  }
  return true;
}

result<packed_section> data_after(std::uint64_t header_end, std::uint64_t alignment,
                                  std::uint64_t file_bytes, bool has_tensors) {
  const auto padded = checked_add(header_end, alignment - 1);
  const std::uint64_t begin = padded ? round_down(*padded, alignment) : UINT64_MAX;
  if (begin <= file_bytes) return packed_section{begin, file_bytes, alignment, 0};
  if (!has_tensors) return packed_section{file_bytes, file_bytes, alignment, 0};
  return fault{errc::header_outside_file, "byte " + grouped(header_end),
               "the data would begin at the next multiple of " + grouped(alignment) +
                   ", but the file ends at " + grouped(file_bytes)};
}

void add_notes(file_entries& entries, const packed_section& data, std::endian order,
               std::uint64_t data_end) {
  // The padding after the last tensor is optional.
  const std::uint64_t padded = checked_add(data.begin, data.filled).value_or(data_end);
  if (data.file_bytes > std::max(padded, data_end)) {
    entries.notes.push_back("bytes follow the last tensor, from byte " + grouped(padded) + " to " +
                            grouped(data.file_bytes));
  }
  if (order == std::endian::little) return;
  for (const entry& tensor : entries.tensors) {
    if (tensor.type.empty()) continue;
    entries.notes.push_back(
        "the file is big-endian, but GGUF does not define the byte order inside quantised blocks: "
        "blocks are loaded as stored, and dequantised as little-endian");
    return;
  }
}

}  // namespace

result<file_entries> parse_gguf(input& from, strictness strictness) {
  const std::uint64_t file_bytes = from.bytes();
  input_cursor in(from, 0, std::min(file_bytes, gguf_header_bytes_max));
  prologue counts;
  if (!read_prologue(in, counts)) return in.error();

  file_entries entries;
  description_budget budget(strictness, file_bytes);
  std::uint64_t alignment = gguf_alignment_usual;
  if (!read_gguf_metadata(in, {counts.order, counts.pairs, strictness}, budget, entries,
                          alignment)) {
    return in.error();
  }
  std::vector<tensor_claim> claims;
  if (!read_infos(in, counts, strictness, budget, claims)) return in.error();
  // The whole header has been read. The following code uses only `claims`, and does not read the
  // file.

  auto data = data_after(in.position(), alignment, file_bytes, !claims.empty());
  if (!data) return data.error();
  entries.tensors.reserve(claims.size());
  std::uint64_t data_end = data->begin;
  for (tensor_claim& claim : claims) {
    entry& tensor = entries.tensors.emplace_back();
    if (auto failure = place(claim, *data, tensor)) return *failure;
    data_end = tensor.offset + tensor.bytes;
    describe(std::move(claim), counts.order, tensor);
  }
  add_notes(entries, *data, counts.order, data_end);
  return entries;
}

}  // namespace ringload::inline v0
