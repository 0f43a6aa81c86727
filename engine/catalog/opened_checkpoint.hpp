// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint with open files and a known catalog. All loads from the checkpoint share it.

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <ringload/detail/request.hpp>
#include <ringload/extension.hpp>
#include <ringload/options.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "catalog/named_catalog.hpp"
#include "formats/catalog_entries.hpp"
#include "io/direct_file.hpp"
#include "io/readers/reader.hpp"

namespace ringload::inline v0::detail {

struct open_file {
  static constexpr std::uint64_t no_drive = ~std::uint64_t{0};  // The file is memory.
  static constexpr std::uint64_t of_store = no_drive - 1;       // The file is an object of a store.

  unique_fd buffered;
  unique_fd direct;            // Empty: read through the page cache only.
  std::string direct_refusal;  // Reason why direct reads failed, if they were tried.
  std::uint32_t direct_address_alignment = ringload::direct_address_alignment;
  std::string path;
  std::uint64_t bytes = 0;
  ::timespec modified = {};             // Modification time at open.
  std::uint64_t drive = no_drive;       // Result of block_device_id().
  byte_supply supply;                   // Memory in place of an open file.
  std::shared_ptr<byte_source> object;  // Object of a store in place of a file.
  std::string identity;                 // Identity of the object at open.
};

struct opened_checkpoint {
  std::string name;  // As the user wrote it, for errors.
  std::shared_ptr<const named_catalog> named;
  std::vector<std::shared_ptr<const stored_form>> stored;  // By tensor; null: a plain extent.
  // By tensor; null if the file has no digest of the tensor. Empty if no file has digests.
  std::vector<std::shared_ptr<const stored_digest>> digests;
  std::vector<open_file> files;  // By file of the catalog.
};

// The extensions of a loader, and the token that cancels waits for a store.
struct opening {
  std::span<const extension> with;
  std::stop_token stop;
};

// Text for errors.
std::string shown(const source_name& source);
std::string shown(const load_request& request);

// Opens the files, also for direct reads unless `route` is buffered, and reads the catalog. Blocks.
result<std::shared_ptr<const opened_checkpoint>> open_checkpoint(const source_name& source,
                                                                 const open_options& options,
                                                                 read_route route,
                                                                 direct_files& direct,
                                                                 const opening& services);

// Fails with errc::truncated_file or errc::changed_file if a file changed since it was opened.
result<void> check_unchanged(const opened_checkpoint& checkpoint);

}  // namespace ringload::inline v0::detail
