// SPDX-License-Identifier: Apache-2.0

// Reads a checkpoint from a custom store, in C. In this example, the store reads files with pread.
// The program prints where the file has the bytes of each tensor, loads the checkpoint, counts the
// steps of the load, and copies the first tensor.

#include <fcntl.h>
#include <inttypes.h>
#include <ringload/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "pread://";

// The functions of the store. An object is the address of a file descriptor.

static ringload_status open_file(void* context, const char* name, void** object, uint64_t* bytes,
                                 ringload_store_call* call) {
  (void)context;
  const int descriptor = open(name + strlen(prefix), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return ringload_store_fail(call, RINGLOAD_NOT_FOUND, "no such file");
  struct stat found;
  int* const file = malloc(sizeof *file);
  if (!file || fstat(descriptor, &found) != 0) {
    free(file);
    close(descriptor);
    return RINGLOAD_SYSTEM_ERROR;
  }
  *file = descriptor;
  *object = file;
  *bytes = (uint64_t)found.st_size;
  return RINGLOAD_OK;
}

static ringload_status read_file(void* object, uint64_t offset, void* into, uint64_t bytes,
                                 uint64_t* bytes_read, ringload_store_call* call) {
  while (*bytes_read < bytes && !ringload_store_is_cancelled(call)) {
    const ssize_t count = pread(*(const int*)object, (char*)into + *bytes_read, bytes - *bytes_read,
                                (off_t)(offset + *bytes_read));
    if (count < 0) return ringload_store_fail(call, RINGLOAD_SYSTEM_ERROR, "pread failed");
    if (count == 0) break;  // The file was truncated.
    *bytes_read += (uint64_t)count;
  }
  return RINGLOAD_OK;
}

static void close_file(void* object) {
  close(*(const int*)object);
  free(object);
}

static void count_step(void* context, const ringload_trace_event* event) {
  uint64_t* const steps = context;
  if (event->step <= RINGLOAD_STEP_HANDED_OUT) ++steps[event->step];
}

static void print_catalog(const ringload_checkpoint* checkpoint) {
  ringload_tensor_info tensor = RINGLOAD_STRUCT(ringload_tensor_info);
  for (size_t i = 0; ringload_checkpoint_tensor(checkpoint, i, &tensor) == RINGLOAD_OK; ++i) {
    printf("%s: %s, %" PRIu64 " bytes at %" PRIu64 " of %s, encoding '%s', digest '%s'\n",
           tensor.name, ringload_dtype_name(tensor.dtype), tensor.stored_bytes, tensor.offset,
           tensor.file, tensor.encoding, tensor.digest);
  }
  ringload_object_info object = RINGLOAD_STRUCT(ringload_object_info);
  for (size_t i = 0; ringload_checkpoint_object(checkpoint, i, &object) == RINGLOAD_OK; ++i) {
    printf("%s: %s of %zu parts, %zu dimensions\n", object.name, object.layout, object.parts,
           object.rank);
  }
}

static ringload_status load_and_copy(ringload_loader* loader,
                                     const ringload_checkpoint* checkpoint) {
  uint64_t steps[RINGLOAD_STEP_HANDED_OUT + 1] = {0};
  ringload_trace trace = RINGLOAD_STRUCT(ringload_trace);
  trace.report = count_step;
  trace.context = steps;
  ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
  options.trace = &trace;
  ringload_model* model = NULL;
  ringload_status status = ringload_load(loader, checkpoint, NULL, &options, &model);
  if (status != RINGLOAD_OK) return status;

  ringload_tensor *tensor = NULL, *copy = NULL;
  status = ringload_model_tensor(model, 0, &tensor);
  if (status == RINGLOAD_OK) status = ringload_tensor_copy(loader, tensor, NULL, &copy);
  if (status == RINGLOAD_OK) {
    printf("%zu tensors, %" PRIu64 " reads, 1 copy\n", ringload_model_size(model),
           steps[RINGLOAD_STEP_READ]);
  }
  ringload_tensor_release(copy);
  ringload_tensor_release(tensor);
  ringload_model_release(model);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: c_own_store FILE\n");
    return 2;
  }
  char name[4096];
  snprintf(name, sizeof name, "%s%s", prefix, argv[1]);

  ringload_store store = RINGLOAD_STRUCT(ringload_store);
  store.prefix = prefix;
  store.open = open_file;
  store.read = read_file;
  store.close = close_file;
  ringload_extension* extension = NULL;
  ringload_loader* loader = NULL;
  ringload_checkpoint* checkpoint = NULL;
  ringload_status status = ringload_store_extension(&store, &extension);
  if (status == RINGLOAD_OK) {
    const ringload_extension* const extensions[1] = {extension};
    status = ringload_loader_create_with(NULL, NULL, extensions, 1, &loader);
  }
  if (status == RINGLOAD_OK) status = ringload_open(loader, name, NULL, &checkpoint);
  if (status == RINGLOAD_OK) {
    print_catalog(checkpoint);
    status = load_and_copy(loader, checkpoint);
  }
  if (status != RINGLOAD_OK) fprintf(stderr, "%s\n", ringload_last_error());
  ringload_checkpoint_release(checkpoint);
  ringload_loader_release(loader);
  ringload_extension_release(extension);
  return status == RINGLOAD_OK ? 0 : 1;
}
