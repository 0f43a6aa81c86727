// SPDX-License-Identifier: Apache-2.0
#include "keeper/messages.hpp"

#include "core/packing.hpp"

namespace ringload::inline v0::detail {

namespace {

// "rlkeep", and the version of the protocol.
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
result<Message> unpacked(std::span<const std::byte> from, std::uint64_t magic, const char* what) {
  unpacker in(from);
  std::uint64_t found = 0;
  Message out;
  pass(in, found, out);
  if (!in.good() || found != magic) return fault{errc::malformed_message, "", what};
  return out;
}

}  // namespace

std::vector<std::byte> packed(const keep_request& of) {
  packer to;
  pass(to, magic_request, of);
  return to.take();
}

std::vector<std::byte> packed(const keep_reply& of) {
  packer to;
  pass(to, magic_reply, of);
  return to.take();
}

result<keep_request> unpacked_request(std::span<const std::byte> from) {
  return unpacked<keep_request>(from, magic_request, "this is no request to a keeper");
}

result<keep_reply> unpacked_reply(std::span<const std::byte> from) {
  return unpacked<keep_reply>(from, magic_reply, "this is no keeper's reply");
}

}  // namespace ringload::inline v0::detail
