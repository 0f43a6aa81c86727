// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds zip archives in which any field can be wrong.

#include <isa-l/igzip_lib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/decoder.hpp"
#include "support/safetensors_text.hpp"

namespace ringload::testing {

inline std::string number(std::uint64_t value, unsigned bytes) {
  std::string out;
  for (unsigned i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

inline std::string deflated(std::string_view text) {
  std::string in(text);
  std::string out(in.size() * 2 + 1024, '\0');
  ::isal_zstream stream = {};  // The init function leaves fields as they are.
  ::isal_deflate_stateless_init(&stream);
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<std::uint8_t*>(in.data());
  stream.avail_in = static_cast<std::uint32_t>(in.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = static_cast<std::uint32_t>(out.size());
  ::isal_deflate_stateless(&stream);
  out.resize(stream.total_out);
  return out;
}

// The fields of both headers. Fields of only one header are separate members.
struct zip_part {
  std::string name;
  std::string stored;  // The bytes in the archive.
  std::uint64_t bytes = stored.size();
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::uint32_t crc = crc32(bytes_of(stored), 0);
  std::string local_name = name;
  std::uint16_t local_method = method;
  std::uint16_t local_flags = flags;
  std::uint64_t local_bytes = bytes;
  std::string local_extra = {};
  std::string central_extra = {};
  std::int64_t moved = 0;  // The error of the local header's offset in the directory.
};

struct zip_ending {
  std::uint64_t members = 0;  // If not 0, replaces the correct number.
  std::string comment = {};
  std::string before = {};  // Bytes between the directory and the end record.
  bool wide = false;        // With the records of zip64.
};

inline std::string zip_text(const std::vector<zip_part>& parts, zip_ending end = {}) {
  std::string out;
  std::string directory;
  for (const zip_part& p : parts) {
    const std::uint64_t at = out.size() + static_cast<std::uint64_t>(p.moved);
    const std::string middle = number(0, 4) + number(p.crc, 4);
    const std::string local = number(p.local_flags, 2) + number(p.local_method, 2);
    out += number(0x04034b50, 4) + number(20, 2) + local + middle + number(p.stored.size(), 4) +
           number(p.local_bytes, 4) + number(p.local_name.size(), 2) +
           number(p.local_extra.size(), 2) + p.local_name + p.local_extra + p.stored;
    directory += number(0x02014b50, 4) + number(20, 2) + number(20, 2) + number(p.flags, 2) +
                 number(p.method, 2) + middle + number(p.stored.size(), 4) + number(p.bytes, 4) +
                 number(p.name.size(), 2) + number(p.central_extra.size(), 2) +
                 std::string(10, '\0') + number(at, 4) + p.name + p.central_extra;
  }
  const std::uint64_t count = end.members != 0 ? end.members : parts.size();
  const std::uint64_t begin = out.size();
  out += directory + end.before;
  if (end.wide) {
    const std::uint64_t record = out.size();
    out += number(0x06064b50, 4) + number(44, 8) + number(45, 2) + number(45, 2) + number(0, 8) +
           number(count, 8) + number(count, 8) + number(directory.size(), 8) + number(begin, 8);
    out += number(0x07064b50, 4) + number(0, 4) + number(record, 8) + number(1, 4);
  }
  const std::uint64_t narrow = end.wide ? 0xFFFF : count;
  return out + number(0x06054b50, 4) + number(0, 4) + number(narrow, 2) + number(narrow, 2) +
         number(end.wide ? 0xFFFFFFFF : directory.size(), 4) +
         number(end.wide ? 0xFFFFFFFF : begin, 4) + number(end.comment.size(), 2) + end.comment;
}

}  // namespace ringload::testing
