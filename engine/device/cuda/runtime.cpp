// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/runtime.hpp"

#include <ringload/cuda.hpp>

#include "device/cuda/kernels.hpp"

namespace ringload::inline v0 {

namespace {

class category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "cuda"; }

  // Example: "cudaErrorIllegalAddress: an illegal memory access was encountered".
  std::string message(int value) const override {
    const auto status = static_cast<cudaError_t>(value);
    std::string text = std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
    if (cuda::lacks_kernels(status)) {
      text += " (the kernels of ringload are built for " +
              std::string(cuda::kernel_architectures()) + " and later)";
    }
    return text;
  }
};

// Formats 12040 as "12.4".
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Returns the reason why there is no device. `status` is the result of cudaGetDeviceCount. The
// runtime returns the same error for an outdated and for a missing driver, but reports version 0
// for a missing driver.
std::string no_device_reason(cudaError_t status) {
  int driver = 0;
  if (cuda::code_of(cudaDriverGetVersion(&driver))) driver = 0;
  if (status == cudaErrorStubLibrary) {
    return "only the toolkit's stub of the driver was found, not the driver";
  }
  if (status == cudaErrorInsufficientDriver && driver == 0) return "driver not found";
  if (status == cudaErrorInsufficientDriver) {
    return "the driver supports CUDA " + version_text(driver) + ", but CUDA " +
           version_text(CUDART_VERSION) + " is needed";
  }
  if (status == cudaErrorNoDevice) return "the driver reports no device";
  return cuda_category().message(status);
}

}  // namespace

const boost::system::error_category& cuda_category() noexcept {
  static const category_type the_category;
  return the_category;
}

namespace cuda {

boost::system::error_code code_of(cudaError_t status) noexcept {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();
  return {static_cast<int>(status), cuda_category()};
}

bool lacks_kernels(cudaError_t status) noexcept {
  switch (status) {
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled: return true;
    default: return false;
  }
}

boost::system::error_code use_device(int index) noexcept {
  if (auto failed = code_of(cudaSetDevice(index))) return failed;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  return code_of(cudaThreadExchangeStreamCaptureMode(&mode));
}

result<int> count_devices() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  (void)code_of(status);
  if (status == cudaSuccess && count > 0) return count;
  if (status == cudaSuccess) status = cudaErrorNoDevice;
  return fault{errc::device_unavailable, "", no_device_reason(status)};
}

std::string name_of(int index) { return "cuda:" + std::to_string(index); }

result<void> check_device(int index) {
  const auto count = count_devices();
  if (!count) {
    return fault{count.error().code, name_of(index), "no CUDA device: " + count.error().cause()};
  }
  if (index >= 0 && index < *count) return {};
  return fault{errc::device_unavailable, name_of(index),
               "no CUDA device " + std::to_string(index) + ": there " +
                   (*count == 1 ? "is 1" : "are " + std::to_string(*count)) + ", counted from 0"};
}

}  // namespace cuda

int cuda_device_count(std::string* no_device_reason) {
  const auto count = cuda::count_devices();
  if (!count && no_device_reason) *no_device_reason = count.error().cause();
  return count ? *count : 0;
}

}  // namespace ringload::inline v0
