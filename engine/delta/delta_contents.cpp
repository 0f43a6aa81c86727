// SPDX-License-Identifier: Apache-2.0

#include "delta/delta_contents.hpp"

#include <algorithm>
#include <ringload/verify.hpp>
#include <utility>

#include "base/crc32c_hasher.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"
#include "catalog/delta_index.hpp"
#include "formats/checksum_list.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view version_key = delta_layout_key;
constexpr std::string_view base_key = delta_base_key;
constexpr std::string_view result_key = delta_result_key;
constexpr std::string_view base_digests_key = "ringload.delta.base_digests";
constexpr std::string_view result_digests_key = "ringload.delta.result_digests";
constexpr int layout_version = 1;

using crc_map = std::map<std::string, std::uint32_t, std::less<>>;

std::uint32_t crc_of(const std::vector<std::byte>& bytes) noexcept {
  std::uint32_t crc = 0;
  for (const std::byte byte : bytes) crc = crc << 8U | static_cast<std::uint32_t>(byte);
  return crc;
}

std::string digests_of(const version_tensors& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += checksum_line({name, digest_algorithm::crc32c, crc32c_digest(tensor.crc)});
  }
  return text;
}

fault malformed(std::string_view key, const std::string& cause) {
  return {errc::malformed_header, "attribute '" + std::string(key) + "'", cause};
}

