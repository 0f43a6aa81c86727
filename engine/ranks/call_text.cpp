// SPDX-License-Identifier: Apache-2.0

#include "ranks/call_text.hpp"

#include <ringload/writer.hpp>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"

namespace ringload::inline v0::detail {

bool may_split(const group_options& options) noexcept {
  return options.load.verify.stored == embedded_digests::none;
}

std::string load_identity_text(const catalog& contents, const group_options& options) {
  packer archive;
  for (const tensor_info& t : contents.tensors) {
    archive.text(t.name);
    archive.number(t.dtype);
    archive.list(t.shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    archive.list(t.original_shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    archive.number(t.bytes);
    archive.number(t.stored_bytes);
    archive.text(t.encoding);
    archive.text(t.type);
    archive.number(planned(t, options.load).dtype);
  }
  return "load " + grouped(contents.tensors.size()) + " tensors of " +
         grouped(contents.size_bytes()) + " bytes, whose description has the CRC-32C " +
         std::to_string(crc32c(archive.take())) +
         (options.reading == group_reading::own ? ", group_reading::own"
                                                : ", group_reading::divided") +
         (may_split(options) ? "" : ", tensors not split");
}

std::string text_of(const group_call& call) {
  using enum group_call::call_kind;
  const char* const names[] = {"tensor", "shard", "fused", "push", "model"};
  std::string text = std::string(names[static_cast<unsigned>(call.kind)]) + "(";
  if (call.kind == fused) text += "'" + call.fused_name + "' of ";
  for (const std::string& name : call.names) {
    text += (&name == &call.names.front() ? "'" : ", '") + name + "'";
  }
  if (call.kind == shard || call.kind == fused) text += ", " + std::to_string(call.dim);
  if (call.kind == push) text += ", " + std::to_string(call.receiver);
  return text + ")";
}

}  // namespace ringload::inline v0::detail
