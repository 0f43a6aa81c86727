// SPDX-License-Identifier: Apache-2.0
#include "pipeline/open.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "core/convert.hpp"
#include "formats/printable.hpp"
#include "pipeline/check.hpp"
#include "plan/make_plan.hpp"
#include "source/source.hpp"

namespace ringload::inline v0 {

namespace {

result<void> check_unchanged_size(const struct ::stat& now, const file_info& was) {
  const auto bytes = static_cast<std::uint64_t>(now.st_size);
  if (bytes == was.bytes) return {};
  return fault{bytes < was.bytes ? errc::truncated_file : errc::changed_file,
               printable_path(was.path),
               "the file had " + grouped(was.bytes) + " bytes when it was opened, and has " +
                   grouped(bytes) + " now"};
}

result<open_file> open_for_reading(unique_fd buffered, const file_info& info, read_route route,
                                   direct_files& direct, std::string& route_reason) {
  open_file file;
  file.path = info.path;
  file.bytes = info.bytes;
  struct ::stat status = {};
  if (::fstat(buffered.get(), &status) != 0)
    return fault{system_code(errno), printable_path(info.path)};
  file.modified = status.st_mtim;
  if (auto same = check_unchanged_size(status, info); !same) return same.error();

  if (route != read_route::buffered) {
    auto second = direct.open(buffered.get(), info.path, info.bytes);
    if (!second) return second.error().in(printable_path(info.path));
    if (!second->fd && route == read_route::direct && info.bytes > 0) {
      return fault{errc::direct_unavailable, printable_path(info.path), second->refusal};
    }
    if (!second->fd && route_reason.empty())
      route_reason = printable_path(info.path) + ": " + second->refusal;
    file.direct = std::move(second->fd);
  }
  file.buffered = std::move(buffered);
  return file;
}

// The conversion that the options ask for.
conversion conversion_of(const tensor_info& t, const load_options& how) {
  if (!how.dtype || !convertible(t.dtype, *how.dtype)) return {};
  if (how.converts && !how.converts(t, how.converts_with)) return {};
  return {*float_type_of(t.dtype), *float_type_of(*how.dtype)};
}

std::vector<wanted_tensor> wanted_of(const ringload::catalog& what, const load_options& how) {
  std::vector<wanted_tensor> wanted;
  wanted.reserve(what.tensors.size());
  for (const tensor_info& t : what.tensors) {
    const conversion as = conversion_of(t, how);
    const dtype loaded = as.needed() ? *how.dtype : t.dtype;
    wanted.push_back({t.file, alignment(loaded), t.offset, t.bytes, as});
  }
  return wanted;
}

// A lower bound of the arena's size. Overflow is refused later, by make_plan.
std::uint64_t loaded_bytes(const std::vector<wanted_tensor>& wanted) {
  std::uint64_t sum = 0;
  for (const wanted_tensor& e : wanted) {
    sum += e.as.needed() ? e.bytes / e.as.from_bytes() * e.as.to_bytes() : e.bytes;
  }
  return sum;
}

// A manifest's digests are of the bytes in the files, which a converted tensor no longer has.
result<void> check_verifiable(const ringload::catalog& what,
                              const std::vector<wanted_tensor>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i].as.needed()) continue;
    const tensor_info& t = what.tensors[i];
    return fault{errc::digest_unavailable,
                 printable_path(what.files[t.file].path) + ": " + tensor_place(t.name),
                 "it is converted, so it cannot be checked against the manifest"};
  }
  return {};
}

// Only bytes that are the tensor's as they stand in the file, and no other's, can be loaded.
result<void> check_loadable(const opened_source& found) {
  const auto refused = [&](const tensor_info& t, std::string cause) {
    return fault{errc::unsupported_feature,
                 printable_path(found.catalog.files[t.file].path) + ": " + tensor_place(t.name),
                 std::move(cause)};
  };
  const tensor_info* before = nullptr;
  for (std::size_t i = 0; i < found.stored.size(); ++i) {
    const tensor_info& t = found.catalog.tensors[i];
    if (found.stored[i] != nullptr) {
      return refused(t, "its bytes are stored as " + t.encoding + ", which cannot be loaded yet");
    }
    if (t.bytes == 0) continue;
    if (before != nullptr && before->file == t.file && t.offset < before->offset + before->bytes) {
      return refused(t, "it shares bytes with the tensor '" + printable(before->name) +
                            "', and such tensors cannot be loaded yet");
    }
    before = &t;
  }
  return {};
}

result<void> check_dtype(const load_options& how) {
  if (!how.dtype || *how.dtype == dtype::f32 || convertible(dtype::f32, *how.dtype)) return {};
  return fault{
      errc::unsupported_dtype, "load_options::dtype",
      "tensors can be converted to F32, F16 and BF16, not to " + std::string(name(*how.dtype))};
}

}  // namespace

result<opened_load> open_load(std::string_view source, const load_options& options,
                              const limits& within, backend& target, direct_files& direct) {
  if (auto good = check_dtype(options); !good) return good.error();
  auto found = open_checkpoint(source, options.strictness);
  if (!found) return found.error();
  if (auto good = check_loadable(*found); !good) return good.error();
  opened_load load;
  load.catalog = std::move(found->catalog);
  if (options.verify) {
    auto expected = detail::expected_digests(*options.verify, load.catalog);
    if (!expected) return expected.error().in(printable_path(source));
    load.expected = std::move(*expected);
  }
  // The catalog is fixed: nothing below parses.

  const std::vector<wanted_tensor> wanted = wanted_of(load.catalog, options);
  if (options.verify) {
    if (auto good = check_verifiable(load.catalog, wanted); !good) return good.error();
  }
  if (auto room = target.check_room(loaded_bytes(wanted)); !room) {
    return room.error().in(printable_path(source));
  }
  plan_input all;
  all.tensors = wanted;
  plan_limits bounds = {within.slot_bytes};
  bounds.arena_bytes_max = within.arena_bytes_max;
  auto plan = make_plan(all, target.rules(), bounds);
  if (!plan) return plan.error().in(printable_path(source));
  load.plan = std::move(*plan);
  // The work is fixed: nothing below chooses an offset or a size.

  for (std::size_t i = 0; i < found->files.size(); ++i) {
    auto file = open_for_reading(std::move(found->files[i]), load.catalog.files[i], options.route,
                                 direct, load.route_reason);
    if (!file) return file.error();
    load.files.push_back(std::move(*file));
  }
  auto memory = target.allocate(load.plan.arena_bytes);
  if (!memory) return memory.error().in(printable_path(source));
  load.memory = std::move(*memory);
  return load;
}

result<void> check_unchanged(const open_file& file) {
  struct ::stat now = {};
  if (::fstat(file.buffered.get(), &now) != 0)
    return fault{system_code(errno), printable_path(file.path)};
  if (auto same = check_unchanged_size(now, {file.path, file.bytes, {}}); !same)
    return same.error();
  if (now.st_mtim.tv_sec != file.modified.tv_sec || now.st_mtim.tv_nsec != file.modified.tv_nsec) {
    return fault{errc::changed_file, printable_path(file.path), {}};
  }
  return {};
}

}  // namespace ringload::inline v0
