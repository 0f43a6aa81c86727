// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file of a model that is being written into the local Hugging Face cache.
//
//   .locks/models--owner--name/<digest>.lock                 as huggingface_hub locks it
//   models--owner--name/
//     blobs/<digest>.ringload                                the bytes received so far
//     blobs/<digest>.ringload.ranges                         the ranges of these bytes
//     blobs/<digest>                                         the file with a verified digest
//     snapshots/<commit>/<name> -> ../../blobs/<digest>
//     refs/<revision>                                        the commit
//
// huggingface_hub resumes <digest>.incomplete at its end, so a file with gaps must not have that
// name.
//
// Several threads write bytes in any order. The bytes are hashed in order: the prefix that is
// present is read back and hashed while the other bytes are received.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "remote/cache/range_set.hpp"
#include "remote/hub/hub_api.hpp"

struct evp_md_ctx_st;

namespace ringload::inline v0::remote_http {

struct blob_place {
  std::string cache;  // The folder of the cache.
  model_name model;
  std::string commit;
  hub_file file;  // Must have a digest and a size.
};

class hf_cache_file {
 public:
  // Resumes the file of an interrupted load, or creates the file. Returns null if another program
  // has the lock. Returns a fault if the cache is not writable.
  static result<std::shared_ptr<hf_cache_file>> open(blob_place place);

  // Records the ranges that are present.
  ~hf_cache_file();

  // Thread-safe, except that only one thread at a time may be inside advance().

  bool has(std::uint64_t offset, std::size_t bytes) const;
  std::vector<byte_range> missing_in(byte_range part) const;
  result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  // After a failure, nothing more is written and every call returns the same failure.
  result<void> write(std::uint64_t offset, std::span<const std::byte> from);
  // Hashes the prefix that is present. If all bytes are present, verifies the digest and publishes
  // the file under its names. Returns wrong_digest without a place, and removes the bytes, if the
  // digest differs.
  result<void> advance();
  // Forgets all bytes. Returns true if an earlier load had left some of the bytes.
  bool begin_anew();

  std::vector<byte_range> missing() const;
  bool published() const;
  // Waits for the advance() that has all bytes. Returns its outcome, or an earlier failure.
  result<void> wait_until_published() const;

 private:
  explicit hf_cache_file(blob_place place);
  hf_cache_file(const hf_cache_file&) = delete;
  hf_cache_file& operator=(const hf_cache_file&) = delete;

  result<bool> take_lock();
  result<void> open_partial();
  result<void> begin_hash();
  result<void> hash_up_to(std::uint64_t end);
  result<void> publish();
  result<void> link_snapshot() const;
  result<void> write_ref() const;
  result<void> write_record() const;
  void remove_partial() const noexcept;
  fault with_path(fault failure) const;

  // Set by open() and never changed.
  const blob_place place_;
  const std::string repository_;  // .../models--owner--name
  const std::string blob_;        // .../blobs/<digest>
  const std::string partial_;
  const std::string record_;
  const std::uint64_t bytes_;
  unique_fd lock_;
  unique_fd fd_;

  // Used only by advance().
  struct hash_free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, hash_free> hash_;
  std::uint64_t hashed_bytes_ = 0;
  bool removed_ = false;

  mutable std::mutex mutex_;                 // Guards the members below.
  mutable std::condition_variable changed_;  // Signals published_ or broken_.
  range_set present_;
  std::uint64_t unrecorded_bytes_ = 0;
  bool resumed_ = false;        // An earlier load had left bytes.
  bool hash_is_stale_ = false;  // advance() must restart at the first byte.
  bool published_ = false;
  std::optional<fault> broken_;
};

}  // namespace ringload::inline v0::remote_http
