// SPDX-License-Identifier: Apache-2.0

// Loads the checkpoint that is named, through the component c, as main.cpp does in C++.

#include <inttypes.h>
#include <ringload/c.h>
#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "%s\n", ringload_last_error());
  return 1;
}

int main(int argc, char** argv) {
  ringload_loader* loader = NULL;
  ringload_checkpoint* file = NULL;
  ringload_model* model = NULL;
  if (argc != 2) return 2;
  if (ringload_loader_create(NULL, NULL, &loader) != RINGLOAD_OK) return fail();
  if (ringload_open(loader, argv[1], NULL, &file) != RINGLOAD_OK) return fail();
  if (ringload_load(loader, file, NULL, NULL, &model) != RINGLOAD_OK) return fail();
  ringload_tensor* tensor = NULL;
  for (size_t i = 0; ringload_model_tensor(model, i, &tensor) == RINGLOAD_OK; ++i) {
    ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
    if (ringload_tensor_look(tensor, &view) != RINGLOAD_OK) return fail();
    printf("%s: %" PRIu64 " bytes at %p\n", view.name, view.bytes, view.data);
    ringload_tensor_release(tensor);
  }
  ringload_model_release(model);
  ringload_checkpoint_release(file);
  ringload_loader_release(loader);
  return 0;
}
