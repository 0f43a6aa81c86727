// SPDX-License-Identifier: Apache-2.0

// A program with the component `cuda` starts on a machine without a driver, and prints the devices.

#include <iostream>
#include <ringload/cuda.hpp>
#include <ringload/ringload.hpp>

int main() {
  std::string why = "at hand";
  const int count = ringload::cuda_device_count(&why);
  std::cout << "CUDA devices: " << count << ", " << why << '\n';
  try {
    const ringload::loader loader(ringload::cuda_device(0));
  } catch (const ringload::error& e) {
    return count == 0 && e.code() == ringload::errc::device_unavailable ? 0 : 1;
  }
  return count > 0 ? 0 : 1;
}
