// SPDX-License-Identifier: Apache-2.0
#pragma once

// A source that compares the digest of a file with the digest that the hub states, if a load reads
// the whole file.

#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <ringload/byte_source.hpp>

#include "remote/cache/counted_copy.hpp"
#include "remote/hub/hub_api.hpp"

namespace ringload::inline v0::remote_http {

// Shared by all files of a checkpoint. The last owner must not be one of these threads.
struct file_hashing {
  boost::asio::thread_pool threads{2};
  // The counter is a separate object, because a counted_copy must not own the threads: it may be
  // destroyed in one of them.
  const std::shared_ptr<copied_bytes> copied = std::make_shared<copied_bytes>(0);
};

// Returns `from` if the hub does not state the digest. Otherwise returns a source whose identity()
// compares digests: if all bytes of the file were read since the last comparison and their digest
// is not `file.digest`, it throws wrong_digest.
//
// Bytes are hashed in the order of the file. A read completes when its bytes are hashed. If no read
// has requested an earlier byte that is missing, the bytes of the read are copied and the read
// completes at once. If too many bytes would be copied, the digest is not compared.
std::shared_ptr<byte_source> make_verified_source(std::shared_ptr<byte_source> from,
                                                  const hub_file& file,
                                                  std::shared_ptr<file_hashing> hashing);

}  // namespace ringload::inline v0::remote_http
