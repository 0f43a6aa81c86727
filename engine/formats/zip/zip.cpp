// SPDX-License-Identifier: Apache-2.0

#include "formats/zip/zip.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/codec/decoder.hpp"
#include "formats/text/little_endian.hpp"
#include "formats/text/malformed.hpp"
#include "formats/zip/inflate.hpp"
#include "formats/zip/zip_end.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t central_magic = 0x02014b50;
constexpr std::uint32_t local_magic = 0x04034b50;

constexpr std::size_t central_bytes = 46;
constexpr std::size_t local_bytes = 30;

constexpr std::uint32_t in_zip64 = 0xFFFFFFFF;  // Marker: the extra field contains the number.
constexpr std::uint16_t zip64_tag = 0x0001;

constexpr std::uint16_t flag_encrypted = 1U << 0;
constexpr std::uint16_t flag_sizes_follow = 1U << 3;  // The sizes are after the data.
constexpr std::uint16_t flag_patched = 1U << 5;
constexpr std::uint16_t flag_strongly_encrypted = 1U << 6;
constexpr std::uint16_t flag_masked = 1U << 13;

constexpr std::uint16_t method_stored = 0;
constexpr std::uint16_t method_deflated = 8;
// The largest ratio of decoded bytes to stored bytes that deflate can reach.
constexpr std::uint64_t deflate_ratio_max = 1032;

fault malformed_member(std::string where, std::string cause) {
  return {errc::malformed_header, std::move(where), std::move(cause)};
}

// Numbers of a header that may need 64 bits.
struct wide_numbers {
  std::uint64_t bytes;
  std::uint64_t stored_bytes;
  std::uint64_t offset = 0;
};

// Reads the 64-bit numbers from the extra field. Returns false if `extra` is malformed or
// incomplete.
bool widen(std::span<const std::byte> extra, wide_numbers& numbers) {
  bool seen = false;
  while (!extra.empty()) {
    if (extra.size() < 4) return false;
    const auto tag = little_endian<std::uint16_t>(extra);
    const std::size_t size = little_endian<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) return false;
    auto content = extra.subspan(4, size);
    extra = extra.subspan(4 + size);
    if (tag != zip64_tag) continue;
    if (std::exchange(seen, true)) return false;
    for (std::uint64_t* number : {&numbers.bytes, &numbers.stored_bytes, &numbers.offset}) {
      if (*number != in_zip64) continue;
      if (content.size() < 8) return false;
      *number = little_endian<std::uint64_t>(content);
      content = content.subspan(8);
    }
  }
  return seen || (numbers.bytes != in_zip64 && numbers.stored_bytes != in_zip64 &&
                  numbers.offset != in_zip64);
}

bool leads_out(std::string_view name) {
  if (name.front() == '/' || name.front() == '\\') return true;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("/\\"), name.size());
    if (name.substr(0, end) == "..") return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

std::optional<std::string> bad_name(std::string_view name) {
  if (name.empty()) return "a member has no name";
  if (name.find('\0') != std::string_view::npos) return "the name holds a NUL";
  if (utf8_valid_bytes(name) != name.size()) return "the name is not UTF-8";
  if (leads_out(name)) return "the name leads out of the archive's folder";
  return std::nullopt;
}

std::optional<std::string> why_unsupported(std::uint16_t flags, std::uint16_t method) {
  if ((flags & (flag_encrypted | flag_strongly_encrypted | flag_masked)) != 0) {
    return "it is encrypted";
  }
  if ((flags & flag_patched) != 0) return "it is a patch of another file";
  if (method != method_stored && method != method_deflated) {
    return "it is compressed by method " + std::to_string(method) + ", expected stored or deflated";
  }
  return std::nullopt;
}

