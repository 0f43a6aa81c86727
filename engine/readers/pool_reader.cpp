// SPDX-License-Identifier: Apache-2.0
#include "readers/pool_reader.hpp"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "core/mapping.hpp"
#include "core/surely.hpp"

namespace ringload::inline v0 {

namespace {

int carry_out(const read_request& what) noexcept {
  if (what.fresh) {
    if (auto failed = populate({what.into, what.bytes})) return -failed.value();
  }
  const ::ssize_t got =
      ::pread(what.fd, what.into, what.bytes, static_cast<::off_t>(what.file_offset));
  return got < 0 ? -errno : static_cast<int>(got);
}

}  // namespace

void pool_reader::start(operation& op) {
  const auto work = [this, &op] {
    const int res = carry_out(op.what);
    surely([&] { boost::asio::post(loop_, [&op, res] { op.done(op, res); }); });
  };
  surely([&] { boost::asio::post(threads_.get_executor(), work); });
}

}  // namespace ringload::inline v0
