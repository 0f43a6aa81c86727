// SPDX-License-Identifier: Apache-2.0
#include "save/save_files.hpp"

#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"

namespace ringload::inline v0::detail {

namespace fs = std::filesystem;

result<save_files> save_files::make(const save_target& to, std::span<const file_layout> files,
                                    direct_files& direct) {
  const std::string place = printable_path(to.path.native());
  std::uint64_t bytes = 0;
  for (const file_layout& one : files) bytes += one.bytes;

  save_files made;
  auto entry = atomic_entry::make(to.path, to.kind, to.may_replace);
  if (!entry) return entry.error();
  made.entry_ = std::move(*entry);
  const bool inside = to.kind == entry_kind::folder;
  const fs::path& whole = made.entry_.target();
  const fs::path folder = inside ? made.entry_.path() : whole.parent_path();
  if (auto room = check_disk_room(folder.empty() ? "." : folder, bytes); !room) {
    return room.error().in(place);
  }
  for (const file_layout& one : files) {
    made.paths_.push_back((inside ? whole / one.name : whole).native());
    const std::string here = printable_path(made.paths_.back());
    const fs::path path = inside ? folder / one.name : made.entry_.path();
    auto file = inside ? open_for_writing(path, here) : open_again(made.entry_.fd(), here);
    if (!file) return file.error();
    auto opened = begin_file(std::move(*file), path, here, one.bytes, direct);
    if (!opened) return opened.error();
    made.files_.push_back(std::move(*opened));
  }
  return made;
}

result<void> save_files::publish(bool sync) {
  for (const written_file& one : files_) {
    // The entry itself, if that is a file, is flushed when it is published.
    if (!sync || entry_.fd() >= 0) break;
    if (auto good = sync_file(one); !good) return good;
  }
  return entry_.publish(sync);
}

}  // namespace ringload::inline v0::detail
