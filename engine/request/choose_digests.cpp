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

fault differ(const manifest& listed, std::string_view tensor, const char* why) {
  return {errc::incomplete_manifest, printable_path(listed.place) + ": " + tensor_place(tensor),
          why};
}

// The digest of each tensor of the catalog; the manifest owns them. Fails if either has a tensor
// that the other lacks, or if a digest cannot be computed.
result<std::vector<const tensor_digest*>> expected_digests(const manifest& listed,
                                                           const ringload::catalog& what) {
  const auto by_name = [](const auto* a, const auto* b) { return a->name < b->name; };
  std::vector<const tensor_digest*> sorted;
  for (const tensor_digest& one : listed.tensors) {
    if (one.algorithm == digest_algorithm::sha256 && !listed.sha256) {
      return fault{errc::digest_unavailable, printable_path(listed.place),
                   "it holds a sha256, and no hasher for that was given (manifest::sha256)"};
    }
    sorted.push_back(&one);
  }
  std::sort(sorted.begin(), sorted.end(), by_name);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](auto* a, auto* b) { return a->name == b->name; });
  if (twice != sorted.end()) {
    return fault{errc::malformed_manifest,
                 printable_path(listed.place) + ": " + tensor_place((*twice)->name),
                 "it is listed twice"};
  }

  std::vector<const tensor_digest*> expected(what.tensors.size());
  std::vector<bool> used(sorted.size());
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const tensor_info& info = what.tensors[t];
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), &info,
                                     [](auto* one, auto* of) { return one->name < of->name; });
    if (at == sorted.end() || (*at)->name != info.name) {
      return differ(listed, info.name, "the checkpoint has it, the manifest does not");
    }
    expected[t] = *at;
    used[static_cast<std::size_t>(at - sorted.begin())] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end()) {
    const auto* one = sorted[static_cast<std::size_t>(unused - used.begin())];
    return differ(listed, one->name, "the manifest has it, the checkpoint does not");
  }
  return expected;
}

// Digests of a manifest are of the whole tensors' bytes in the files. It lists all of the
// checkpoint; only what is loaded is checked.
result<void> add_listed(const opened_checkpoint& from, const std::vector<chosen_tensor>& which,
                        const plan_input_builder& wanted, const manifest& verify,
                        std::vector<tensor_check>& checks) {
  const ringload::catalog& all = from.named->catalog();
  auto expected = expected_digests(verify, all);
  if (!expected) return expected.error().in(printable_path(from.name));
  checks.resize(which.size());
  for (std::size_t i = 0; i < which.size(); ++i) {
    const box& first = which[i].boxes.front();
    if (which[i].boxes.size() > 1 || !first.ranges.empty()) {
      return fault{errc::digest_unavailable, tensor_place_of(all, first.tensor),
                   "a part of it cannot be checked against the manifest"};
    }
    const tensor_digest& one = *(*expected)[first.tensor];
    checks[i].algorithm = one.algorithm;
    checks[i].digest = one.bytes;
    checks[i].of_manifest = true;
  }
  if (const auto t = wanted.first_converted()) {
    return fault{errc::digest_unavailable, tensor_place_of(all, which[*t].boxes.front().tensor),
                 "it is converted, so it cannot be checked against the manifest"};
  }
  return {};
}

// Indices of sparse objects that are loaded whole.
void add_indices(const ringload::catalog& all, const std::vector<chosen_tensor>& which,
                 std::vector<tensor_check>& checks) {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  for (std::uint32_t t = 0; !all.composites.empty() && t < all.tensors.size(); ++t) {
    by_name.emplace(all.tensors[t].name, t);
  }
  std::unordered_map<std::uint32_t, index_rule> rules;  // By tensor.
  for (const composite_info& each : all.composites) {
    const auto values = by_name.find(each.name_of("values"));
    if (values == by_name.end() || all.tensors[values->second].shape.empty()) continue;
    for (const std::string& part : each.parts) {
      const auto at = by_name.find(each.name_of(part));
      auto rule = index_rule_of(each, part, all.tensors[values->second].shape.front());
      if (!rule || at == by_name.end() || all.tensors[at->second].dtype != dtype::u64) continue;
      rules.emplace(at->second, std::move(*rule));
    }
  }
  for (std::size_t i = 0; !rules.empty() && i < which.size(); ++i) {
    const auto rule = rules.find(which[i].boxes.front().tensor);
    const bool whole = which[i].boxes.size() == 1 && which[i].boxes.front().ranges.empty();
    if (rule == rules.end() || !whole) continue;
    checks.resize(which.size());
    checks[i].indices = rule->second;
  }
}

// The digests that the files hold.
result<void> add_stored(const opened_checkpoint& from, const std::vector<chosen_tensor>& which,
                        const plan_input_builder& wanted, const verification& how, bool fills,
                        std::vector<tensor_check>& checks) {
  const ringload::catalog& all = from.named->catalog();
  const plan_input_builder::digests& stored = wanted.of_files();
  if (how.stored == embedded_digests::require && stored.unchecked) {
    return fault{errc::digest_unavailable, tensor_place_of(all, *stored.unchecked),
                 stored.why_unchecked};
  }
  if (stored.needs_sha256 && !has_sha256(how)) {
    return fault{errc::digest_unavailable, tensor_place_of(all, *stored.needs_sha256),
                 "its digest is a sha256, and no hasher for that was given (verification::sha256)"};
  }
  for (const auto& [t, digest] : stored.unread) {
    const open_file& file = from.files[digest->stream.file];
    const auto read = [&file](std::uint64_t offset, std::span<std::byte> into) {
      return file.object ? read_object(*file.object, source_read(offset, into))
                         : read_bytes_into(file.buffered.get(), offset, into);
    };
    auto good = check_unread(read, *digest, how);
    if (!good) return good.error().in(tensor_place_of(all, t));
  }
  for (std::size_t i = 0; i < stored.landed.size(); ++i) {
    if (stored.landed[i] == nullptr) continue;
    checks.resize(which.size());
    checks[i].algorithm = stored.landed[i]->algorithm;
    checks[i].digest = stored.landed[i]->bytes;
  }
  if (!fills) add_indices(all, which, checks);
  return {};
}

}  // namespace

result<std::vector<tensor_check>> choose_digests(const opened_checkpoint& from,
                                                 const std::vector<chosen_tensor>& which,
                                                 const plan_input_builder& wanted,
                                                 const verification& how, bool fills) {
  std::vector<tensor_check> checks;
  if (how.checksums != nullptr) {
    auto good = add_listed(from, which, wanted, *how.checksums, checks);
    if (!good) return good.error();
  }
  if (how.stored != embedded_digests::none) {
    auto good = add_stored(from, which, wanted, how, fills, checks);
    if (!good) return good.error();
  }
  return checks;
}

}  // namespace ringload::inline v0::detail
