// SPDX-License-Identifier: Apache-2.0
#include "load/storage_reads.hpp"

#include <cerrno>
#include <utility>

#include "base/catch_as_fault.hpp"

namespace ringload::inline v0::detail {

storage_reads::storage_reads(direct_storage& storage, std::size_t files)
    : storage_(storage), files_(files) {
  supplies_.reserve(files);
  for (registered_file& file : files_) {
    supplies_.emplace_back([this, &file](int descriptor, std::uint64_t file_offset,
                                         std::span<std::byte> into,
                                         boost::system::error_code& problem) -> std::int64_t {
      void* const registered = register_once(file, descriptor, problem);
      if (registered == nullptr) return -EIO;
      return storage_.read(registered, file_offset, into, problem);
    });
  }
}

void* storage_reads::register_once(registered_file& file, int descriptor,
                                   boost::system::error_code& problem) {
  const std::lock_guard lock(file.mutex);
  if (!std::exchange(file.was_tried, true)) {
    auto added = catch_as_fault([&] { return storage_.add_file(descriptor); });
    if (added) {
      file.handle = std::move(*added);
    } else {
      file.registration_error = added.error().code;
    }
  }
  if (!file.handle) problem = file.registration_error;
  return file.handle.get();
}

}  // namespace ringload::inline v0::detail
