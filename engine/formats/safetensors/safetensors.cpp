// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/safetensors.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/safetensors/header_layout.hpp"
#include "formats/safetensors/safetensors_json.hpp"

namespace ringload::inline v0 {

namespace {

// The client of the Hugging Face Hub refuses to read larger headers over the network.
constexpr std::uint64_t header_bytes_usual = 25'000'000;

std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

fault too_large(std::uint64_t header_bytes) {
  return {errc::header_too_large, "byte 0",
          "the header would have " + grouped(header_bytes) + " bytes, the limit is " +
              grouped(safetensors_header_bytes_max)};
}

fault outside_file(std::uint64_t end, std::uint64_t file_bytes) {
  return {
      errc::header_outside_file, "byte 0",
      "the header would end at " + grouped(end) + " but the file ends at " + grouped(file_bytes)};
}

void add_notes(file_entries& entries, std::uint64_t header_bytes) {
  if (header_bytes > header_bytes_usual) {
    entries.notes.push_back("the header has " + grouped(header_bytes) + " bytes, more than the " +
                            grouped(header_bytes_usual) + " bytes that some tools accept");
  }
  const auto misaligned = [](const entry& e) {
    return e.bytes != 0 && e.offset % alignment(e.dtype) != 0;
  };
  const auto first = std::ranges::find_if(entries.tensors, misaligned);
  if (first == entries.tensors.end()) return;
  const auto count = std::count_if(first, entries.tensors.end(), misaligned);
  entries.notes.push_back(
      grouped(static_cast<std::uint64_t>(count)) +
      " tensors do not begin at a multiple of their element's size, the first is '" +
      printable(first->name) + "'");
}

}  // namespace

result<std::uint64_t> safetensors_header_end(std::span<const std::byte> prefix,
                                             std::uint64_t file_bytes) {
  if (prefix.size() < safetensors_prefix_bytes || file_bytes < safetensors_prefix_bytes) {
    return fault{errc::header_too_small, "byte 0",
                 "a safetensors file begins with a length of 8 bytes, but this file has only " +
                     grouped(std::min<std::uint64_t>(prefix.size(), file_bytes))};
  }
  std::uint64_t header_bytes = 0;
  for (unsigned i = 0; i < safetensors_prefix_bytes; ++i) {
    header_bytes |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  }
  if (header_bytes > safetensors_header_bytes_max) {
    return too_large(header_bytes);
  }
  const std::uint64_t end = safetensors_prefix_bytes + header_bytes;
  if (end > file_bytes) return outside_file(end, file_bytes);
  return end;
}

result<file_entries> parse_safetensors(std::span<const std::byte> header, std::uint64_t file_bytes,
                                       strictness strictness) {
  if (header.size() > safetensors_header_bytes_max) return too_large(header.size());
  const std::uint64_t data_begin = safetensors_prefix_bytes + header.size();
  if (data_begin > file_bytes) return outside_file(data_begin, file_bytes);

  const std::string_view text = text_of(header);
  if (const std::size_t valid = utf8_valid_bytes(text); valid != text.size()) {
    return fault{errc::header_not_utf8, "byte " + grouped(safetensors_prefix_bytes + valid),
                 "the header is not UTF-8 from here on"};
  }
  auto described = describe_header(text, file_bytes, strictness);
  if (!described) return described.error();
  // Each tensor now has a name, a type, a shape and offsets. The following code reads no JSON.

  file_entries entries;
  entries.metadata.reserve(described->metadata.size());
  for (auto& [key, value] : std::exchange(described->metadata, {})) {
    entries.metadata.emplace_back(std::move(key), value);
  }
  auto placed = lay_out(std::move(*described), {data_begin, file_bytes}, strictness);
  if (!placed) return placed.error();
  // From here on, every range is inside the file, and no ranges overlap.

  entries.tensors = std::move(*placed);
  if (strictness == strictness::strict) add_notes(entries, header.size());
  return entries;
}

}  // namespace ringload::inline v0
