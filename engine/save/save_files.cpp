// SPDX-License-Identifier: Apache-2.0
#include "save/save_files.hpp"

#include <filesystem>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"

namespace ringload::inline v0::detail {

namespace fs = std::filesystem;

result<save_files> save_files::make(const save_target& target, std::span<const file_layout> files,
                                    direct_files& direct) {
  const std::string place = printable_path(target.path.native());
  std::uint64_t bytes = 0;
  for (const file_layout& layout : files) bytes += layout.bytes;

  save_files new_files;
  auto entry = atomic_entry::make(target.path, target.kind, target.may_replace);
  if (!entry) return entry.error();
  new_files.entry_ = std::move(*entry);
  const bool is_folder = target.kind == entry_kind::folder;
  const fs::path& target_path = new_files.entry_.target();
  const fs::path folder = is_folder ? new_files.entry_.path() : target_path.parent_path();
  if (auto status = check_disk_room(folder.empty() ? "." : folder, bytes); !status) {
    return status.error().in(place);
  }
  for (const file_layout& layout : files) {
    new_files.paths_.push_back((is_folder ? target_path / layout.name : target_path).native());
    const std::string file_place = printable_path(new_files.paths_.back());
    const fs::path path = is_folder ? folder / layout.name : new_files.entry_.path();
    auto file = is_folder ? open_for_writing(path, file_place)
                          : open_again(new_files.entry_.fd(), file_place);
    if (!file) return file.error();
    auto opened = begin_file(std::move(*file), path, file_place, layout.bytes, direct);
    if (!opened) return opened.error();
    new_files.files_.push_back(std::move(*opened));
  }
  return new_files;
}

result<save_files> save_files::make_object(const save_target& target,
                                           const target_request& request) {
  save_files new_files;
  auto object = begin_object(*target.store, request, printable_path(request.name));
  if (!object) return object.error();
  new_files.paths_.emplace_back(request.name);
  new_files.files_.push_back(std::move(*object));
  return new_files;
}

result<void> save_files::publish(bool sync) {
  if (!files_.empty() && files_.front().object) return publish_object(files_.front());
  for (const written_file& file : files_) {
    // If the checkpoint is a file and not a folder, entry_.publish() flushes the file.
    if (!sync || entry_.fd() >= 0) break;
    if (auto status = sync_file(file); !status) return status;
  }
  return entry_.publish(sync);
}

}  // namespace ringload::inline v0::detail
