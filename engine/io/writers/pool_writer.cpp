// SPDX-License-Identifier: Apache-2.0
#include "io/writers/pool_writer.hpp"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0 {

void pool_writer::start(operation& op) {
  const auto work = [this, &op] {
    const write_request& request = op.request;
    const ::ssize_t put = ::pwrite(request.fd, request.from, request.bytes,
                                   static_cast<::off_t>(request.file_offset));
    const int res = put < 0 ? -errno : static_cast<int>(put);
    retry_allocation([&] { boost::asio::post(loop_, [&op, res] { op.done(op, res); }); });
  };
  retry_allocation([&] { boost::asio::post(threads_.get_executor(), work); });
}

}  // namespace ringload::inline v0
