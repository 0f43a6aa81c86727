// SPDX-License-Identifier: Apache-2.0
#pragma once

// An object whose bytes are also written into the local cache as they pass, and are taken from
// there where an interrupted load has left them.

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/hub.hpp>

#include "remote/cache/hf_cache_file.hpp"

namespace ringload::inline v0::remote_http {

// The threads that write and hash: bytes that were received are written before they are handed on,
// so the memory that they lie in bounds what waits to be written. Whatever uses it holds a share;
// the last one, which is in none of these threads, waits until all is written.
class cache_threads {
 public:
  explicit cache_threads(std::function<void(const hub_cached_file&)> report)
      : on_cached(std::move(report)) {}
  ~cache_threads();

  const std::function<void(const hub_cached_file&)> on_cached;
  // Two of each: one would have a drive or a processor wait for the other. What hashes must not
  // keep back what arrives.
  boost::asio::thread_pool writing{2};
  boost::asio::thread_pool hashing{2};
};

// Opens the blob of `place` in the cache. Where that cannot be done, the reason is reported, and
// what is returned is `from`.
std::shared_ptr<byte_source> make_hf_cache_source(std::shared_ptr<byte_source> from,
                                                  blob_place place,
                                                  std::shared_ptr<cache_threads> threads);

}  // namespace ringload::inline v0::remote_http
