// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/runtime.hpp"

#include <ringload/cuda.hpp>

namespace ringload::inline v0 {

namespace {

class category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "cuda"; }

  // "cudaErrorIllegalAddress: an illegal memory access was encountered"
  std::string message(int value) const override {
    const auto said = static_cast<cudaError_t>(value);
    return std::string(cudaGetErrorName(said)) + ": " + cudaGetErrorString(said);
  }
};

// "12.4", of 12040.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Why cudaGetDeviceCount said that. The runtime has one error for a driver that is too old and for
// none at all; they differ in the version, which is 0 where there is none.
std::string why_none(cudaError_t said) {
  int driver = 0;
  if (cuda::code_of(cudaDriverGetVersion(&driver))) driver = 0;
  if (said == cudaErrorStubLibrary) {
    return "only the toolkit's stub of the driver was found, not the driver";
  }
  if (said == cudaErrorInsufficientDriver && driver == 0) return "driver not found";
  if (said == cudaErrorInsufficientDriver) {
    return "the driver is for CUDA " + version_text(driver) + ", and " +
           version_text(CUDART_VERSION) + " is needed";
  }
  if (said == cudaErrorNoDevice) return "the driver sees none";
  return cuda_category().message(said);
}

}  // namespace

const boost::system::error_category& cuda_category() noexcept {
  static const category_type the_category;
  return the_category;
}

namespace cuda {

boost::system::error_code code_of(cudaError_t said) noexcept {
  if (said == cudaSuccess) return {};
  (void)cudaGetLastError();
  return {static_cast<int>(said), cuda_category()};
}

boost::system::error_code use_device(int index) noexcept {
  if (auto failed = code_of(cudaSetDevice(index))) return failed;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  return code_of(cudaThreadExchangeStreamCaptureMode(&mode));
}

bool reaches(int index, int other) noexcept {
  int can = 0;
  if (use_device(index) || code_of(cudaDeviceCanAccessPeer(&can, index, other))) return false;
  if (can == 0) return false;
  const cudaError_t said = cudaDeviceEnablePeerAccess(other, 0);
  return !code_of(said) || said == cudaErrorPeerAccessAlreadyEnabled;
}

result<int> count_devices() {
  int count = 0;
  cudaError_t said = cudaGetDeviceCount(&count);
  (void)code_of(said);
  if (said == cudaSuccess && count > 0) return count;
  if (said == cudaSuccess) said = cudaErrorNoDevice;
  return fault{errc::device_unavailable, "", why_none(said)};
}

}  // namespace cuda

int cuda_device_count(std::string* why_none) {
  const auto count = cuda::count_devices();
  if (!count && why_none) *why_none = count.error().cause;
  return count ? *count : 0;
}

}  // namespace ringload::inline v0
