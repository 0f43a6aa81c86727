// SPDX-License-Identifier: Apache-2.0
#pragma once

// Wraps a source of network bytes: writes all received bytes into the local Hugging Face cache, and
// reads the bytes that are already in the cache from the cache, for example after an interrupted
// load. Used by the hub store.

#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/hub.hpp>

#include "io/threads.hpp"
#include "remote/cache/hf_cache_file.hpp"

namespace ringload::inline v0::remote_http {

// The threads that write received bytes to the cache and hash the bytes. A read completes only
// after its bytes are written. Therefore unwritten bytes need no memory except the buffers of the
// reads. The destructor waits until all bytes are written and hashed, so the destructor must not
// run in one of these threads.
class cache_threads {
 public:
  explicit cache_threads(std::function<void(const hub_cached_file&)> report)
      : on_cached(std::move(report)) {}
  ~cache_threads();

  const std::function<void(const hub_cached_file&)> on_cached;
  // Each pool has two threads, so that one thread can compute while the other thread waits for the
  // drive. The pools are separate, so that hashing does not delay the writing of received bytes.
  threads writing{2};
  threads hashing{2};
};

// Returns a source that fills the cache file of `place` with the bytes of `from`. If the cache file
// cannot be opened, reports the reason through on_cached and returns null.
std::shared_ptr<byte_source> make_hf_cache_source(std::shared_ptr<byte_source> from,
                                                  blob_place place,
                                                  std::shared_ptr<cache_threads> threads);

}  // namespace ringload::inline v0::remote_http
