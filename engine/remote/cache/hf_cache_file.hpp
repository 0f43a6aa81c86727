// SPDX-License-Identifier: Apache-2.0
#pragma once

// One file of a model on its way into the local Hugging Face cache.
//
//   .locks/models--owner--name/<digest>.lock                 as huggingface_hub locks it
//   models--owner--name/
//     blobs/<digest>.ringload                                what is there so far
//     blobs/<digest>.ringload.ranges                         which bytes those are
//     blobs/<digest>                                         once its digest is right
//     snapshots/<commit>/<name> -> ../../blobs/<digest>
//     refs/<revision>                                        the commit
//
// huggingface_hub goes on with <digest>.incomplete from its end, so a file with gaps must not have
// that name.
//
// Bytes are written in any order and by several threads; they are hashed in order, by reading back
// what is there from the beginning on, while the rest is still on its way.

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
  hub_file file;  // With its digest and size.
};

class hf_cache_file {
 public:
  // Takes what an interrupted one left, or begins anew. Null where there is nothing to be done with
  // it: another program has its lock. A fault where the cache cannot be written to.
  static result<std::shared_ptr<hf_cache_file>> open(blob_place place);

  // Keeps a record of what is there.
  ~hf_cache_file();

  // Any thread, several at once, but only one inside advance().

  // Whether these bytes can be read back.
  bool has(std::uint64_t offset, std::size_t bytes) const;
  // Which of them cannot.
  std::vector<byte_range> missing_in(byte_range part) const;
  result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  // After a failure nothing more is written, and the same is returned again.
  result<void> write(std::uint64_t offset, std::span<const std::byte> from);
  // Hashes what is there from the beginning on. Once that is all, the digest is compared, and the
  // file appears under its names. wrong_digest, without a place: what was there is removed.
  result<void> advance();
  // Forgets all bytes that are there. Returns whether an earlier load had left some of them.
  bool begin_anew();

  std::vector<byte_range> missing() const;
  bool published() const;
  // Waits for the end of the advance() that has all bytes: its outcome, or an earlier failure.
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
  fault at(fault why) const;

  // Set by open() and never changed.
  const blob_place place_;
  const std::string repository_;  // .../models--owner--name
  const std::string blob_;        // .../blobs/<digest>
  const std::string partial_;
  const std::string record_;
  const std::uint64_t bytes_;
  unique_fd lock_;
  unique_fd fd_;

  // Only in advance().
  struct hash_free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, hash_free> hash_;
  std::uint64_t hashed_bytes_ = 0;
  bool removed_ = false;

  mutable std::mutex mutex_;                 // Of what follows.
  mutable std::condition_variable changed_;  // published_ or broken_.
  range_set there_;
  std::uint64_t unrecorded_bytes_ = 0;
  bool resumed_ = false;        // An earlier load had left bytes.
  bool hash_is_stale_ = false;  // advance() begins at the first byte again.
  bool published_ = false;
  std::optional<fault> broken_;
};

}  // namespace ringload::inline v0::remote_http
