// SPDX-License-Identifier: Apache-2.0
#include "readers/ring_reader.hpp"

#include "core/surely.hpp"

namespace ringload::inline v0 {

namespace {

struct in_ring final : ring::completion {
  explicit in_ring(reader::operation& o) : of(&o) {}
  reader::operation* of;
};

}  // namespace

void ring_reader::start(operation& op) {
  auto mine = surely([&op] { return std::make_unique<in_ring>(op); });
  mine->done = [](ring::completion& self, int res) {
    const std::unique_ptr<in_ring> done(static_cast<in_ring*>(&self));
    done->of->done(*done->of, res);
  };
  const read_request& what = op.what;
  const ring::read read = {
      what.fd, what.into, what.bytes, what.file_offset, what.registered_buffer, !what.direct};
  ring_.start(read, *mine.release());
}

}  // namespace ringload::inline v0
