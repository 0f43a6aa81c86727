// SPDX-License-Identifier: Apache-2.0

// Reads an HDF5 file where ringload was built for that, through the component c_hdf5, with libhdf5
// in this process.

#include <ringload/c_hdf5.h>
#include <stdio.h>
#include <string.h>

static int fail(void) {
  fprintf(stderr, "%s\n", ringload_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ringload_extension* hdf5 = NULL;
  const ringload_status status = ringload_hdf5_extension(NULL, &hdf5);
  if (status == RINGLOAD_UNSUPPORTED) {
    printf("%s\n", strstr(ringload_last_error(), "built without") ? "ok" : ringload_last_error());
    return 0;
  }
  if (status != RINGLOAD_OK) return fail();
  const ringload_extension* const all[] = {hdf5};
  ringload_loader* loader = NULL;
  if (ringload_loader_create_with(NULL, NULL, all, 1, &loader) != RINGLOAD_OK) return fail();
  ringload_extension_release(hdf5);
  ringload_checkpoint* file = NULL;
  if (ringload_open(loader, argv[1], NULL, &file) != RINGLOAD_OK) return fail();
  printf("ok\n");
  ringload_checkpoint_release(file);
  ringload_loader_release(loader);
  return 0;
}
