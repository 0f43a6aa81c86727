// SPDX-License-Identifier: Apache-2.0
#include "save/save_setup.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/find_duplicates.hpp"
#include "base/io_unit.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "save/safetensors_layout.hpp"
#include "save/zt_layout.hpp"

namespace ringload::inline v0::detail {

namespace {

namespace fs = std::filesystem;

// A page of the page cache is written either directly or through it, never both.
std::uint64_t direct_unit() noexcept {
  return std::max<std::uint64_t>(block_bytes, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

bool is_zt(const save_request& what) {
  if (what.how.format != save_format::by_name) return what.how.format == save_format::zt;
  return what.path.ends_with(".zt");
}

// Whether the path is a folder's is decided by its name, and by what is there.
result<save_target> target_of(const save_request& what) {
  save_target out = {what.path, entry_kind::file, what.how.replace};
  if (is_zt(what) || out.path.extension() == ".safetensors") return out;
  out.kind = entry_kind::folder;
  std::error_code ignored;
  const bool is_folder = !out.path.has_filename() || fs::is_directory(out.path, ignored);
  const bool has_dot = out.path.filename().native().find('.') != std::string::npos;
  if (what.how.format == save_format::by_name && has_dot && !is_folder) {
    return fault{
        errc::invalid_saving, printable_path(what.path),
        "the name ends with neither .safetensors nor .zt, and saving::format says nothing"};
  }
  return out;
}

bool is_floating(dtype type) noexcept {
  switch (type) {
    case dtype::f64:
    case dtype::f32:
    case dtype::f16:
    case dtype::bf16:
    case dtype::f8_e4m3fn:
    case dtype::f8_e5m2: return true;
    default: return false;
  }
}

result<dtype> stored_type(const tensor_ref& one, const save_options& how) {
  if (!how.dtype) return one.dtype;
  if (!element_kind_of(*how.dtype) || !is_floating(*how.dtype)) {
    return fault{errc::unsupported_dtype, "saving::dtype",
                 "tensors are not converted to " + std::string(name(*how.dtype))};
  }
  const bool chosen = how.converts ? how.converts(one) : is_floating(one.dtype);
  return chosen ? *how.dtype : one.dtype;
}

// The bytes of a header or an index, as a source.
tensor_ref view_of_text(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  tensor_ref out({}, owner->data(), dtype::u8, {owner->size()});
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
  for (const tensor_ref& one : what.tensors) {
    backend* const from = by.devices.find(one.on);
    if (from == nullptr) {
      return fault{errc::device_unavailable, tensor_place(one.name),
                   "it is in the memory of " + one.on.name() + ", and " + by.devices.description()};
    }
    const auto as = stored_type(one, what.how);
    if (!as) return as.error();
    if (const auto bytes = stored_bytes(one, *as); !bytes) return bytes.error();
    out.described.push_back({one.name, *as, one.shape});
    out.sources.push_back(std::make_unique<tensor_bytes>(one, *as, *from, passes));
  }
  return out;
}

result<checkpoint_layout> lay_out(const save_request& what, const checked_tensors& tensors,
                                  const save_target& target) {
  if (is_zt(what)) {
    if (what.how.shard_bytes > 0 || what.how.shard_count > 0) {
      return fault{errc::invalid_saving, "saving", "a .zt file has no shards"};
    }
    const auto& all = tensors.sources;
    const auto same = find_duplicates(
        static_cast<std::uint32_t>(all.size()), [&](auto t) { return all[t]->view().data; },
        [&](auto a, auto b) { return all[a]->same_as(*all[b]); });
    zt_settings how;
    how.metadata = what.how.metadata;
    how.alignment = std::max<std::uint64_t>(what.how.alignment, how.alignment);
    how.bytes_of = same;
    return lay_out_zt(tensors.described, how);
  }
  safetensors_settings how;
  how.metadata = what.how.metadata;
  how.order = what.how.order;
  how.alignment = what.how.alignment;
  how.folder = target.kind == entry_kind::folder;
  how.shards = {what.how.shard_bytes, what.how.shard_count};
  return lay_out_safetensors(tensors.described, how);
}

// What comes to stand where, of the tensors and of what is made here: heads, tails, and the zeros
// between.
class piece_list {
 public:
  piece_list(write_group& all, backend& target) : all_(all), target_(target) {}

  void add_tensors(std::span<const tensor_extent> places) {
    for (std::uint32_t t = 0; t < places.size(); ++t) {
      const tensor_extent& at = places[t];
      if (at.bytes > 0) pieces_.push_back({at.offset, at.bytes, at.file, t});
    }
    // Those with the bytes of another have its place.
    const auto by_place = [](const file_piece& p) { return std::tuple(p.file, p.file_offset); };
    std::ranges::stable_sort(pieces_, {}, by_place);
    const auto again = std::ranges::unique(pieces_, {}, by_place);
    pieces_.erase(again.begin(), again.end());
  }

  void add_file(std::uint32_t number, file_layout& file) {
    const std::uint64_t tail = file.tail.size();
    add_text(number, file.bytes - tail, std::move(file.tail));
    add_text(number, 0, std::move(file.head));
  }

  std::vector<file_piece> with_zeros() {
    std::ranges::sort(pieces_, {},
                      [](const file_piece& p) { return std::tuple(p.file, p.file_offset); });
    std::vector<file_piece> gaps;
    std::uint64_t longest = 0;
    const auto zeros = static_cast<std::uint32_t>(all_.sources.size());
    for (std::size_t i = 1; i < pieces_.size(); ++i) {
      const std::uint64_t end = pieces_[i - 1].file_offset + pieces_[i - 1].bytes;
      const std::uint64_t next = pieces_[i].file_offset;
      if (pieces_[i].file != pieces_[i - 1].file || next == end) continue;
      gaps.push_back({end, next - end, pieces_[i].file, zeros});
      longest = std::max(longest, next - end);
    }
    if (longest > 0) add_source(std::string(static_cast<std::size_t>(longest), '\0'));
    pieces_.insert(pieces_.end(), gaps.begin(), gaps.end());
    return std::move(pieces_);
  }

 private:
  void add_text(std::uint32_t file, std::uint64_t offset, std::string text) {
    if (text.empty()) return;
    pieces_.push_back({offset, text.size(), file, static_cast<std::uint32_t>(all_.sources.size())});
    add_source(std::move(text));
  }
  void add_source(std::string text) {
    all_.sources.push_back(
        std::make_unique<tensor_bytes>(view_of_text(std::move(text)), dtype::u8, target_, 1));
  }

  write_group& all_;
  backend& target_;
  std::vector<file_piece> pieces_;
};

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

  auto layout = lay_out(what, *checked, *target);
  if (!layout) return layout.error().in(place);
  // The layout is fixed: each byte of each file has its source.

  auto files = save_files::make(*target, layout->files, by.direct);
  if (!files) return files.error();

  save_setup out;
  out.all = std::make_shared<write_group>();
  out.all->sources = std::move(checked->sources);
  piece_list pieces(*out.all, by.devices.host_memory());
  pieces.add_tensors(layout->tensors);
  for (std::uint32_t f = 0; f < layout->files.size(); ++f) {
    out.bytes += layout->files[f].bytes;
    pieces.add_file(f, layout->files[f]);
  }
  auto plan = plan_writes(pieces.with_zeros(), {by.slot_bytes, direct_unit()});
  if (!plan) return plan.error().in(place);
  out.all->plan = std::move(*plan);
  out.files = std::move(*files);
  return out;
}

}  // namespace ringload::inline v0::detail