// Reads one entry of the directory at `offset`, and moves `offset` to the next entry.
result<zip_member> read_central(std::span<const std::byte> directory, std::size_t& offset,
                                std::uint64_t directory_offset) {
  const std::string place_in_directory = "byte " + grouped(directory_offset + offset);
  const auto left = directory.subspan(offset);
  if (left.size() < central_bytes || little_endian<std::uint32_t>(left) != central_magic) {
    return malformed_member(place_in_directory, "expected an entry of the directory");
  }
  const std::size_t name_bytes = little_endian<std::uint16_t>(left, 28);
  const std::size_t extra_bytes = little_endian<std::uint16_t>(left, 30);
  const std::size_t comment_bytes = little_endian<std::uint16_t>(left, 32);
  const std::size_t entry_bytes = central_bytes + name_bytes + extra_bytes + comment_bytes;
  if (left.size() < entry_bytes) {
    return malformed_member(place_in_directory,
                            "the entry would end past the end of the directory");
  }
  zip_member out;
  out.name = as_text(left.subspan(central_bytes, name_bytes));
  const std::string place = place_in_directory + ": " + member_place(out.name);
  if (auto cause = bad_name(out.name)) return malformed_member(place, std::move(*cause));
  const auto method = little_endian<std::uint16_t>(left, 10);
  if (auto cause = why_unsupported(little_endian<std::uint16_t>(left, 8), method)) {
    return fault{errc::unsupported_feature, place, std::move(*cause)};
  }
  wide_numbers wide = {little_endian<std::uint32_t>(left, 24),
                       little_endian<std::uint32_t>(left, 20),
                       little_endian<std::uint32_t>(left, 42)};
  if (!widen(left.subspan(central_bytes + name_bytes, extra_bytes), wide)) {
    return malformed_member(place, "its extra field is malformed, or has no zip64 sizes");
  }
  if (little_endian<std::uint16_t>(left, 34) != 0) {
    return malformed_member(place, "the member is on another volume");
  }
  out.stored_codec = method == method_stored ? codec::raw : codec::deflate;
  out.crc32 = little_endian<std::uint32_t>(left, 16);
  out.bytes = wide.bytes;
  out.stored_bytes = wide.stored_bytes;
  out.header_offset = wide.offset;
  if (out.stored_codec == codec::raw && out.bytes != out.stored_bytes) {
    return malformed_member(place, "the member is stored uncompressed, but in " +
                                       grouped(out.stored_bytes) + " bytes instead of " +
                                       grouped(out.bytes));
  }
  const bool lacks_stored_bytes = out.stored_bytes == 0 && out.bytes != 0;
  const bool longer = out.bytes / deflate_ratio_max > out.stored_bytes;
  if (out.stored_codec == codec::deflate && (longer || lacks_stored_bytes)) {
    return malformed_member(place, grouped(out.stored_bytes) + " deflated bytes cannot decode to " +
                                       grouped(out.bytes) + " bytes");
  }
  offset += entry_bytes;
  return out;
}

// Returns true if the local header and the directory have equal sizes and checksums, or if these
// numbers are unknown in the local header.
bool local_header_matches(std::span<const std::byte> local, const wide_numbers& wide,
                          const zip_member& member) {
  const auto crc = little_endian<std::uint32_t>(local, 14);
  const bool is_same =
      crc == member.crc32 && wide.bytes == member.bytes && wide.stored_bytes == member.stored_bytes;
  if (is_same || (little_endian<std::uint16_t>(local, 6) & flag_sizes_follow) == 0) return is_same;
  // The writer of the archive may have written the local header before the numbers were known. In
  // this case, each number may also be 0 or the zip64 marker.
  const auto matches = [](std::uint64_t value, std::uint64_t known) {
    return value == 0 || value == in_zip64 || value == known;
  };
  return (crc == 0 || crc == member.crc32) && matches(wide.bytes, member.bytes) &&
         matches(wide.stored_bytes, member.stored_bytes);
}

