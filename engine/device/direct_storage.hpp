// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads files directly into GPU memory, without a copy in host memory (GPUDirect Storage). Loads
// use this interface if the option `gpu_direct` is set.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fault.hpp"

namespace ringload::inline v0 {

class direct_storage {
 public:
  virtual ~direct_storage() = default;

  // Returns the device address of a slot. Each slot is as large as the loader's slots.
  virtual std::byte* slot(std::uint32_t index) const noexcept = 0;

  // Registers a file. `descriptor` must be open with O_DIRECT. The caller may close `descriptor`
  // afterwards, because the returned object keeps the file open. The call and the destructor of the
  // object may block. Thread-safe.
  virtual result<std::shared_ptr<void>> add_file(int descriptor) = 0;

  // Reads into a slot or into a part of a slot. `file` must be the object that add_file() returned.
  // Offsets and sizes must be multiples of block_bytes (io_unit.hpp). Returns the number of bytes
  // read, or -errno. At the end of the file, this number may be smaller than the size of `into`. If
  // GPUDirect Storage cannot read the file, sets `problem` and returns -EIO. In this case a read
  // through host memory may still succeed. Blocks. Thread-safe for different slots.
  virtual std::int64_t read(void* file, std::uint64_t file_offset, std::span<std::byte> into,
                            boost::system::error_code& problem) noexcept = 0;
};

}  // namespace ringload::inline v0
