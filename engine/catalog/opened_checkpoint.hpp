// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint whose files are open and whose catalog is known. All loads of the checkpoint share
// this object.

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <memory>
#include <ringload/extension.hpp>
#include <ringload/options.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "catalog/named_catalog.hpp"
#include "catalog/source_name.hpp"
#include "formats/catalog_entries.hpp"
#include "io/direct_file.hpp"
#include "io/header_reader.hpp"
#include "io/io_queue.hpp"

namespace ringload::inline v0::detail {

struct open_file {
  // Values of `drive` for files that are on no drive: `no_drive` for a file in memory, `of_store`
  // for an object of a store.
  static constexpr std::uint64_t no_drive = ~std::uint64_t{0};
  static constexpr std::uint64_t of_store = no_drive - 1;

  unique_fd buffered;
  unique_fd direct;  // Empty if all reads use the page cache.
  // The reason why direct reads are not possible. Empty if direct reads are possible, or were not
  // tried.
  std::string direct_refusal;
  std::uint32_t direct_address_alignment = ringload::direct_address_alignment;
  std::string path;
  std::uint64_t bytes = 0;
  ::timespec modified = {};        // Modification time when the file was opened.
  std::uint64_t drive = no_drive;  // The result of block_device_id().
  bool is_distant = false;         // The result of is_distant().
  byte_supply supply;              // Supplies the bytes of a file in memory. Otherwise empty.
  // The memory that `supply` reads, if this memory is registered with a device. Otherwise null.
  const std::byte* memory = nullptr;
  const memory_registration* registration = nullptr;
  std::shared_ptr<byte_source> object;  // Set if the file is an object of a store.
  std::string identity;                 // Identity of the object when it was opened.
};

struct opened_checkpoint {
  std::string name;  // The name that the user passed, for errors.
  std::shared_ptr<const named_catalog> named;
  // Indexed by tensor. Null if the tensor is stored unchanged in one range.
  std::vector<std::shared_ptr<const stored_form>> stored;
  // Indexed by tensor. An element is null if the file has no digest of the tensor. The vector is
  // empty if no file has digests.
  std::vector<std::shared_ptr<const stored_digest>> digests;
  std::vector<open_file> files;  // Indexed by file of the catalog.
};

// A stop request of `stop` ends blocking calls to a store.
struct checkpoint_services {
  std::span<const extension> extensions;
  std::stop_token stop;
  header_reads headers = {};
};

// Returns the name of the source for error texts.
std::string shown(const source_name& source);

// Opens the files and reads the catalog. Also opens the files for direct reads, unless `route` is
// buffered. Blocks.
result<std::shared_ptr<const opened_checkpoint>> open_checkpoint(
    const source_name& source, const open_options& options, read_route route, direct_files& direct,
    const checkpoint_services& services);

// Returns errc::truncated_file or errc::changed_file if a file has changed after it was opened. An
// object of a store may report another fault, such as errc::wrong_digest.
result<void> check_unchanged(const opened_checkpoint& checkpoint);

// Returns the value of load_stats::files_unverified.
std::uint64_t count_unverified(const opened_checkpoint& checkpoint) noexcept;

}  // namespace ringload::inline v0::detail