// Finds the data after the local header. The header and the data must end at or before `limit`.
result<void> read_local(input& from, zip_member& member, std::uint64_t limit) {
  const std::string place =
      "byte " + grouped(member.header_offset) + ": " + member_place(member.name);
  const std::size_t fixed = local_bytes + member.name.size();
  const auto overlaps = [&] {
    return fault{errc::invalid_offsets, place,
                 "the member would overlap the record at byte " + grouped(limit)};
  };
  if (member.header_offset > limit || fixed > limit - member.header_offset) return overlaps();
  auto header = from.read(member.header_offset, fixed);
  if (!header) return header.error();
  if (little_endian<std::uint32_t>(*header) != local_magic) {
    return malformed_member(place, "there is no member header at this byte");
  }
  const std::size_t extra_bytes = little_endian<std::uint16_t>(*header, 28);
  const auto method = little_endian<std::uint16_t>(*header, 8);
  if (auto cause = why_unsupported(little_endian<std::uint16_t>(*header, 6), method)) {
    return fault{errc::unsupported_feature, place, std::move(*cause)};
  }
  if (little_endian<std::uint16_t>(*header, 26) != member.name.size() ||
      as_text(header->subspan(local_bytes)) != member.name ||
      (method == method_stored) != (member.stored_codec == codec::raw)) {
    return malformed_member(place, "its header has another name or method than the directory");
  }
  member.data_offset = member.header_offset + fixed + extra_bytes;
  if (member.data_offset > limit || member.stored_bytes > limit - member.data_offset)
    return overlaps();

  wide_numbers wide = {little_endian<std::uint32_t>(*header, 22),
                       little_endian<std::uint32_t>(*header, 18)};
  std::vector<std::byte> fixed_part(header->begin(), header->begin() + local_bytes);
  if (wide.bytes == in_zip64 || wide.stored_bytes == in_zip64) {
    auto extra = from.read(member.header_offset + fixed, extra_bytes);
    if (!extra) return extra.error();
    const bool widened = widen(*extra, wide);
    if (!widened && (little_endian<std::uint16_t>(fixed_part, 6) & flag_sizes_follow) == 0) {
      return malformed_member(place, "its extra field is malformed, or has no zip64 sizes");
    }
  }
  if (!local_header_matches(fixed_part, wide, member)) {
    return malformed_member(place, "its header has other sizes than the directory");
  }
  return {};
}

std::optional<fault> check_unique(zip_directory& directory) {
  directory.by_name.resize(directory.members.size());
  std::iota(directory.by_name.begin(), directory.by_name.end(), std::uint32_t{0});
  const auto name = [&](std::uint32_t i) { return directory.members[i].name; };
  std::ranges::sort(directory.by_name, {}, name);
  const auto duplicate = std::ranges::adjacent_find(directory.by_name, {}, name);
  if (duplicate == directory.by_name.end()) return std::nullopt;
  return fault{errc::duplicate_tensor, member_place(name(*duplicate)),
               "the archive has two members of that name"};
}

std::optional<fault> check_inflated(const zip_directory& directory, std::uint64_t file_bytes) {
  std::uint64_t sum = 0;
  for (const zip_member& member : directory.members) {
    if (member.stored_codec == codec::deflate)
      sum += std::min(member.bytes, ~std::uint64_t{0} - sum);
  }
  if (sum <= zip_inflated_bytes_usual || sum / zip_inflated_ratio_max <= file_bytes) {
    return std::nullopt;
  }
  return fault{errc::header_too_large, "byte 0",
               "the members would decode to " + grouped(sum) + " bytes, more than " +
                   grouped(zip_inflated_ratio_max) + " times the archive's " + grouped(file_bytes)};
}

}  // namespace

std::string member_place(std::string_view name) { return "member '" + printable(name) + "'"; }

stored_stream zip_member::stream() const {
  stored_stream out;
  out.offset = data_offset;
  out.bytes = stored_bytes;
  out.decoded_bytes = bytes;
  out.stored_codec = stored_codec;
  if (crc32 != 0) out.crc32 = crc32;
  return out;
}

