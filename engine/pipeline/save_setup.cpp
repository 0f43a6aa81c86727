// SPDX-License-Identifier: Apache-2.0
#include "pipeline/save_setup.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "core/block.hpp"
#include "core/convert.hpp"
#include "formats/printable.hpp"
#include "layout/safetensors_layout.hpp"

namespace ringload::inline v0::detail {

namespace {

namespace fs = std::filesystem;

// A page of the page cache is written either directly or through it, never both.
std::uint64_t direct_unit() noexcept {
  return std::max<std::uint64_t>(block_bytes, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

// Whether the path is a folder's is decided by its name, and by what is there.
result<save_target> target_of(const save_request& what) {
  save_target out = {what.path, entry_kind::file, what.how.replace};
  if (out.path.extension() == ".safetensors") return out;
  out.kind = entry_kind::folder;
  std::error_code ignored;
  const bool is_folder = !out.path.has_filename() || fs::is_directory(out.path, ignored);
  const bool has_dot = out.path.filename().native().find('.') != std::string::npos;
  if (what.how.format == save_format::by_name && has_dot && !is_folder) {
    return fault{errc::invalid_saving, printable_path(what.path),
                 "the name does not end with .safetensors, and saving::format says nothing either"};
  }
  return out;
}

bool is_floating(dtype type) noexcept {
  switch (type) {
    case dtype::f64:
    case dtype::f32:
    case dtype::f16:
    case dtype::bf16:
    case dtype::f8_e4m3:
    case dtype::f8_e5m2: return true;
    default: return false;
  }
}

result<dtype> stored_type(const tensor_view& one, const saving& how) {
  if (!how.dtype) return one.dtype;
  if (!element_kind_of(*how.dtype) || !is_floating(*how.dtype)) {
    return fault{errc::unsupported_dtype, "saving::dtype",
                 "tensors are not converted to " + std::string(name(*how.dtype))};
  }
  const bool chosen = how.converts ? how.converts(one) : is_floating(one.dtype);
  return chosen ? *how.dtype : one.dtype;
}

// The bytes of a header or an index, as a source.
tensor_view view_of_text(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  tensor_view out({}, owner->data(), dtype::u8, {owner->size()});
  out.owner = owner;
  return out;
}

struct checked_tensors {
  std::vector<layout_tensor> described;
  std::vector<std::unique_ptr<tensor_bytes>> sources;
};

result<checked_tensors> check_tensors(const save_request& what, const save_services& by) {
  const unsigned passes = 1 + (what.how.read_back ? 1 : 0) + (what.how.digest ? 1 : 0);
  checked_tensors out;
  for (const tensor_view& one : what.tensors) {
    backend* const from = by.devices.of(one.on);
    if (from == nullptr) {
      return fault{errc::device_unavailable, tensor_place(one.name),
                   "it is in the memory of " + one.on.name() + ", and " + by.devices.said()};
    }
    const auto as = stored_type(one, what.how);
    if (!as) return as.error();
    if (const auto bytes = stored_bytes(one, *as); !bytes) return bytes.error();
    out.described.push_back({one.name, *as, one.shape});
    out.sources.push_back(std::make_unique<tensor_bytes>(one, *as, *from, passes));
  }
  return out;
}

}  // namespace

result<save_setup> set_up_save(const save_request& what, const save_services& by) {
  const std::string place = printable_path(what.path);
  const auto target = target_of(what);
  if (!target) return target.error();
  auto checked = check_tensors(what, by);
  if (!checked) return checked.error().in(place);
  if (what.how.digest == digest_algorithm::sha256 && !what.how.sha256) {
    return fault{errc::digest_unavailable, place, "no hasher was given for sha256"};
  }
  // Each tensor can be read, and its type and size in the file are fixed.

  safetensors_settings how;
  how.metadata = what.how.metadata;
  how.order = what.how.order;
  how.alignment = what.how.alignment;
  how.folder = target->kind == entry_kind::folder;
  how.shards = {what.how.shard_bytes, what.how.shard_count};
  auto layout = lay_out_safetensors(checked->described, how);
  if (!layout) return layout.error().in(place);
  // The layout is fixed: each byte of each file has its source.

  auto files = save_files::make(*target, layout->files, by.direct);
  if (!files) return files.error();

  save_setup out;
  out.all = std::make_shared<write_group>();
  out.all->sources = std::move(checked->sources);
  std::vector<file_piece> pieces;
  for (std::uint32_t t = 0; t < layout->tensors.size(); ++t) {
    const tensor_extent& at = layout->tensors[t];
    pieces.push_back({at.offset, at.bytes, at.file, t});
  }
  for (std::uint32_t f = 0; f < layout->files.size(); ++f) {
    std::string& head = layout->files[f].head;
    const auto source = static_cast<std::uint32_t>(out.all->sources.size());
    pieces.push_back({0, head.size(), f, source});
    out.bytes += layout->files[f].bytes;
    out.all->sources.push_back(std::make_unique<tensor_bytes>(
        view_of_text(std::move(head)), dtype::u8, by.devices.host_memory(), 1));
  }
  auto plan = plan_writes(std::move(pieces), {by.slot_bytes, direct_unit()});
  if (!plan) return plan.error().in(place);
  out.all->plan = std::move(*plan);
  out.files = std::move(*files);
  return out;
}

}  // namespace ringload::inline v0::detail
