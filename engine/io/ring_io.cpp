// SPDX-License-Identifier: Apache-2.0

#include "io/ring_io.hpp"

namespace ringload::inline v0 {

void ring_io::start(operation& op) {
  const io_request& request = op.request;
  const ring::transfer transfer = {request.fd,
                                   request.memory,
                                   request.bytes,
                                   request.file_offset,
                                   request.registered_buffer,
                                   !request.direct || request.is_distant,
                                   request.is_write};
  ring_.start(transfer, op);
}

}  // namespace ringload::inline v0
