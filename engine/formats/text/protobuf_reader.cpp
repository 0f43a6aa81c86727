// SPDX-License-Identifier: Apache-2.0

#include "formats/text/protobuf_reader.hpp"

#include <string_view>

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t field_number_max = (std::uint64_t{1} << 29) - 1;

}  // namespace

bool protobuf_reader::read_varint(std::uint64_t& out) {
  const std::uint64_t begin = in_.position();
  out = 0;
  for (unsigned i = 0; i < varint_bytes_max; ++i) {
    std::uint8_t byte = 0;
    if (!in_.number(byte)) return false;
    out |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if ((byte & 0x80U) == 0) return true;
  }
  return in_.fail_at(begin, errc::malformed_header,
                     "a base-128 integer has more than " + grouped(varint_bytes_max) + " bytes");
}

bool protobuf_reader::next(protobuf_field& out) {
  if (in_.failed()) return false;
  if (next_byte_ != 0) in_.seek(next_byte_);
  if (in_.left() == 0) return false;
  out.begin = in_.position();
  std::uint64_t key = 0;
  if (!read_varint(key)) return false;
  const std::uint64_t number = key >> 3U;
  out.type = static_cast<wire_type>(key & 7U);
  if (number == 0 || number > field_number_max) {
    return fail(out, errc::malformed_header, "the field number " + grouped(number) + " is invalid");
  }
  out.number = static_cast<std::uint32_t>(number);
  out.offset = in_.position();
  switch (out.type) {
    case wire_type::varint:
      if (!read_varint(out.value)) return false;
      out.bytes = in_.position() - out.offset;
      break;
    case wire_type::fixed64: out.bytes = 8; break;
    case wire_type::fixed32: out.bytes = 4; break;
    case wire_type::bytes:
      if (!read_varint(out.bytes)) return false;
      out.offset = in_.position();
      break;
    default:
      return fail(out, errc::malformed_header,
                  "field " + grouped(number) + " has the wire type " + grouped(key & 7U) +
                      ", which is unknown or a group");
  }
  if (out.bytes > in_.end() - out.offset) {
    return fail(out, errc::header_outside_file,
                "field " + grouped(number) + " has " + grouped(out.bytes) + " bytes, but only " +
                    grouped(in_.end() - out.offset) + " are left in its message");
  }
  next_byte_ = out.offset + out.bytes;
  return true;
}

bool protobuf_reader::enter(const protobuf_field& field) {
  if (field.type != wire_type::bytes) {
    return fail(field, errc::malformed_header,
                "field " + grouped(field.number) + " must be a message");
  }
  if (open_.size() == depth_max) {
    return fail(field, errc::malformed_header,
                "more than " + grouped(depth_max) + " nested messages");
  }
  open_.push_back({field.offset, in_.end()});
  in_.set_end(field.offset + field.bytes);
  next_byte_ = field.offset;
  return true;
}

void protobuf_reader::leave() noexcept {
  next_byte_ = in_.end();
  in_.set_end(open_.back().end_outside);
  open_.pop_back();
}

void protobuf_reader::rewind() noexcept { next_byte_ = open_.back().begin; }

bool protobuf_reader::text(const protobuf_field& field, std::uint64_t bytes_max, std::string& out) {
  if (field.type != wire_type::bytes || field.bytes > bytes_max) {
    return fail(field, errc::malformed_header,
                "field " + grouped(field.number) + " must be a text of at most " +
                    grouped(bytes_max) + " bytes");
  }
  in_.seek(field.offset);
  std::string_view content;
  if (!in_.text(static_cast<std::size_t>(field.bytes), content)) return false;
  out = content;
  return true;
}

bool protobuf_reader::integers(const protobuf_field& field, std::size_t count_max,
                               std::vector<std::uint64_t>& out) {
  const auto too_many = [&] {
    return fail(
        field, errc::malformed_header,
        "field " + grouped(field.number) + " occurs more than " + grouped(count_max) + " times");
  };
  if (field.type == wire_type::varint) {
    if (out.size() == count_max) return too_many();
    out.push_back(field.value);
    return true;
  }
  if (field.type != wire_type::bytes) {
    return fail(field, errc::malformed_header,
                "field " + grouped(field.number) + " must be integers");
  }
  in_.seek(field.offset);
  while (in_.position() < field.offset + field.bytes) {
    if (out.size() == count_max) return too_many();
    if (!read_varint(out.emplace_back())) return false;
  }
  return in_.position() == field.offset + field.bytes ||
         fail(field, errc::malformed_header, "the packed integers end inside an integer");
}

}  // namespace ringload::inline v0
