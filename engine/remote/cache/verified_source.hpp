// SPDX-License-Identifier: Apache-2.0
#pragma once

// A source that verifies a file of the hub. If a load has read the whole file, the source compares
// the digest of the bytes with the digest that the hub states.

#include <memory>
#include <ringload/byte_source.hpp>

#include "io/threads.hpp"
#include "remote/cache/counted_copy.hpp"
#include "remote/hub/hub_api.hpp"

namespace ringload::inline v0::remote_http {

// The threads that hash the files of a checkpoint. The destructor joins the threads, so the
// destructor must not run in one of these threads.
struct file_hashing {
  threads pool{2};
  // A counted_copy shares only this counter and not the threads, because one of the threads may
  // destroy the counted_copy.
  const std::shared_ptr<copied_bytes> copied = std::make_shared<copied_bytes>(0);
};

// Returns `from` if the hub does not state the digest. Otherwise returns a source whose identity()
// compares the digest if all bytes of the file were read since the last comparison. If the digest
// of these bytes is not `file.digest`, identity() throws wrong_digest.
//
// Bytes are hashed in the order of the file. A read completes when its bytes are hashed. A read may
// wait for an earlier byte that no read has requested. When no other read is in flight, the bytes
// of the waiting read are copied, and the read completes. If too many bytes would be copied, the
// digest is not compared.
std::shared_ptr<byte_source> make_verified_source(std::shared_ptr<byte_source> from,
                                                  const hub_file& file,
                                                  std::shared_ptr<file_hashing> hashing);

}  // namespace ringload::inline v0::remote_http
