// SPDX-License-Identifier: Apache-2.0

#include "device/pinned_models.hpp"

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "device/shared_arena.hpp"

namespace ringload::inline v0 {

namespace {

using file_id = std::pair<::dev_t, ::ino_t>;

struct pinned_list {
  std::mutex mutex;
  std::map<file_id, std::weak_ptr<shared_arena>> arenas;  // Guarded by the mutex.
};

// The list is never destroyed, because a static object of the program may own a model, and may be
// destroyed after the list.
pinned_list& the_list() {
  static pinned_list& list = *new pinned_list;
  return list;
}

std::optional<file_id> id_of(int descriptor) {
  struct ::stat status = {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return file_id{status.st_dev, status.st_ino};
}

}  // namespace

void note_pinned(arena& memory) {
  auto* const shared = dynamic_cast<shared_arena*>(&memory);
  if (shared == nullptr || !shared->read_only()) return;
  const auto id = id_of(shared->descriptor());
  if (!id) return;
  pinned_list& list = the_list();
  const std::lock_guard lock(list.mutex);
  std::erase_if(list.arenas, [](const auto& entry) { return entry.second.expired(); });
  list.arenas[*id] = shared->weak_from_this();
}

std::shared_ptr<arena> find_pinned(int descriptor) {
  const auto id = id_of(descriptor);
  if (!id) return nullptr;
  pinned_list& list = the_list();
  const std::lock_guard lock(list.mutex);
  const auto found = list.arenas.find(*id);
  return found == list.arenas.end() ? nullptr : found->second.lock();
}

}  // namespace ringload::inline v0
