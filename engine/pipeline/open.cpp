// SPDX-License-Identifier: Apache-2.0
#include "pipeline/open.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "pipeline/check.hpp"
#include "plan/make_plan.hpp"
#include "source/source.hpp"

namespace ringload::inline v0 {

namespace {

result<void> check_unchanged_size(const struct ::stat& now, const file_info& was) {
  const auto bytes = static_cast<std::uint64_t>(now.st_size);
  if (bytes == was.bytes) return {};
  return fault{bytes < was.bytes ? errc::truncated_file : errc::changed_file, was.path,
               "the file had " + grouped(was.bytes) + " bytes when it was opened, and has " +
                   grouped(bytes) + " now"};
}

result<open_file> open_for_reading(unique_fd buffered, const file_info& info, read_route route,
                                   direct_files& direct, std::string& why_not) {
  open_file file;
  file.path = info.path;
  file.bytes = info.bytes;
  struct ::stat status = {};
  if (::fstat(buffered.get(), &status) != 0) return fault{system_code(errno), info.path};
  file.modified = status.st_mtim;
  if (auto same = check_unchanged_size(status, info); !same) return same.error();

  if (route != read_route::buffered) {
    auto second = direct.open(buffered.get(), info.path, info.bytes);
    if (!second) return second.error();
    if (!second->fd && route == read_route::direct && info.bytes > 0) {
      return fault{errc::direct_unavailable, info.path, second->why_not};
    }
    if (!second->fd && why_not.empty()) why_not = info.path + ": " + second->why_not;
    file.direct = std::move(second->fd);
  }
  file.buffered = std::move(buffered);
  return file;
}

std::vector<extent> extents_of(const ringload::catalog& what) {
  std::vector<extent> wanted;
  wanted.reserve(what.tensors.size());
  for (const tensor_info& t : what.tensors) {
    wanted.push_back({t.file, alignment(t.dtype), t.offset, t.bytes});
  }
  return wanted;
}

}  // namespace

result<opened_load> open_load(std::string_view source, const load_options& options,
                              const limits& within, backend& target, direct_files& direct) {
  auto found = open_checkpoint(source, options.strictness);
  if (!found) return found.error();
  opened_load load;
  load.catalog = std::move(found->catalog);
  if (options.verify) {
    auto expected = detail::expected_digests(*options.verify, load.catalog);
    if (!expected) return expected.error().in(std::string(source));
    load.expected = std::move(*expected);
  }
  // The catalog is fixed: nothing below parses.

  if (auto room = target.check_room(load.catalog.bytes()); !room) {
    return room.error().in(std::string(source));
  }
  auto plan = make_plan(extents_of(load.catalog), target.rules(), within.slot_bytes,
                        within.arena_bytes_max);
  if (!plan) return plan.error().in(std::string(source));
  load.plan = std::move(*plan);
  // The work is fixed: nothing below chooses an offset or a size.

  for (std::size_t i = 0; i < found->files.size(); ++i) {
    auto file = open_for_reading(std::move(found->files[i]), load.catalog.files[i], options.route,
                                 direct, load.route_reason);
    if (!file) return file.error();
    load.files.push_back(std::move(*file));
  }
  auto memory = target.allocate(load.plan.arena_bytes);
  if (!memory) return memory.error().in(std::string(source));
  load.memory = std::move(*memory);
  return load;
}

result<void> check_unchanged(const open_file& file) {
  struct ::stat now = {};
  if (::fstat(file.buffered.get(), &now) != 0) return fault{system_code(errno), file.path};
  if (auto same = check_unchanged_size(now, {file.path, file.bytes}); !same) return same.error();
  if (now.st_mtim.tv_sec != file.modified.tv_sec || now.st_mtim.tv_nsec != file.modified.tv_nsec) {
    return fault{errc::changed_file, file.path, {}};
  }
  return {};
}

}  // namespace ringload::inline v0
