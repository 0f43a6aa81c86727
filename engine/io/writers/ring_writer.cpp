// SPDX-License-Identifier: Apache-2.0
#include "io/writers/ring_writer.hpp"

#include "base/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

struct pending_write final : ring::completion {
  explicit pending_write(block_writer::operation& o) : op(&o) {}
  block_writer::operation* op;
};

}  // namespace

void ring_writer::start(operation& op) {
  auto pending = retry_allocation([&op] { return std::make_unique<pending_write>(op); });
  pending->done = [](ring::completion& self, int res) {
    const std::unique_ptr<pending_write> done(static_cast<pending_write*>(&self));
    done->op->done(*done->op, res);
  };
  const write_request& request = op.request;
  const ring::write write = {request.fd, request.from, request.bytes, request.file_offset,
                             request.registered_buffer};
  ring_.start(write, *pending.release());
}

}  // namespace ringload::inline v0
