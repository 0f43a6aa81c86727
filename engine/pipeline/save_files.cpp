// SPDX-License-Identifier: Apache-2.0
#include "pipeline/save_files.hpp"

#include <utility>

#include "core/checked.hpp"
#include "formats/printable.hpp"

namespace ringload::inline v0::detail {

namespace fs = std::filesystem;

result<save_files> save_files::make(const save_target& to, std::span<const file_layout> files,
                                    direct_files& direct) {
  const std::string place = printable_path(to.path.native());
  std::uint64_t bytes = 0;
  for (const file_layout& one : files) bytes += one.bytes;

  save_files made;
  auto entry = unpublished::make(to.path, to.kind, to.may_replace);
  if (!entry) return entry.error();
  made.entry_ = std::move(*entry);
  const fs::path& temporary = made.entry_.path();
  const fs::path folder = to.kind == entry_kind::folder ? temporary : temporary.parent_path();
  if (auto room = check_disk_room(folder.empty() ? "." : folder, bytes); !room) {
    return room.error().in(place);
  }
  for (const file_layout& one : files) {
    const bool inside = to.kind == entry_kind::folder;
    const fs::path& whole = made.entry_.target();
    made.paths_.push_back((inside ? whole / one.name : whole).native());
    auto opened = open_to_write(inside ? temporary / one.name : temporary,
                                printable_path(made.paths_.back()), one.bytes, direct);
    if (!opened) return opened.error();
    made.files_.push_back(std::move(*opened));
  }
  return made;
}

result<void> save_files::publish(bool sync) {
  for (const written_file& one : files_) {
    if (!sync) break;
    if (auto good = sync_file(one); !good) return good;
  }
  return entry_.publish(sync);
}

}  // namespace ringload::inline v0::detail
