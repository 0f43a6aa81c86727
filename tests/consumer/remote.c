// SPDX-License-Identifier: Apache-2.0

// Makes a loader that reads over HTTP where ringload was built for that, through the component
// c_remote; asked for an address, it says that it may open no socket.

#include <ringload/c_remote.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  ringload_remote_options how = RINGLOAD_STRUCT(ringload_remote_options);
  how.offline = 1;
  ringload_extension* remote = NULL;
  const ringload_status status = ringload_remote_extension(&how, &remote);
  if (status == RINGLOAD_UNSUPPORTED) {
    printf("%s\n", strstr(ringload_last_error(), "built without") ? "ok" : ringload_last_error());
    return 0;
  }
  const ringload_extension* const all[] = {remote};
  ringload_loader* loader = NULL;
  if (ringload_loader_create_with(NULL, NULL, all, 1, &loader) != RINGLOAD_OK) return 1;
  ringload_extension_release(remote);
  ringload_checkpoint* file = NULL;
  if (ringload_open(loader, "https://localhost/x", NULL, &file) == RINGLOAD_OK) return 1;
  printf("%s\n", strstr(ringload_last_error(), "offline") ? "ok" : ringload_last_error());
  ringload_loader_release(loader);
  return 0;
}
