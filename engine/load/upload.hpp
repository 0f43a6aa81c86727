// SPDX-License-Identifier: Apache-2.0
#pragma once

// Copies bytes from ordinary host memory to the destinations of a load: decoded bytes, constants
// and bytes from file headers. Runs in the decoding threads and the opening threads. Bytes for a
// GPU are copied through pinned memory. While the device copies, the next bytes can be decoded.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "plan/plan.hpp"
#include "request/destinations.hpp"

namespace ringload::inline v0::detail {

// Must be used by one thread at a time. Calls may block. The caller must call wait() after the last
// copy().
class upload {
 public:
  // Both arguments must outlive this object.
  upload(const destinations& into, std::span<const strided_map> maps) noexcept
      : into_(into), maps_(maps) {}
  upload(const upload&) = delete;
  upload& operator=(const upload&) = delete;
  ~upload() { (void)wait(); }

  // Copies ranges of `from`. The caller may overwrite `from` after the function returns. Throws
  // std::bad_alloc.
  boost::system::error_code copy(const std::byte* from, std::span<const copy_op> copies);

  // Waits until all copies have ended, and returns all uploaders to their backends.
  boost::system::error_code wait() noexcept;

 private:
  struct device_uploader {
    backend* owner;
    std::unique_ptr<uploader> copies;
  };

  boost::system::error_code copy_to(backend& target, const copy_operation& op);

  const destinations& into_;
  const std::span<const strided_map> maps_;
  std::vector<device_uploader> uploaders_;
};

}  // namespace ringload::inline v0::detail