const zip_member* zip_directory::find(std::string_view name) const noexcept {
  const auto name_of = [this](std::uint32_t i) { return members[i].name; };
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
  return found != by_name.end() && name_of(*found) == name ? &members[*found] : nullptr;
}

result<zip_directory> read_zip_directory(input& from) {
  auto place = find_zip_directory(from);
  if (!place) return place.error();
  if (place->members > zip_members_max || place->bytes > zip_directory_bytes_max) {
    return fault{errc::header_too_large, "byte " + grouped(place->offset),
                 "the archive would have " + grouped(place->members) +
                     " members in a directory of " + grouped(place->bytes) + " bytes; " +
                     grouped(zip_members_max) + " in " + grouped(zip_directory_bytes_max) +
                     " are allowed"};
  }
  if (place->members > place->bytes / central_bytes) {
    return malformed_at(place->offset, "a directory of " + grouped(place->bytes) +
                                           " bytes cannot have " + grouped(place->members) +
                                           " members");
  }
  if (place->bytes > from.bytes()) return fault{errc::truncated_file, "the directory"};
  zip_directory directory;
  directory.text.resize(static_cast<std::size_t>(place->bytes));
  if (auto status = from.read_into(place->offset, directory.text); !status) return status.error();
  directory.members.reserve(static_cast<std::size_t>(place->members));
  std::size_t offset = 0;
  for (std::uint64_t i = 0; i < place->members; ++i) {
    auto member = read_central(directory.text, offset, place->offset);
    if (!member) return member.error();
    directory.members.push_back(*member);
  }
  if (offset != directory.text.size()) {
    return malformed_at(place->offset + offset, "bytes follow the last entry of the directory");
  }
  std::ranges::sort(directory.members, {}, &zip_member::header_offset);
  if (const std::uint64_t begin =
          directory.members.empty() ? place->offset : directory.members.front().header_offset;
      begin != 0) {
    return malformed_at(0, "the archive begins at byte " + grouped(begin) + ", expected byte 0");
  }
  for (std::size_t i = 0; i < directory.members.size(); ++i) {
    const bool last = i + 1 == directory.members.size();
    const std::uint64_t limit = last ? place->offset : directory.members[i + 1].header_offset;
    if (auto status = read_local(from, directory.members[i], std::min(limit, place->offset));
        !status) {
      return status.error();
    }
  }
  // From here on, every member is before the directory, and no members overlap.

  if (auto cause = check_unique(directory)) return *cause;
  if (auto cause = check_inflated(directory, from.bytes())) return *cause;
  return directory;
}

result<std::vector<std::byte>> read_zip_member(input& from, const zip_member& member,
                                               std::uint64_t bytes_max) {
  const std::string place = member_place(member.name);
  if (member.bytes > bytes_max) {
    return fault{errc::header_too_large, place,
                 "it has " + grouped(member.bytes) + " bytes, the limit is " + grouped(bytes_max)};
  }
  std::vector<std::byte> out;
  if (member.stored_codec == codec::raw) {
    if (member.bytes > from.bytes()) return fault{errc::truncated_file, place};
    out.resize(static_cast<std::size_t>(member.bytes));
    if (auto status = from.read_into(member.data_offset, out); !status)
      return status.error().in(place);
  } else {
    inflater inflating;
    auto inflated = inflating.read(from, member.data_offset, member.stored_bytes,
                                   static_cast<std::size_t>(member.bytes) + 1);
    if (!inflated) return inflated.error().in(place);
    if (!inflated->complete || inflated->bytes.size() != member.bytes) {
      return malformed_member(place, "the member does not inflate to the " + grouped(member.bytes) +
                                         " bytes of its directory entry");
    }
    out = inflating.take(inflated->bytes.size());
  }
  if (crc32(out, 0) != member.crc32 && member.crc32 != 0)
    return malformed_member(place, "its checksum is wrong");
  return out;
}

}  // namespace ringload::inline v0
