// SPDX-License-Identifier: Apache-2.0

#include "keeper/messages.hpp"

#include "base/serialize.hpp"

namespace ringload::inline v0::detail {

namespace {

// A message begins with 8 characters: "rlkeep", the letter `q` for a request or `a` for a reply,
// and the version of the protocol as a digit. The last byte of a constant is the first character.
constexpr std::uint64_t magic_request = 0x32'71'70'65'65'6B'6C'72;
constexpr std::uint64_t magic_reply = 0x32'61'70'65'65'6B'6C'72;

void pass_version(auto& archive, auto& version) {
  archive.number(version.keeper);
  archive.number(version.number);
}

void pass(auto& archive, auto& magic, auto& m)
  requires requires { m.name; }
{
  archive.number(magic);
  archive.text(m.name, name_bytes_max);
  archive.number(m.action, static_cast<std::uint64_t>(keep_action::read_version));
  pass_version(archive, m.current);
}

void pass(auto& archive, auto& magic, auto& m)
  requires requires { m.answer; }
{
  archive.number(magic);
  archive.number(m.answer, static_cast<std::uint64_t>(keep_answer::malformed));
  pass_version(archive, m.version);
  archive.number(m.host_regions, descriptors_max - 1);
  archive.number(m.device_regions, descriptors_max - 1);
}

template <class Message>
result<Message> unpack(std::span<const std::byte> packet, std::uint64_t magic,
                       const char* problem) {
  unpacker archive(packet);
  std::uint64_t found_magic = 0;
  Message out;
  pass(archive, found_magic, out);
  if (!archive.is_complete() || found_magic != magic)
    return fault{errc::malformed_message, "", problem};
  return out;
}

}  // namespace

std::vector<std::byte> pack(const keep_request& request) {
  packer archive;
  pass(archive, magic_request, request);
  return archive.take();
}

std::vector<std::byte> pack(const keep_reply& reply) {
  packer archive;
  pass(archive, magic_reply, reply);
  return archive.take();
}

result<keep_request> unpack_request(std::span<const std::byte> packet) {
  return unpack<keep_request>(packet, magic_request, "malformed keeper request");
}

result<keep_reply> unpack_reply(std::span<const std::byte> packet) {
  return unpack<keep_reply>(packet, magic_reply, "malformed keeper reply");
}

}  // namespace ringload::inline v0::detail
