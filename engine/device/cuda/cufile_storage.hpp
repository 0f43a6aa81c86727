// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads files with cuFile into slots (I/O buffers) in GPU memory. All slots are in one allocation.
// Each slot is registered with cuFile at its first read.

#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/unique_fd.hpp"
#include "device/cuda/cufile_library.hpp"
#include "device/cuda/raii.hpp"
#include "device/direct_storage.hpp"

namespace ringload::inline v0::cuda {

class cufile_storage final : public direct_storage {
 public:
  cufile_storage(int device, const cufile::functions& functions, std::uint64_t slot_bytes)
      : device_(device), cufile_(functions), slot_bytes_(slot_bytes) {}
  // No read may be in progress. Files may still be registered. A thread of the library frees the
  // slots, because the release may wait for kernels of the program.
  ~cufile_storage() override;

  // The device must be the current device.
  boost::system::error_code open(std::uint32_t slots, const allocation_log& log);

  std::byte* slot(std::uint32_t index) const noexcept override {
    return slots_->first + index * slot_bytes_;
  }
  result<std::shared_ptr<void>> add_file(int descriptor) override;
  std::int64_t read(void* file, std::uint64_t file_offset, std::span<std::byte> into,
                    boost::system::error_code& problem) noexcept override;

 private:
  struct registered_slots {
    registered_slots(const cufile::functions& functions, std::uint32_t count, std::uint64_t bytes)
        : library(functions), slot_bytes(bytes), is_registered(count, 0) {}
    registered_slots(const registered_slots&) = delete;
    registered_slots& operator=(const registered_slots&) = delete;
    // The device must be the current device.
    ~registered_slots();

    const cufile::functions& library;
    const std::uint64_t slot_bytes;
    device_buffer memory;
    std::byte* first = nullptr;  // Address of the first slot.
    // One entry for each slot. Needs no lock: only the reads of a slot use the entry of the slot,
    // and these reads run one after another.
    std::vector<unsigned char> is_registered;
  };

  const int device_;
  const cufile::functions& cufile_;
  const std::uint64_t slot_bytes_;
  std::unique_ptr<registered_slots> slots_;
};

}  // namespace ringload::inline v0::cuda
