// SPDX-License-Identifier: Apache-2.0
#pragma once

// The reads of a load that transfer bytes from files directly to device memory (GPUDirect Storage).
// Each file has a byte_supply, a function that reads into a slot (I/O buffer) in device memory.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/direct_storage.hpp"
#include "io/io_queue.hpp"

namespace ringload::inline v0::detail {

class storage_reads {
 public:
  // `storage` must outlive this object.
  storage_reads(direct_storage& storage, std::size_t files);
  storage_reads(const storage_reads&) = delete;
  storage_reads& operator=(const storage_reads&) = delete;

  // Returns the function that reads file number `file`. The descriptor of the file must have been
  // opened with O_DIRECT. The first read of a file registers the file with the driver.
  const byte_supply& supply(std::uint32_t file) const noexcept { return supplies_[file]; }

 private:
  struct registered_file {
    std::mutex mutex;
    // Guarded by `mutex`.
    bool was_tried = false;
    std::shared_ptr<void> handle;
    boost::system::error_code registration_error;
  };

  void* register_once(registered_file& file, int descriptor, boost::system::error_code& problem);

  direct_storage& storage_;
  std::vector<registered_file> files_;
  std::vector<byte_supply> supplies_;
};

}  // namespace ringload::inline v0::detail
