// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a file of a model into the local Hugging Face cache while a load receives the file. The
// cache has these files:
//
//   .locks/models--owner--name/<digest>.lock                 the lock file of huggingface_hub
//   models--owner--name/
//     blobs/<digest>.ringload                                the bytes received so far
//     blobs/<digest>.ringload.ranges                         the record: the ranges of these bytes
//     blobs/<digest>                                         the complete file, verified
//     snapshots/<commit>/<name> -> ../../blobs/<digest>
//     refs/<revision>                                        the commit
//
// A file with gaps must not have the name <digest>.incomplete, because huggingface_hub would append
// to this file and not fill the gaps.
//
// Several threads write bytes in any order. The digest needs the bytes in order. Therefore
// advance() reads the written bytes before the first gap and hashes these bytes, while other bytes
// are still being received.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "remote/cache/range_set.hpp"
#include "remote/hub/hub_api.hpp"
#include "remote/hub/hub_hasher.hpp"

namespace ringload::inline v0::remote_http {

struct blob_place {
  std::string cache;  // Folder of the local cache.
  model_name model;
  std::string commit;
  hub_file file;  // Must have a digest and a size.
};

class hf_cache_file {
 public:
  // Opens the complete file, continues the file of an interrupted load, or creates the file.
  // Returns null if the file is not complete and another program or load holds the lock. Returns a
  // fault if the cache is not writable.
  static result<std::shared_ptr<hf_cache_file>> open(blob_place place);

  // Writes the record of the received ranges, unless the file was published or deleted.
  ~hf_cache_file();

  // The functions below are thread-safe. Only one thread at a time may call advance().

  bool has(std::uint64_t offset, std::size_t bytes) const;
  std::vector<byte_range> missing_in(byte_range part) const;
  result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  // If the bytes cannot be written, every later call returns the same failure and writes nothing.
  // If the bytes differ from present bytes, removes the file and returns changed_file with an empty
  // where(). If the file already has range_set::ranges_max ranges, writes nothing and returns
  // success. Waits until no other call writes bytes of the same range.
  result<void> write(std::uint64_t offset, std::span<const std::byte> from);
  // Hashes the bytes before the first gap. If all bytes are present, compares the digest. If the
  // digest is correct, publishes the file: renames the file to blobs/<digest>, and creates the link
  // and the ref. If the digest is wrong, deletes the file and returns wrong_digest with an empty
  // where().
  result<void> advance();
  // Discards all received bytes, unless the file is published or a call has failed. Returns true if
  // some of these bytes were from an earlier load.
  bool begin_anew();

  std::vector<byte_range> missing() const;
  bool published() const;
  // Returns the fault of a write whose bytes differed from present bytes.
  std::optional<fault> contradiction() const;
  // Must be called when all bytes are present. Waits until the file is published, a call has
  // failed, or begin_anew() has discarded the bytes. Returns a fault if the file is not published.
  result<void> wait_until_published() const;

 private:
  explicit hf_cache_file(blob_place place);
  hf_cache_file(const hf_cache_file&) = delete;
  hf_cache_file& operator=(const hf_cache_file&) = delete;

  struct write_in_progress;

  result<bool> open_blob();
  result<bool> take_lock();
  result<void> open_partial();
  result<void> write_missing(std::uint64_t offset, std::span<const std::byte> from,
                             std::span<const byte_range> missing) const;
  fault refuse_write(const fault& failure);
  range_set recorded_ranges() const;
  result<void> begin_hash();
  result<void> hash_up_to(std::uint64_t end);
  result<void> publish();
  result<void> link_snapshot() const;
  result<void> write_ref() const;
  result<void> write_record(bool flush) const;
  void remove_partial() const noexcept;
  fault with_path(fault failure) const;

  // Set by open() and never changed afterwards.
  const blob_place place_;
  const std::string repository_;  // .../models--owner--name
  const std::string blob_;        // .../blobs/<digest>
  const std::string partial_;
  const std::string record_;
  const std::uint64_t bytes_;
  const std::string boot_line_;  // First line of a record of unflushed bytes.
  unique_fd fd_;

  // Used only by open(), advance() and the destructor.
  unique_fd lock_;  // Empty if the file is published.
  std::optional<hub_hasher> hasher_;
  std::uint64_t hashed_bytes_ = 0;

  mutable std::mutex mutex_;  // Guards the members below.
  // Notified when published_ or broken_ is set, when begin_anew() discards bytes, and when a write
  // ends.
  mutable std::condition_variable changed_;
  range_set present_;
  std::list<byte_range> writing_;  // Ranges of the writes in progress. The ranges do not overlap.
  std::uint64_t unrecorded_bytes_ = 0;
  bool resumed_ = false;        // True if some bytes are from an earlier load.
  bool hash_is_stale_ = false;  // True if advance() must hash again from the first byte.
  bool published_ = false;
  bool removed_ = false;  // True if the partial file was removed.
  std::optional<fault> broken_;
  std::optional<fault> contradiction_;
};

}  // namespace ringload::inline v0::remote_http
