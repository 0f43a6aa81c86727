// SPDX-License-Identifier: Apache-2.0
#include "writers/ring_writer.hpp"

#include "core/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

struct pending_write final : ring::completion {
  explicit pending_write(block_writer::operation& o) : of(&o) {}
  block_writer::operation* of;
};

}  // namespace

void ring_writer::start(operation& op) {
  auto mine = retry_allocation([&op] { return std::make_unique<pending_write>(op); });
  mine->done = [](ring::completion& self, int res) {
    const std::unique_ptr<pending_write> done(static_cast<pending_write*>(&self));
    done->of->done(*done->of, res);
  };
  const write_request& what = op.what;
  const ring::write write = {what.fd, what.from, what.bytes, what.file_offset,
                             what.registered_buffer};
  ring_.start(write, *mine.release());
}

}  // namespace ringload::inline v0
