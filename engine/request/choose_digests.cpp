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

fault differ(const manifest& listed, std::string_view tensor, const char* cause) {
  return {errc::incomplete_manifest, printable_path(listed.place) + ": " + tensor_place(tensor),
          cause};
}

// Returns the digest of each tensor of the catalog. The manifest owns the digests. Fails if catalog
// and manifest list different tensors, or if a digest cannot be computed.
result<std::vector<const tensor_digest*>> expected_digests(const manifest& listed,
                                                           const ringload::catalog& contents) {
  const auto by_name = [](const auto* a, const auto* b) { return a->name < b->name; };
  std::vector<const tensor_digest*> sorted;
  for (const tensor_digest& listed_digest : listed.tensors) {
    if (listed_digest.algorithm == digest_algorithm::sha256 && !listed.sha256) {
      return fault{errc::digest_unavailable, printable_path(listed.place),
                   "it holds a sha256, and no hasher for that was given (manifest::sha256)"};
    }
    sorted.push_back(&listed_digest);
  }
  std::sort(sorted.begin(), sorted.end(), by_name);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](auto* a, auto* b) { return a->name == b->name; });
  if (twice != sorted.end()) {
    return fault{errc::malformed_manifest,
                 printable_path(listed.place) + ": " + tensor_place((*twice)->name),
                 "it is listed twice"};
  }

  std::vector<const tensor_digest*> expected(contents.tensors.size());
  std::vector<bool> used(sorted.size());
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const tensor_info& info = contents.tensors[t];
    const auto found = std::lower_bound(sorted.begin(), sorted.end(), &info,
                                        [](auto* a, auto* b) { return a->name < b->name; });
    if (found == sorted.end() || (*found)->name != info.name) {
      return differ(listed, info.name, "the checkpoint has it, the manifest does not");
    }
    expected[t] = *found;
    used[static_cast<std::size_t>(found - sorted.begin())] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end()) {
    const auto* listed_digest = sorted[static_cast<std::size_t>(unused - used.begin())];
    return differ(listed, listed_digest->name, "the manifest has it, the checkpoint does not");
  }
  return expected;
}

// A manifest's digests cover the stored bytes of whole tensors. The manifest must list the whole
// checkpoint, but only loaded tensors are checked.
result<void> add_listed(const opened_checkpoint& from, const std::vector<chosen_tensor>& chosen,
                        const plan_input_builder& wanted, const manifest& verify,
                        std::vector<tensor_check>& checks) {
  const ringload::catalog& contents = from.named->catalog();
  auto expected = expected_digests(verify, contents);
  if (!expected) return expected.error().in(printable_path(from.name));
  checks.resize(chosen.size());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const box& first = chosen[i].boxes.front();
    if (chosen[i].boxes.size() > 1 || !first.ranges.empty()) {
      return fault{errc::digest_unavailable, tensor_place_of(contents, first.tensor),
                   "a part of it cannot be checked against the manifest"};
    }
    const tensor_digest& listed_digest = *(*expected)[first.tensor];
    checks[i].algorithm = listed_digest.algorithm;
    checks[i].digest = listed_digest.bytes;
    checks[i].of_manifest = true;
  }
  if (const auto t = wanted.first_converted()) {
    return fault{errc::digest_unavailable,
                 tensor_place_of(contents, chosen[*t].boxes.front().tensor),
                 "it is converted, so it cannot be checked against the manifest"};
  }
  return {};
}

// Adds the checks for indices of sparse objects that are loaded whole.
void add_indices(const ringload::catalog& contents, const std::vector<chosen_tensor>& chosen,
                 std::vector<tensor_check>& checks) {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  for (std::uint32_t t = 0; !contents.composites.empty() && t < contents.tensors.size(); ++t) {
    by_name.emplace(contents.tensors[t].name, t);
  }
  std::unordered_map<std::uint32_t, index_rule> rules;  // By tensor.
  for (const composite_info& composite : contents.composites) {
    const auto values = by_name.find(composite.name_of("values"));
    if (values == by_name.end() || contents.tensors[values->second].shape.empty()) continue;
    for (const std::string& part : composite.parts) {
      const auto found = by_name.find(composite.name_of(part));
      auto rule = index_rule_of(composite, part, contents.tensors[values->second].shape.front());
      if (!rule || found == by_name.end() || contents.tensors[found->second].dtype != dtype::u64)
        continue;
      rules.emplace(found->second, std::move(*rule));
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

// Adds the checks for digests that the files hold.
result<void> add_stored(const opened_checkpoint& from, const std::vector<chosen_tensor>& chosen,
                        const plan_input_builder& wanted, const verification& how, bool fills,
                        std::vector<tensor_check>& checks) {
  const ringload::catalog& contents = from.named->catalog();
  const plan_input_builder::digests& stored = wanted.of_files();
  if (how.stored == embedded_digests::require && stored.unchecked) {
    return fault{errc::digest_unavailable, tensor_place_of(contents, *stored.unchecked),
                 stored.why_unchecked};
  }
  if (stored.needs_sha256 && !has_sha256(how)) {
    return fault{errc::digest_unavailable, tensor_place_of(contents, *stored.needs_sha256),
                 "its digest is a sha256, and no hasher for that was given (verification::sha256)"};
  }
  for (const auto& [t, digest] : stored.unread) {
    const open_file& file = from.files[digest->stream.file];
    const auto read = [&file](std::uint64_t offset, std::span<std::byte> into) {
      return file.object ? read_object(*file.object, source_read(offset, into))
                         : read_bytes_into(file.buffered.get(), offset, into);
    };
    auto status = check_unread(read, *digest, how);
    if (!status) return status.error().in(tensor_place_of(contents, t));
  }
  for (std::size_t i = 0; i < stored.landed.size(); ++i) {
    if (stored.landed[i] == nullptr) continue;
    checks.resize(chosen.size());
    checks[i].algorithm = stored.landed[i]->algorithm;
    checks[i].digest = stored.landed[i]->bytes;
  }
  if (!fills) add_indices(contents, chosen, checks);
  return {};
}

}  // namespace

result<std::vector<tensor_check>> choose_digests(const opened_checkpoint& from,
                                                 const std::vector<chosen_tensor>& chosen,
                                                 const plan_input_builder& wanted,
                                                 const verification& verify, bool fills) {
  std::vector<tensor_check> checks;
  if (verify.checksums != nullptr) {
    auto status = add_listed(from, chosen, wanted, *verify.checksums, checks);
    if (!status) return status.error();
  }
  if (verify.stored != embedded_digests::none) {
    auto status = add_stored(from, chosen, wanted, verify, fills, checks);
    if (!status) return status.error();
  }
  return checks;
}

}  // namespace ringload::inline v0::detail
