// SPDX-License-Identifier: Apache-2.0
#pragma once

// A source that writes all received bytes into the local cache, and reads bytes that an interrupted
// load has left there.

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/hub.hpp>

#include "remote/cache/hf_cache_file.hpp"

namespace ringload::inline v0::remote_http {

// The threads that write and hash. Received bytes are written before they are delivered, so the
// memory of the reads bounds the bytes that wait to be written. Every user holds a shared_ptr. The
// last owner, which must not be one of these threads, waits until all bytes are written.
class cache_threads {
 public:
  explicit cache_threads(std::function<void(const hub_cached_file&)> report)
      : on_cached(std::move(report)) {}
  ~cache_threads();

  const std::function<void(const hub_cached_file&)> on_cached;
  // Two threads each, so that drive and processor do not wait for each other. Hashing has its own
  // threads, so that hashing does not delay received bytes.
  boost::asio::thread_pool writing{2};
  boost::asio::thread_pool hashing{2};
};

// Opens the blob of `place` in the cache. If the blob cannot be opened, reports the reason and
// returns `from`.
std::shared_ptr<byte_source> make_hf_cache_source(std::shared_ptr<byte_source> from,
                                                  blob_place place,
                                                  std::shared_ptr<cache_threads> threads);

}  // namespace ringload::inline v0::remote_http
