// SPDX-License-Identifier: Apache-2.0
#include "io/readers/ring_reader.hpp"

#include "base/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

struct pending_read final : ring::completion {
  explicit pending_read(reader::operation& o) : op(&o) {}
  reader::operation* op;
};

}  // namespace

void ring_reader::start(operation& op) {
  auto pending = retry_allocation([&op] { return std::make_unique<pending_read>(op); });
  pending->done = [](ring::completion& self, int res) {
    const std::unique_ptr<pending_read> done(static_cast<pending_read*>(&self));
    done->op->done(*done->op, res);
  };
  const read_request& request = op.request;
  const ring::read read = {
      request.fd,     request.into, request.bytes, request.file_offset, request.registered_buffer,
      !request.direct};
  ring_.start(read, *pending.release());
}

}  // namespace ringload::inline v0