const attribute* find(const catalog& file, std::string_view key) noexcept {
  for (const auto& [name, value] : file.metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

result<std::string> text_at(const catalog& file, std::string_view key) {
  const attribute* const value = find(file, key);
  if (value == nullptr || !value->is_text()) {
    return malformed(
        key, value == nullptr ? "the attribute is missing" : "the value must be a text string");
  }
  return value->text();
}

result<crc_map> digests_at(const catalog& file, std::string_view key) {
  const auto text = text_at(file, key);
  if (!text) return text.error();
  const auto list = parse_checksum_text(*text, "attribute '" + std::string(key) + "'");
  if (!list) return list.error();
  crc_map crcs;
  for (const tensor_digest& digest : list->tensors) {
    if (digest.algorithm != digest_algorithm::crc32c) {
      return malformed(
          key, tensor_place(digest.name) + " has a digest of another kind, expected a CRC-32C");
    }
    crcs.emplace(digest.name, crc_of(digest.bytes));
  }
  return crcs;
}

result<dtype> dtype_of(const composite_info& object) {
  for (const auto& [key, value] : object.attributes) {
    const auto type = key == dtype_key ? dtype_named(value.text()) : std::nullopt;
    if (type) return *type;
  }
  return fault{errc::malformed_header, tensor_place(object.name),
               "its dtype is missing or unknown"};
}

result<tensor_change> change_of(const composite_info& object) {
  tensor_change change;
  const bool is_sparse = object.layout == sparse_layout;
  change.kind = is_sparse ? tensor_change::form::sparse : tensor_change::form::dense;
  const std::vector<std::string> expected =
      is_sparse ? std::vector<std::string>{std::string(gaps_part), std::string(planes_part)}
                : std::vector<std::string>{std::string(planes_part)};
  std::vector<std::string> parts = object.parts;
  std::sort(parts.begin(), parts.end());
  if ((!is_sparse && object.layout != dense_layout) || parts != expected) {
    return fault{errc::malformed_header, tensor_place(object.name),
                 "its layout is '" + printable(object.layout) + "' with " + grouped(parts.size()) +
                     " components, expected the layout and components of a changed tensor"};
  }
  const auto type = dtype_of(object);
  if (!type) return type.error();
  change.dtype = *type;
  change.shape = object.shape;
  if (is_sparse) change.gaps = object.name_of(gaps_part);
  change.values = object.name_of(planes_part);
  return change;
}

// Lists the changes of a delta with an index.
result<void> read_frames(const catalog& file, delta_contents& contents) {
  for (const composite_info& object : file.composites) {
    tensor_change change;
    change.kind = object.layout == indexed_xor_layout ? tensor_change::form::xor_frame
                                                      : tensor_change::form::overwrite_frame;
    change.values = object.name_of(frame_part);
    for (const auto& [key, value] : object.attributes) {
      if (key == changed_digest_key) change.result_digest = value.text();
    }
    if (!contents.changes.emplace(object.name, std::move(change)).second) {
      return fault{errc::duplicate_tensor, tensor_place(object.name),
                   "the delta changes the tensor twice"};
    }
  }
  return {};
}

// Lists the changes of a delta in a .zt file. Every tensor of the file that belongs to no sparse or
// dense change is a whole tensor.
result<void> read_changes(const catalog& file, delta_contents& contents) {
  std::map<std::string, bool, std::less<>> components;
  for (const composite_info& object : file.composites) {
    auto change = change_of(object);
    if (!change) return change.error();
    for (const std::string& part : object.parts) components.emplace(object.name_of(part), true);
    contents.changes.emplace(object.name, std::move(*change));
  }
  for (const tensor_info& tensor : file.tensors) {
    if (components.contains(tensor.name)) continue;
    tensor_change change;
    change.dtype = tensor.dtype;
    change.shape = tensor.shape;
    change.values = tensor.name;
    contents.changes.emplace(tensor.name, std::move(change));
  }
  for (const auto& [name, change] : contents.changes) {
    const bool is_whole = change.kind == tensor_change::form::whole;
    if (!contents.result_crcs.contains(name) || (!is_whole && !contents.base_crcs.contains(name))) {
      return fault{
          errc::malformed_header, tensor_place(name),
          "the delta changes the tensor, but lacks the digest of its base or of its result"};
    }
  }
  for (const auto& [name, crc] : contents.result_crcs) {
    const auto before = contents.base_crcs.find(name);
    const bool is_kept = before != contents.base_crcs.end() && before->second == crc;
    if (is_kept || contents.changes.contains(name)) continue;
    return fault{
        errc::malformed_header, tensor_place(name),
        "the digests of base and result differ, but the delta has no change for the tensor"};
  }
  return {};
}

}  // namespace

std::string identity_of(const version_tensors& tensors) {
  packer text;
  for (const auto& [name, tensor] : tensors) {
    text.text(name);
    text.text(std::string(ringload::name(tensor.dtype)));
    text.list(tensor.shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    text.number(tensor.crc);
  }
  return "crc32c " + hex(crc32c_digest(crc32c(text.take())));
}

attributes describe_versions(const version_tensors& base, const version_tensors& next) {
  return {{std::string(version_key), attribute(layout_version)},
          {std::string(base_key), attribute(identity_of(base))},
          {std::string(result_key), attribute(identity_of(next))},
          {std::string(base_digests_key), attribute(digests_of(base))},
          {std::string(result_digests_key), attribute(digests_of(next))}};
}

result<void> check_equal_composites(const catalog& base, const catalog& next) {
  std::map<std::string_view, const composite_info*> unmatched;
  for (const composite_info& object : base.composites) unmatched.emplace(object.name, &object);
  const auto refused = [](std::string_view name, std::string cause) {
    return fault{errc::unsupported_feature, tensor_place(name),
                 std::move(cause) + ", which a delta cannot describe"};
  };
  for (const composite_info& after : next.composites) {
    const auto found = unmatched.find(after.name);
    if (found == unmatched.end()) return refused(after.name, "the next version adds the object");
    const composite_info& before = *found->second;
    const bool is_equal = before.layout == after.layout && before.type == after.type &&
                          before.shape == after.shape && before.separator == after.separator &&
                          std::ranges::is_permutation(before.parts, after.parts) &&
                          before.attributes == after.attributes;
    if (!is_equal) {
      return refused(after.name,
                     "the layout, type, shape, attributes or parts of the object change");
    }
    unmatched.erase(found);
  }
  if (unmatched.empty()) return {};
  return refused(unmatched.begin()->first, "the next version lacks the object");
}

bool is_delta(const catalog& file) noexcept { return find(file, version_key) != nullptr; }

result<void> check_full_version(const catalog& base, const std::string& place) {
  if (!is_delta(base)) return {};
  return fault{errc::not_a_checkpoint, place, "it is a delta, expected a full version"};
}

result<delta_contents> read_contents(const catalog& file) {
  const attribute* const layout = find(file, version_key);
  if (layout == nullptr) {
    return fault{errc::not_a_checkpoint,
                 {},
                 "the file is not a delta: the attribute 'ringload.delta' is missing"};
  }
  delta_contents contents;
  contents.is_indexed = *layout == attribute(indexed_layout_name);
  if (!contents.is_indexed && *layout != attribute(layout_version)) {
    return fault{errc::unsupported_feature,
                 {},
                 "the layout version of the delta is " + printable(layout->text()) + ", expected " +
                     std::to_string(layout_version)};
  }
  for (const unreadable_info& object : file.unreadable) {
    return fault{object.code, object.place, object.reason};
  }
  auto base = text_at(file, base_key);
  if (!base) return base.error();
  auto next = text_at(file, result_key);
  if (!next) return next.error();
  contents.base_identity = std::move(*base);
  contents.result_identity = std::move(*next);
  if (contents.is_indexed) {
    if (auto read = read_frames(file, contents); !read) return read.error();
    return contents;
  }
  auto base_crcs = digests_at(file, base_digests_key);
  if (!base_crcs) return base_crcs.error();
  auto result_crcs = digests_at(file, result_digests_key);
  if (!result_crcs) return result_crcs.error();
  contents.base_crcs = std::move(*base_crcs);
  contents.result_crcs = std::move(*result_crcs);
  for (const auto& [key, value] : file.metadata) {
    if (!key.starts_with(delta_key_prefix)) contents.metadata.emplace_back(key, value);
  }
  if (auto read = read_changes(file, contents); !read) return read.error();
  return contents;
}

}  // namespace ringload::inline v0
