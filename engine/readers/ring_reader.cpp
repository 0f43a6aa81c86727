// SPDX-License-Identifier: Apache-2.0
#include "readers/ring_reader.hpp"

#include "core/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace {

struct pending_read final : ring::completion {
  explicit pending_read(reader::operation& o) : of(&o) {}
  reader::operation* of;
};

}  // namespace

void ring_reader::start(operation& op) {
  auto mine = retry_allocation([&op] { return std::make_unique<pending_read>(op); });
  mine->done = [](ring::completion& self, int res) {
    const std::unique_ptr<pending_read> done(static_cast<pending_read*>(&self));
    done->of->done(*done->of, res);
  };
  const read_request& what = op.what;
  const ring::read read = {
      what.fd, what.into, what.bytes, what.file_offset, what.registered_buffer, !what.direct};
  ring_.start(read, *mine.release());
}

}  // namespace ringload::inline v0
