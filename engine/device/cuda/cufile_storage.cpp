// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cufile_storage.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/checked.hpp"
#include "device/cuda/device_memory.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

namespace {

// cuFile identifies a file by its descriptor, so each registration has its own descriptor.
struct registered_file {
  registered_file(const cufile::functions& functions, unique_fd own) noexcept
      : library(functions), descriptor(std::move(own)) {}
  registered_file(const registered_file&) = delete;
  registered_file& operator=(const registered_file&) = delete;
  ~registered_file() {
    if (file != nullptr) library.cuFileHandleDeregister(file);
  }

  const cufile::functions& library;
  const unique_fd descriptor;  // Closed after the file is deregistered.
  cufile::handle file = nullptr;
};

// Page size of GPU memory to which a drive writes. If a buffer shares such a page with other
// memory, cuFile writes through host memory.
constexpr std::uint64_t gpu_page_bytes = 64 * 1024;

// Returns true if cuFile has caused the error, and false if the drive has caused the error.
bool is_refusal(int reason) noexcept {
  return reason == EINVAL || reason == EOPNOTSUPP || reason == ENOSYS || reason == EPERM;
}

}  // namespace

error_code cufile_storage::open(std::uint32_t slots, const allocation_log& log) {
  slots_ = std::make_unique<registered_slots>(cufile_, slots, slot_bytes_);
  device_buffer& memory = slots_->memory;
  if (auto failed = memory.take(slots * slot_bytes_ + gpu_page_bytes, log)) return failed;
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  slots_->first = memory.data() + (round_up<std::uint64_t>(address, gpu_page_bytes) - address);
  return {};
}

cufile_storage::~cufile_storage() {
  if (slots_) destroy_later(device_, std::move(slots_));
}

cufile_storage::registered_slots::~registered_slots() {
  bool is_clean = true;
  for (std::size_t i = 0; i < is_registered.size(); ++i) {
    if (is_registered[i] == 0) continue;
    const auto failed = cufile::code_of(library.cuFileBufDeregister(first + i * slot_bytes));
    is_clean = is_clean && !failed;
  }
  // Leaks memory that is still registered, because cudaFree could block forever in nvidia-fs.
  if (!is_clean) memory.leak();
}

result<std::shared_ptr<void>> cufile_storage::add_file(int descriptor) {
  if (auto failed = use_device(device_)) return fault{failed, ""};
  unique_fd own(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!own) return fault{system_code(errno), ""};
  const auto added = std::make_shared<registered_file>(cufile_, std::move(own));
  cufile::file_descriptor described = {
      cufile::opaque_descriptor, {added->descriptor.get()}, nullptr};
  cufile::handle handle = nullptr;
  if (auto failed = cufile::code_of(cufile_.cuFileHandleRegister(&handle, &described))) {
    return fault{failed, ""};
  }
  added->file = handle;
  return std::shared_ptr<void>(added);
}

std::int64_t cufile_storage::read(void* file, std::uint64_t file_offset, std::span<std::byte> into,
                                  error_code& problem) noexcept {
  // The calling thread is a thread of the library and has no current device.
  if (auto failed = use_device(device_)) {
    problem = failed;
    return -EIO;
  }
  const auto from_begin = static_cast<std::uint64_t>(into.data() - slots_->first);
  const std::uint64_t index = from_begin / slot_bytes_;
  std::byte* const base = slot(static_cast<std::uint32_t>(index));
  if (slots_->is_registered[index] == 0) {
    if (auto failed = cufile::code_of(cufile_.cuFileBufRegister(base, slot_bytes_, 0))) {
      problem = failed;
      return -EIO;
    }
    slots_->is_registered[index] = 1;
  }
  errno = 0;
  const ::ssize_t got = cufile_.cuFileRead(static_cast<registered_file*>(file)->file, base,
                                           into.size(), static_cast<::off_t>(file_offset),
                                           static_cast<::off_t>(from_begin % slot_bytes_));
  if (got >= 0) return got;
  const int reason = errno;
  if (got != -1) {
    problem = {static_cast<int>(-got), cufile::category()};
  } else if (is_refusal(reason)) {
    problem = system_code(reason);
  } else if (reason != 0) {
    return -reason;
  }
  return -EIO;
}

}  // namespace ringload::inline v0::cuda
