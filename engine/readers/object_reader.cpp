// SPDX-License-Identifier: Apache-2.0
#include "readers/object_reader.hpp"

#include <boost/asio/post.hpp>
#include <cerrno>

#include "core/attempt.hpp"

namespace ringload::inline v0 {

namespace {

fault fault_of(const std::exception_ptr& failed) noexcept {
  const auto found = attempt([&]() -> result<void> {
    std::rethrow_exception(failed);
    return {};
  });
  return found.error();
}

void end(boost::asio::io_context& loop, reader::operation& op, const std::exception_ptr& failed) {
  if (failed) *op.what.object_failed = fault_of(failed);
  const int told = failed ? -EIO : static_cast<int>(op.what.bytes);
  retry_allocation([&] { boost::asio::post(loop, [&op, told] { op.done(op, told); }); });
}

}  // namespace

void object_reader::start(operation& op) {
  source_read what(op.what.file_offset, {op.what.into, op.what.bytes});
  what.awaited = op.what.awaited;
  what.stop = *op.what.stop;
  what.counts = op.what.counts;
  // A source that throws here has not begun.
  const auto begun = attempt([&]() -> result<void> {
    op.what.object->read_async(
        what, [this, &op](const std::exception_ptr& failed) { end(loop_, op, failed); });
    return {};
  });
  if (begun) return;
  *op.what.object_failed = begun.error();
  retry_allocation([&] { boost::asio::post(loop_, [&op] { op.done(op, -EIO); }); });
}

}  // namespace ringload::inline v0
