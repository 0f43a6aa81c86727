// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint whose files are open and whose catalog is known: what all loads from it share.

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
  static constexpr std::uint64_t no_drive = ~std::uint64_t{0};  // It is memory,
  static constexpr std::uint64_t of_store = no_drive - 1;       // or comes over the network.

  unique_fd buffered;
  unique_fd direct;            // Empty: read through the page cache only.
  std::string direct_refusal;  // Why, if direct reads were tried.
  std::uint32_t direct_address_alignment = ringload::direct_address_alignment;
  std::string path;
  std::uint64_t bytes = 0;
  ::timespec modified = {};             // When the file was opened.
  std::uint64_t drive = no_drive;       // As block_device_id() says.
  byte_supply supply;                   // Of memory in place of a file, which then is not open.
  std::shared_ptr<byte_source> object;  // Of a store in place of a file.
  std::string identity;                 // The object's, when it was opened.
};

struct opened_checkpoint {
  std::string name;  // As the user wrote it, for errors.
  std::shared_ptr<const named_catalog> named;
  std::vector<std::shared_ptr<const stored_form>> stored;  // By tensor; null: a plain extent.
  // By tensor, null where its file has none of it; or empty, where no file has any.
  std::vector<std::shared_ptr<const stored_digest>> digests;
  std::vector<open_file> files;  // By file of the catalog.
};

// What a loader was made with, and what ends the waiting for a store.
struct opening {
  std::span<const extension> with;
  std::stop_token stop;
};

// For errors.
std::string shown(const source_name& source);
std::string shown(const load_request& what);

// Opens the files, also for direct reads unless `route` is buffered, and reads the catalog. Blocks.
result<std::shared_ptr<const opened_checkpoint>> open_checkpoint(const source_name& source,
                                                                 const open_options& how,
                                                                 read_route route,
                                                                 direct_files& direct,
                                                                 const opening& by);

// Fails with errc::truncated_file or errc::changed_file if a file changed since it was opened.
result<void> check_unchanged(const opened_checkpoint& one);

}  // namespace ringload::inline v0::detail
