// SPDX-License-Identifier: Apache-2.0

#include "request/choose_digests.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/printable.hpp"
#include "catalog/read_object.hpp"
#include "catalog/source_file.hpp"
#include "formats/sparse_indices.hpp"
#include "request/digest.hpp"

namespace ringload::inline v0::detail {

namespace {

std::string tensor_place_of(const ringload::catalog& in, std::uint32_t t) {
  return tensor_place(in, in.tensors[t]);
}

fault differ(const checksum_list& listed, std::string_view tensor, const char* cause) {
  return {errc::incomplete_checksum_list,
          printable_path(listed.place) + ": " + tensor_place(tensor), cause};
}

// Fails if the digest does not have the size of its algorithm. A check compares nothing if the
// digest is empty, so a list with empty digests would verify no tensor.
result<void> check_digest_size(const checksum_list& listed, const tensor_digest& digest) {
  const std::size_t expected = digest.algorithm == digest_algorithm::crc32c ? 4 : 32;
  if (digest.bytes.size() == expected) return {};
  return fault{errc::malformed_checksum_list,
               printable_path(listed.place) + ": " + tensor_place(digest.name),
               "the " + std::string(name(digest.algorithm)) + " digest has " +
                   std::to_string(digest.bytes.size()) + " bytes, expected " +
                   std::to_string(expected)};
}

// Returns the expected digest of each tensor of the catalog `contents`. The checksum list `listed`
// owns the digests. Fails if the catalog and the list have different tensors, if a digest has a
// wrong size, or if a digest cannot be computed.
result<std::vector<const tensor_digest*>> expected_digests(const checksum_list& listed,
                                                           const ringload::catalog& contents) {
  const auto by_name = [](const auto* a, const auto* b) { return a->name < b->name; };
  std::vector<const tensor_digest*> sorted;
  for (const tensor_digest& listed_digest : listed.tensors) {
    if (listed_digest.algorithm == digest_algorithm::sha256 && !listed.sha256) {
      return fault{
          errc::digest_unavailable, printable_path(listed.place),
          "the list has a sha256 digest, but no sha256 hasher is set (checksum_list::sha256)"};
    }
    if (auto valid = check_digest_size(listed, listed_digest); !valid) return valid.error();
    sorted.push_back(&listed_digest);
  }
  std::sort(sorted.begin(), sorted.end(), by_name);
  const auto duplicate = std::adjacent_find(sorted.begin(), sorted.end(),
                                            [](auto* a, auto* b) { return a->name == b->name; });
  if (duplicate != sorted.end()) {
    return fault{errc::malformed_checksum_list,
                 printable_path(listed.place) + ": " + tensor_place((*duplicate)->name),
                 "the tensor is listed twice"};
  }

  std::vector<const tensor_digest*> expected(contents.tensors.size());
  std::vector<bool> used(sorted.size());
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const tensor_info& info = contents.tensors[t];
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), &info,
                                        [](auto* a, auto* b) { return a->name < b->name; });
    if (found == sorted.end() || (*found)->name != info.name) {
      return differ(listed, info.name,
                    "the tensor is in the checkpoint but not in the checksum list");
    }
    expected[t] = *found;
    used[static_cast<std::size_t>(found - sorted.begin())] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end()) {
    const auto* listed_digest = sorted[static_cast<std::size_t>(unused - used.begin())];
    return differ(listed, listed_digest->name,
                  "the tensor is in the checksum list but not in the checkpoint");
  }
  return expected;
}

// Adds the checks of the checksum list. The digests in the list cover whole tensors, after
// decompression and without conversion. The list must contain all tensors of the checkpoint, but
// only loaded tensors are checked.
result<void> add_listed(const opened_checkpoint& from, const std::vector<chosen_tensor>& chosen,
                        const plan_input_builder& builder, const checksum_list& verify,
                        std::vector<tensor_check>& checks) {
  const ringload::catalog& contents = from.named->catalog();
  auto expected = expected_digests(verify, contents);
  if (!expected) return expected.error().in(printable_path(from.name));
  checks.resize(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const box& first = chosen[i].boxes.front();
    if (chosen[i].boxes.size() > 1 || !first.ranges.empty()) {
      return fault{errc::digest_unavailable, tensor_place_of(contents, first.tensor),
                   "only a part of the tensor is loaded, but the checksum list has the digest of "
                   "the whole tensor"};
    }
    const tensor_digest& listed_digest = *(*expected)[first.tensor];
    checks[i].algorithm = listed_digest.algorithm;
    checks[i].digest = listed_digest.bytes;
    checks[i].from_list = true;
  }
  if (const auto t = builder.first_converted()) {
    return fault{
        errc::digest_unavailable, tensor_place_of(contents, chosen[*t].boxes.front().tensor),
        "the tensor is converted, but the checksum list has the digest of the stored bytes"};
  }
  return {};
}

