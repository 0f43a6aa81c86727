// SPDX-License-Identifier: Apache-2.0

#include "formats/npy/npy.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "formats/zip/inflate.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view member_suffix = ".npy";
constexpr std::size_t usual_header_bytes = 128;

// Returns the entry of an array whose elements are the decoded bytes of `stream` from `first_byte`
// on. The caller must set the tensor's name.
entry entry_of(npy_header header, stored_stream stream, std::uint64_t first_byte) {
  entry out;
  out.dtype = header.dtype;
  out.bytes = header.data_bytes;
  out.offset = stream.offset;
  const auto longer_than_1 = std::ranges::count_if(header.shape, [](auto dim) { return dim > 1; });
  const bool is_transposed = header.fortran_order && longer_than_1 > 1;
  if (stream.stored_codec == codec::raw) {
    out.offset += first_byte;
    stream.offset += first_byte;
    stream.bytes = stream.decoded_bytes = header.data_bytes;
    // The CRC also covers the header, but the elements are read without the header. Therefore the
    // CRC is not checked.
    stream.crc32.reset();
    first_byte = 0;
  }
  out.shape = std::move(header.shape);
  if (out.bytes == 0 ||
      (stream.stored_codec == codec::raw && !is_transposed && header.swap_bytes == 0))
    return out;

  auto form = std::make_shared<stored_form>();
  form->swap_bytes = header.swap_bytes;
  piece& whole = form->pieces.emplace_back();
  whole.stored = std::move(stream);
  whole.first_byte = first_byte;
  whole.origin.assign(out.shape.size(), 0);
  whole.extent = out.shape;
  whole.stride_bytes.assign(out.shape.size(), 0);
  std::uint64_t stride = bits(out.dtype) / 8;
  for (std::size_t i = 0; i < out.shape.size(); ++i) {
    const std::size_t d = is_transposed ? i : out.shape.size() - 1 - i;
    whole.stride_bytes[d] = stride;
    stride *= out.shape[d];
  }
  out.stored = std::move(form);
  return out;
}

// Checks that the array fits in its file or in its archive member, which has `holder_bytes` bytes.
result<void> check_bytes(std::uint64_t header_bytes, std::uint64_t data_bytes,
                         std::uint64_t holder_bytes, strictness strictness) {
  const std::uint64_t available = holder_bytes - header_bytes;
  if (data_bytes > available) {
    return fault{errc::extent_outside_file, "byte " + grouped(header_bytes),
                 "its elements have " + grouped(data_bytes) + " bytes, but only " +
                     grouped(available) + " follow"};
  }
  if (data_bytes < available && strictness == strictness::strict) {
    return fault{
        errc::trailing_bytes, "byte " + grouped(header_bytes + data_bytes),
        "the array ends here, but " + grouped(available - data_bytes) + " more bytes follow"};
  }
  return {};
}

// Reads the first decoded bytes of a member.
result<std::span<const std::byte>> read_beginning(input& from, const zip_member& member,
                                                  inflater& inflating, std::size_t count) {
  const auto prefix_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(count, member.bytes));
  if (member.stored_codec == codec::raw) return from.read(member.data_offset, prefix_bytes);
  auto decoded = inflating.read(from, member.data_offset, member.stored_bytes, prefix_bytes);
  if (!decoded) return decoded.error();
  return decoded->bytes;
}

result<entry> read_member(input& from, const zip_member& member, inflater& inflating,
                          const read_options& options) {
  auto beginning = read_beginning(from, member, inflating, usual_header_bytes);
  if (!beginning) return beginning.error();
  auto end = npy_header_end(beginning->first(std::min(beginning->size(), npy_prefix_bytes)));
  if (!end) return end.error();
  if (*end > beginning->size()) {
    beginning = read_beginning(from, member, inflating, *end);
    if (!beginning) return beginning.error();
  }
  if (*end > beginning->size()) {
    return fault{errc::header_outside_file, "byte " + grouped(beginning->size()),
                 "its header would end at " + grouped(*end)};
  }
  auto header = parse_npy_header(beginning->first(*end), options);
  if (!header) return header.error();
  auto fits = check_bytes(*end, header->data_bytes, member.bytes, options.strictness);
  if (!fits) return fits.error();
  return entry_of(std::move(*header), member.stream(), *end);
}

}  // namespace

result<file_entries> parse_npy(input& from, std::string name, const read_options& options) {
  const std::string place = tensor_place(name);
  const auto prefix_bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(from.bytes(), npy_prefix_bytes));
  auto prefix = from.read(0, prefix_bytes);
  if (!prefix) return prefix.error();
  auto end = npy_header_end(*prefix);
  if (!end) return end.error().in(place);
  if (*end > from.bytes()) {
    return fault{errc::header_outside_file, place,
                 "the header would end at " + grouped(*end) + " but the file ends at " +
                     grouped(from.bytes())};
  }
  auto text = from.read(0, *end);
  if (!text) return text.error();
  auto header = parse_npy_header(*text, options);
  if (!header) return header.error().in(place);
  auto fits = check_bytes(*end, header->data_bytes, from.bytes(), options.strictness);
  if (!fits) return fits.error().in(place);

  stored_stream whole;
  whole.bytes = whole.decoded_bytes = from.bytes();
  file_entries entries;
  entries.tensors.push_back(entry_of(std::move(*header), std::move(whole), *end));
  entries.tensors.back().name = std::move(name);
  return entries;
}

result<file_entries> parse_npz(input& from, const zip_directory& members,
                               const read_options& options) {
  file_entries entries;
  inflater inflating;
  std::uint64_t other_members = 0;
  std::string_view first_other;
  for (const zip_member& member : members.members) {
    if (!member.name.ends_with(member_suffix)) {
      if (other_members++ == 0) first_other = member.name;
      continue;
    }
    const std::string_view name = member.name.substr(0, member.name.size() - member_suffix.size());
    auto tensor = read_member(from, member, inflating, options);
    if (!tensor) return tensor.error().in(tensor_place(name));
    tensor->name = name;
    entries.tensors.push_back(std::move(*tensor));
  }
  if (entries.tensors.empty() && other_members != 0) {
    return fault{
        errc::not_a_checkpoint, member_place(first_other),
        "this zip archive holds neither arrays (.npy) nor a PyTorch checkpoint (data.pkl)"};
  }
  if (other_members != 0) {
    entries.notes.push_back(grouped(other_members) +
                            " members that are not arrays are left out, the first is '" +
                            printable(first_other) + "'");
  }
  return entries;
}

}  // namespace ringload::inline v0
