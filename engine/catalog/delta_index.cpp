// SPDX-License-Identifier: Apache-2.0

#include "catalog/delta_index.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

fault unsupported(errc code, std::string_view key, const std::string& value,
                  const std::string& expected) {
  return {code, "metadata",
          "the " + std::string(key) + " of the delta is '" + printable(value) + "', expected " +
              expected};
}

result<void> check_description(const index_delta& delta) {
  if (delta.encoding != "xor" && delta.encoding != "overwrite") {
    return unsupported(errc::unsupported_feature, "delta_encoding", delta.encoding,
                       "'xor' or 'overwrite'");
  }
  if (delta.compression != "zstd") {
    return unsupported(errc::unsupported_feature, "compression_format", delta.compression,
                       "'zstd'");
  }
  if (delta.checksum != "adler32" && delta.checksum != "xxh3-128") {
    return unsupported(errc::digest_unavailable, "checksum_format", delta.checksum,
                       "'adler32' or 'xxh3-128'");
  }
  return {};
}

const attribute* find(const attributes& pairs, std::string_view key) noexcept {
  const auto found = std::ranges::find(pairs, key, &attributes::value_type::first);
  return found == pairs.end() ? nullptr : &found->second;
}

result<void> describe_shard(file_content& content, std::uint32_t shard, const shard_index& index) {
  const attributes digests = std::exchange(content.entries.metadata, {});
  for (entry& tensor : content.entries.tensors) {
    const auto refused = [&](errc code, const std::string& cause) {
      return fault{code, printable_path(content.info.path) + ": " + tensor_place(tensor.name),
                   cause};
    };
    const std::pair<std::string, std::uint32_t> listed(tensor.name, shard);
    if (!std::ranges::binary_search(index.tensors, listed)) {
      return refused(errc::malformed_index, "the index of the delta does not list this tensor");
    }
    if (tensor.dtype != dtype::u8 || tensor.shape.size() != 1) {
      return refused(errc::malformed_header,
                     "expected a compressed difference, which is U8 with one dimension");
    }
    const attribute* const digest = find(digests, tensor.name);
    if (digest == nullptr) {
      return refused(errc::digest_unavailable, "the shard has no digest of the changed tensor");
    }
    composite changed;
    changed.name = tensor.name;
    changed.layout = index.delta->encoding == "xor" ? indexed_xor_layout : indexed_overwrite_layout;
    changed.parts = {std::string(frame_part)};
    changed.attributes = {
        {std::string(changed_digest_key), attribute(index.delta->checksum + " " + digest->text())}};
    tensor.name += changed.separator + std::string(frame_part);
    content.entries.composites.push_back(std::move(changed));
  }
  return {};
}

}  // namespace

result<void> describe_indexed_delta(std::vector<file_content>& shards, shard_index& index) {
  if (auto valid = check_description(*index.delta); !valid) return valid;
  for (std::uint32_t shard = 0; shard < shards.size(); ++shard) {
    if (auto described = describe_shard(shards[shard], shard, index); !described) return described;
  }
  for (auto& [name, shard] : index.tensors) name += "/" + std::string(frame_part);
  std::ranges::sort(index.tensors);
  return {};
}

attributes metadata_of(const index_delta& delta) {
  return {{std::string(delta_layout_key), attribute(indexed_layout_name)},
          {std::string(delta_base_key), attribute(delta.base_version)},
          {std::string(delta_result_key), attribute(delta.version)}};
}

}  // namespace ringload::inline v0