// Adds checks of the indices of sparse objects, for index tensors that are loaded as a whole.
void add_indices(const ringload::catalog& contents, const std::vector<chosen_tensor>& chosen,
                 std::vector<tensor_check>& checks) {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  for (std::uint32_t t = 0; !contents.composites.empty() && t < contents.tensors.size(); ++t) {
    by_name.emplace(contents.tensors[t].name, t);
  }
  std::unordered_map<std::uint32_t, index_rule> rules;  // The key is the catalog index.
  for (const composite_info& composite : contents.composites) {
    const auto values = by_name.find(composite.name_of("values"));
    if (values == by_name.end() || contents.tensors[values->second].shape.empty()) continue;
    for (const std::string& part : composite.parts) {
      const auto found = by_name.find(composite.name_of(part));
      if (found == by_name.end()) continue;
      auto rule = index_rule_of(composite, part, contents.tensors[found->second],
                                contents.tensors[values->second].shape.front());
      if (rule) rules.emplace(found->second, std::move(*rule));
    }
  }
  for (std::size_t i = 0; !rules.empty() && i < chosen.size(); ++i) {
    const auto rule = rules.find(chosen[i].boxes.front().tensor);
    const bool whole = chosen[i].boxes.size() == 1 && chosen[i].boxes.front().ranges.empty();
    if (rule == rules.end() || !whole) continue;
    checks.resize(chosen.size());
    checks[i].indices = rule->second;
  }
}

// Adds checks of the digests that the checkpoint's files contain, and of the indices of sparse
// objects. Verifies the digests of tensors without elements.
result<void> add_stored(const opened_checkpoint& from, const std::vector<chosen_tensor>& chosen,
                        const plan_input_builder& builder, const verification& verify, bool is_fill,
                        std::vector<tensor_check>& checks) {
  const ringload::catalog& contents = from.named->catalog();
  const plan_input_builder::digests& stored = builder.file_digests();
  if (verify.stored == embedded_digests::require && stored.unchecked) {
    return fault{errc::digest_unavailable, tensor_place_of(contents, *stored.unchecked),
                 stored.unchecked_reason};
  }
  if (stored.needs_sha256 && !has_sha256(verify)) {
    return fault{errc::digest_unavailable, tensor_place_of(contents, *stored.needs_sha256),
                 "its digest is a sha256, but no sha256 hasher is set (verification::sha256)"};
  }
  for (const auto& [t, digest] : stored.unread) {
    const open_file& file = from.files[digest->stream.file];
    const auto read = [&file](std::uint64_t offset, std::span<std::byte> into) {
      return file.object ? read_object(*file.object, source_read(offset, into))
                         : read_bytes_into(file.buffered.get(), offset, into);
    };
    auto status = verify_unread_bytes(read, *digest, verify);
    if (!status) return status.error().in(tensor_place_of(contents, t));
  }
  for (std::size_t i = 0; i < stored.of_loaded.size(); ++i) {
    if (stored.of_loaded[i] == nullptr) continue;
    checks.resize(chosen.size());
    checks[i].algorithm = stored.of_loaded[i]->algorithm;
    checks[i].digest = stored.of_loaded[i]->bytes;
  }
  if (!is_fill) add_indices(contents, chosen, checks);
  return {};
}

}  // namespace

result<std::vector<tensor_check>> choose_digests(const opened_checkpoint& from,
                                                 const std::vector<chosen_tensor>& chosen,
                                                 const plan_input_builder& builder,
                                                 const verification& verify, bool is_fill) {
  std::vector<tensor_check> checks;
  if (verify.checksums != nullptr) {
    auto status = add_listed(from, chosen, builder, *verify.checksums, checks);
    if (!status) return status.error();
  }
  if (verify.stored != embedded_digests::none) {
    auto status = add_stored(from, chosen, builder, verify, is_fill, checks);
    if (!status) return status.error();
  }
  return checks;
}

}  // namespace ringload::inline v0::detail
