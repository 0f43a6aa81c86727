// SPDX-License-Identifier: Apache-2.0
#include "keeper/messages.hpp"

#include "base/serialize.hpp"

namespace ringload::inline v0::detail {

namespace {

// "rlkeep" and the version of the protocol.
constexpr std::uint64_t magic_request = 0x31'71'70'65'65'6B'6C'72;
constexpr std::uint64_t magic_reply = 0x31'61'70'65'65'6B'6C'72;

void pass(auto& way, auto& magic, auto& m)
  requires requires { m.name; }
{
  way.number(magic);
  way.text(m.name, name_bytes_max);
}

void pass(auto& way, auto& magic, auto& m)
  requires requires { m.answer; }
{
  way.number(magic);
  way.number(m.answer, static_cast<std::uint64_t>(keep_answer::malformed));
  way.number(m.version);
  way.number(m.regions, descriptors_max - 1);
}

template <class Message>
result<Message> unpacked(std::span<const std::byte> from, std::uint64_t magic,
                         const char* problem) {
  unpacker in(from);
  std::uint64_t found = 0;
  Message out;
  pass(in, found, out);
  if (!in.is_complete() || found != magic) return fault{errc::malformed_message, "", problem};
  return out;
}

}  // namespace

std::vector<std::byte> packed(const keep_request& request) {
  packer to;
  pass(to, magic_request, request);
  return to.take();
}

std::vector<std::byte> packed(const keep_reply& reply) {
  packer to;
  pass(to, magic_reply, reply);
  return to.take();
}

result<keep_request> unpacked_request(std::span<const std::byte> from) {
  return unpacked<keep_request>(from, magic_request, "malformed keeper request");
}

result<keep_reply> unpacked_reply(std::span<const std::byte> from) {
  return unpacked<keep_reply>(from, magic_reply, "malformed keeper reply");
}

}  // namespace ringload::inline v0::detail
