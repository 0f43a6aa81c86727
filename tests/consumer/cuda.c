// SPDX-License-Identifier: Apache-2.0

// Makes a loader for the first GPU through the component c_cuda. Without a driver the loader is
// refused.

#include <ringload/c_cuda.h>
#include <stdio.h>

int main(void) {
  ringload_device* device = NULL;
  if (ringload_cuda_device(0, &device) != RINGLOAD_OK) return 1;
  ringload_loader* loader = NULL;
  const ringload_status status = ringload_loader_create(device, NULL, &loader);
  const int count = ringload_cuda_device_count();
  printf("%s\n", (status == RINGLOAD_OK) == (count > 0) ? "ok" : ringload_last_error());
  ringload_loader_release(loader);
  ringload_device_release(device);
  return 0;
}
