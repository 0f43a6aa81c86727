// SPDX-License-Identifier: Apache-2.0

#include "io/object_io.hpp"

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

void end(boost::asio::io_context& loop, std::mutex& posting, io_queue::operation& op,
         const std::exception_ptr& failed) {
  if (failed) *op.request.object_failed = fault_of(failed);
  const int res = failed ? -EIO : static_cast<int>(op.request.bytes);
  const std::lock_guard lock(posting);
  retry_allocation([&] { boost::asio::post(loop, [&op, res] { op.done(op, res); }); });
}

}  // namespace

object_queue::~object_queue() { const std::lock_guard wait_for_posts(*posting_); }

void object_queue::begin(operation& op) {
  auto done = [&loop = loop_, posting = posting_, &op](const std::exception_ptr& failed) {
    end(loop, *posting, op, failed);
  };
  if (op.request.is_write) {
    const target_write write(op.request.file_offset, {op.request.memory, op.request.bytes});
    return op.request.target->write_async(write, std::move(done));
  }
  source_read read(op.request.file_offset, {op.request.memory, op.request.bytes});
  read.awaited = op.request.awaited;
  read.stop = *op.request.stop;
  read.counts = op.request.counts;
  op.request.object->read_async(read, std::move(done));
}

void object_queue::start(operation& op) {
  // A store that throws an exception has not started the operation.
  const auto start_result = catch_as_fault([&]() -> result<void> {
    begin(op);
    return {};
  });
  if (start_result) return;
  *op.request.object_failed = start_result.error();
  retry_allocation([&] { boost::asio::post(loop_, [&op] { op.done(op, -EIO); }); });
}

}  // namespace ringload::inline v0
