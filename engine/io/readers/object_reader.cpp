// SPDX-License-Identifier: Apache-2.0
#include "io/readers/object_reader.hpp"

#include <boost/asio/post.hpp>
#include <cerrno>

#include "base/catch_as_fault.hpp"

namespace ringload::inline v0 {

namespace {

fault fault_of(const std::exception_ptr& failed) noexcept {
  const auto found = catch_as_fault([&]() -> result<void> {
    std::rethrow_exception(failed);
    return {};
  });
  return found.error();
}

void end(boost::asio::io_context& loop, reader::operation& op, const std::exception_ptr& failed) {
  if (failed) *op.request.object_failed = fault_of(failed);
  const int res = failed ? -EIO : static_cast<int>(op.request.bytes);
  retry_allocation([&] { boost::asio::post(loop, [&op, res] { op.done(op, res); }); });
}

}  // namespace

void object_reader::start(operation& op) {
  source_read read(op.request.file_offset, {op.request.into, op.request.bytes});
  read.awaited = op.request.awaited;
  read.stop = *op.request.stop;
  read.counts = op.request.counts;
  // A source that throws here has not started the read.
  const auto begun = catch_as_fault([&]() -> result<void> {
    op.request.object->read_async(
        read, [this, &op](const std::exception_ptr& failed) { end(loop_, op, failed); });
    return {};
  });
  if (begun) return;
  *op.request.object_failed = begun.error();
  retry_allocation([&] { boost::asio::post(loop_, [&op] { op.done(op, -EIO); }); });
}

}  // namespace ringload::inline v0
