// SPDX-License-Identifier: Apache-2.0

// The C interface as a C program uses it: argument 1 is a folder to write to. Each check that fails
// is printed, and the program then ends with 1.

#include <poll.h>
#include <pthread.h>
#include <ringload/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interface.h"

int failures = 0;

// 'a' is a matrix of float, 'b' a row of bytes.
static void write_checkpoint(const char* path) {
  char header[512];
  const int bytes_of_a = elements * 4;
  const int length = snprintf(header, sizeof header,
                              "{\"__metadata__\":{\"made\":\"by hand\"},"
                              "\"a\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
                              "\"b\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[%d,%d]}}",
                              rows, columns, bytes_of_a, bytes_of_a, bytes_of_a + 5);
  FILE* file = fopen(path, "wb");
  if (!file) exit(2);
  for (int i = 0; i < 8; ++i) fputc(i < 2 ? length >> (8 * i) & 255 : 0, file);
  fwrite(header, 1, (size_t)length, file);
  for (int i = 0; i < elements; ++i) {
    const float value = (float)i;
    fwrite(&value, sizeof value, 1, file);
  }
  fwrite("bytes", 1, 5, file);
  if (fclose(file) != 0) exit(2);
}

int is_whole(const ringload_tensor* tensor) {
  ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
  if (ringload_tensor_look(tensor, &view) != RINGLOAD_OK) return 0;
  if (strcmp(view.name, "b") == 0) {
    return view.dtype == RINGLOAD_U8 && view.rank == 1 && memcmp(view.data, "bytes", 5) == 0;
  }
  if (view.rank != 2 || view.shape[0] != rows || view.shape[1] != columns) return 0;
  if (view.bytes != (uint64_t)elements * 4 || view.device != RINGLOAD_HOST) return 0;
  const float* at = view.data;
  for (int i = 0; i < elements; ++i) {
    if (at[i] != (float)i) return 0;
  }
  return 1;
}

static void wrong_calls(ringload_loader* loader) {
  ringload_checkpoint* missing = NULL;
  CHECK(ringload_open(loader, "/no/such.safetensors", NULL, &missing) == RINGLOAD_NOT_FOUND);
  CHECK(strcmp(ringload_last_error_name(), "source_not_found") == 0);
  CHECK(strstr(ringload_last_error_place(), "/no/such.safetensors") != NULL);
  CHECK(strncmp(ringload_last_error(), ringload_last_error_place(),
                strlen(ringload_last_error_place())) == 0);
  CHECK(ringload_last_errno() == 0);
  // Each name of a folder is 200 bytes of two-byte characters. The message is cut between two.
  char long_path[8001] = "";
  for (int i = 0; i < 8000; ++i)
    long_path[i] = i % 201 == 0 ? '/' : i % 201 % 2 == 1 ? '\xc3' : '\xa9';
  for (int begin = 0; begin < 2; ++begin) {
    CHECK(ringload_open(loader, long_path + begin * 201 + begin, NULL, &missing) != RINGLOAD_OK);
    const char* const text = ringload_last_error();
    CHECK(strlen(text) > 0 && text[strlen(text) - 1] != '\xc3');
  }
  ringload_checkpoint* opened = NULL;
  CHECK(ringload_open(NULL, "x", NULL, &opened) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("the loader is null");
  CHECK(ringload_open(loader, NULL, NULL, &opened) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_open(loader, "/no/such/file.safetensors", NULL, &opened) == RINGLOAD_NOT_FOUND);
  SAYS("/no/such/file.safetensors");
  CHECK(opened == NULL);
  CHECK(ringload_open(loader, "x", NULL, NULL) != RINGLOAD_OK);
  ringload_model* loaded = NULL;
  CHECK(ringload_load(loader, NULL, NULL, NULL, &loaded) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_operation_wait(NULL, 0) == RINGLOAD_INVALID_ARGUMENT);

  ringload_loader_options within = RINGLOAD_STRUCT(ringload_loader_options);
  ringload_loader* other = NULL;
  within.engine = (ringload_engine)9;
  CHECK(ringload_loader_create(NULL, &within, &other) == RINGLOAD_INVALID_ARGUMENT);
  within.engine = RINGLOAD_ENGINE_AUTOMATIC;
  within.slot_bytes = 12345;
  CHECK(ringload_loader_create(NULL, &within, &other) == RINGLOAD_INVALID_ARGUMENT);
  within.slot_bytes = 0;
  within.struct_bytes = 0;
  CHECK(ringload_loader_create(NULL, &within, &other) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(other == NULL);

  // Nothing to release is nothing to do.
  ringload_loader_release(NULL);
  ringload_operation_release(NULL);
  ringload_loading_release(NULL);
  ringload_model_release(NULL);

  CHECK(strcmp(ringload_status_name(RINGLOAD_CHANGED_FILE), "changed_file") == 0);
  CHECK(strcmp(ringload_status_name((ringload_status)99), "unknown") == 0);
  CHECK(strcmp(ringload_dtype_name(RINGLOAD_BF16), "BF16") == 0);
  CHECK(ringload_dtype_bits(RINGLOAD_C128) == 128 && ringload_dtype_bits(RINGLOAD_F4) == 4);
  CHECK(ringload_dtype_name(RINGLOAD_AS_STORED)[0] == 0 && ringload_dtype_bits(24) == 0);
}

// A _begin function that fails sets its handle to null, whichever argument is wrong.
static void failed_begins(ringload_loader* loader, const ringload_checkpoint* file) {
  const char* const source = "x";
  ringload_open_options opening = RINGLOAD_STRUCT(ringload_open_options);
  opening.struct_bytes = 0;
  REFUSES_TO_BEGIN(ringload_open_begin(NULL, &source, 1, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_open_begin(loader, &source, 0, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_open_begin(loader, NULL, 1, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_open_begin(loader, &source, 1, &opening, &operation));
  REFUSES_TO_BEGIN(ringload_open_memory_begin(loader, NULL, 1, "x", NULL, NULL, NULL, &operation));
  ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
  how.allocation = (ringload_allocation)9;
  REFUSES_TO_BEGIN(ringload_load_begin(NULL, file, NULL, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_load_begin(loader, file, NULL, &how, &operation));
  REFUSES_TO_BEGIN(ringload_start_begin(loader, NULL, NULL, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_stream_begin(loader, file, 1 << 20, NULL, &how, &operation));
  REFUSES_TO_BEGIN(ringload_fill_begin(loader, file, NULL, 1, NULL, NULL, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_save_begin(loader, NULL, NULL, 0, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_tensor_copy_begin(loader, NULL, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_loading_next_begin(NULL, &operation));
  REFUSES_TO_BEGIN(ringload_loading_tensor_begin(NULL, "a", &operation));
  REFUSES_TO_BEGIN(ringload_loading_finish_begin(NULL, &operation));
  REFUSES_TO_BEGIN(ringload_tensor_stream_next_begin(NULL, &operation));
  CHECK(ringload_load_begin(loader, file, NULL, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);
}

static void a_catalog(const ringload_checkpoint* file, const char* path) {
  CHECK(ringload_checkpoint_size(file) == 2);
  ringload_tensor_info info = RINGLOAD_STRUCT(ringload_tensor_info);
  CHECK(ringload_checkpoint_tensor(file, 0, &info) == RINGLOAD_OK);
  CHECK(strcmp(info.name, "a") == 0 && strcmp(info.file, path) == 0 && info.type[0] == 0);
  CHECK(info.rank == 2 && info.shape[1] == columns && info.dtype == RINGLOAD_F32);
  CHECK(ringload_checkpoint_tensor(file, 2, &info) == RINGLOAD_END);

  // A caller with an older, shorter struct gets the fields that it knows, and no byte more.
  memset(&info, 0x5a, sizeof info);
  info.struct_bytes = offsetof(ringload_tensor_info, rank);
  CHECK(ringload_checkpoint_tensor(file, 1, &info) == RINGLOAD_OK);
  CHECK(strcmp(info.name, "b") == 0 && info.rank == (size_t)0x5a5a5a5a5a5a5a5a);

  size_t position = 9;
  CHECK(ringload_checkpoint_find(file, "b", &position) == RINGLOAD_OK && position == 1);
  CHECK(ringload_checkpoint_find(file, "c", &position) == RINGLOAD_NOT_FOUND);
  const char *key = NULL, *value = NULL;
  CHECK(ringload_checkpoint_metadata(file, 0, &key, &value) == RINGLOAD_OK);
  CHECK(strcmp(key, "made") == 0 && strcmp(value, "by hand") == 0);
  CHECK(ringload_checkpoint_metadata(file, 1, &key, &value) == RINGLOAD_END);
}

static void a_part(ringload_loader* loader, const ringload_checkpoint* file) {
  ringload_selection* some = NULL;
  CHECK(ringload_selection_create(&some) == RINGLOAD_OK);
  CHECK(ringload_selection_name(some, "a") == RINGLOAD_OK);
  CHECK(ringload_selection_slice(some, "a", 0, 2, 3) == RINGLOAD_OK);
  ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
  how.dtype = RINGLOAD_F16;
  ringload_model* part = NULL;
  CHECK(ringload_load(loader, file, some, &how, &part) == RINGLOAD_OK);
  CHECK(ringload_model_size(part) == 1);
  ringload_tensor* a = NULL;
  CHECK(ringload_model_find(part, "a", &a) == RINGLOAD_OK);
  ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
  CHECK(ringload_tensor_look(a, &view) == RINGLOAD_OK);
  CHECK(view.dtype == RINGLOAD_F16 && view.shape[0] == 3 && view.bytes == 3 * columns * 2);
  CHECK(((const uint16_t*)view.data)[48] == 0x6800);  // 2048 as f16.
  ringload_tensor* none = NULL;
  CHECK(ringload_model_find(part, "b", &none) == RINGLOAD_NOT_FOUND && none == NULL);
  SAYS("'b'");
  CHECK(ringload_model_tensor(part, 1, &none) == RINGLOAD_END);
  ringload_model_release(part);

  how.dtype = RINGLOAD_U8;
  CHECK(ringload_load(loader, file, some, &how, &part) == RINGLOAD_UNSUPPORTED && part == NULL);
  CHECK(ringload_selection_slice(some, "a", 1, columns, 1) == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, some, NULL, &part) == RINGLOAD_INVALID_ARGUMENT);
  ringload_selection_release(some);
  ringload_tensor_release(a);
}

static void as_they_land(ringload_loader* loader, const ringload_checkpoint* file) {
  ringload_loading* loading = NULL;
  CHECK(ringload_start(loader, file, NULL, NULL, &loading) == RINGLOAD_OK);
  ringload_tensor* b = NULL;
  CHECK(ringload_loading_tensor(loading, "b", &b) == RINGLOAD_OK && is_whole(b));
  ringload_tensor* none = NULL;
  CHECK(ringload_loading_tensor(loading, "c", &none) == RINGLOAD_NOT_FOUND && none == NULL);
  int count = 0;
  for (;;) {
    ringload_tensor* next = NULL;
    const ringload_status status = ringload_loading_next(loading, &next);
    if (status != RINGLOAD_OK) {
      CHECK(status == RINGLOAD_END && next == NULL);
      break;
    }
    CHECK(is_whole(next));
    ringload_tensor_release(next);
    ++count;
  }
  CHECK(count == 2);
  ringload_model* all = NULL;
  CHECK(ringload_loading_finish(loading, &all) == RINGLOAD_OK && ringload_model_size(all) == 2);
  ringload_stats stats = RINGLOAD_STRUCT(ringload_stats);
  CHECK(ringload_loading_progress(loading, &stats) == RINGLOAD_OK);
  ringload_file_stats of_file = RINGLOAD_STRUCT(ringload_file_stats);
  for (int of_model = 0; of_model < 2; ++of_model) {
    of_file.bytes_read = 0;
    CHECK((of_model ? ringload_model_file_stats(all, 0, &of_file)
                    : ringload_loading_file_progress(loading, 0, &of_file)) == RINGLOAD_OK);
    CHECK(of_file.bytes_read >= (uint64_t)elements * 4 + 5 && of_file.bytes > elements * 4);
    CHECK(strstr(of_file.path, "interface.safetensors") && of_file.seconds_reading > 0);
    CHECK(of_file.seconds_device_wait >= 0);
  }
  CHECK(ringload_loading_file_progress(loading, 1, &of_file) == RINGLOAD_END);
  CHECK(ringload_model_file_stats(all, 1, &of_file) == RINGLOAD_END);
  CHECK(stats.tensors == 2 && stats.bytes == (uint64_t)elements * 4 + 5 && stats.seconds > 0);
  CHECK(stats.header_bytes == of_file.bytes - stats.bytes && stats.threads >= 5);
  ringload_loading_release(loading);
  ringload_model_release(all);
  ringload_tensor_release(b);
}

struct told {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int times;
  ringload_status status, status_of_waiting;
  ringload_loader* loader;
  const ringload_checkpoint* file;
};

static void tell(void* context, ringload_status status) {
  struct told* told = context;
  // Whoever waits here would wait for itself.
  ringload_model* model = NULL;
  const ringload_status waiting = ringload_load(told->loader, told->file, NULL, NULL, &model);
  pthread_mutex_lock(&told->mutex);
  ++told->times;
  told->status = status;
  told->status_of_waiting = waiting;
  pthread_cond_signal(&told->changed);
  pthread_mutex_unlock(&told->mutex);
}

static void through_a_window(ringload_loader* loader, ringload_checkpoint* file) {
  ringload_tensor_stream* stream = NULL;
  CHECK(ringload_stream(loader, file, 0, NULL, NULL, &stream) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(strcmp(ringload_last_error_name(), "invalid_options") == 0 && stream == NULL);
  CHECK(ringload_stream(loader, file, 16 << 20, NULL, NULL, &stream) == RINGLOAD_OK);
  ringload_tensor* next = NULL;
  uint64_t tensors = 0;
  ringload_status status = ringload_tensor_stream_next(stream, &next);
  for (; status == RINGLOAD_OK; status = ringload_tensor_stream_next(stream, &next)) {
    ++tensors;
    ringload_tensor_release(next);
  }
  CHECK(status == RINGLOAD_END);
  ringload_stats stats = RINGLOAD_STRUCT(ringload_stats);
  CHECK(ringload_tensor_stream_progress(stream, &stats) == RINGLOAD_OK);
  CHECK(tensors > 1 && stats.tensors == tensors);
  ringload_file_stats of_file = RINGLOAD_STRUCT(ringload_file_stats);
  CHECK(ringload_tensor_stream_file_progress(stream, 0, &of_file) == RINGLOAD_OK);
  CHECK(ringload_tensor_stream_file_progress(stream, 1, &of_file) == RINGLOAD_END);
  ringload_tensor_stream_release(stream);
  ringload_tensor_stream_release(NULL);
}

static void told_and_polled(ringload_loader* loader, const ringload_checkpoint* file) {
  struct told told = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, loader, file};
  ringload_operation* load = NULL;
  CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
  int descriptor = -1;
  CHECK(ringload_operation_descriptor(load, &descriptor) == RINGLOAD_OK);
  CHECK(ringload_operation_on_end(load, tell, &told) == RINGLOAD_OK);
  struct pollfd polled = {descriptor, POLLIN, 0};
  CHECK(poll(&polled, 1, 60000) == 1 && polled.revents == POLLIN);
  CHECK(ringload_operation_status(load) == RINGLOAD_OK);
  pthread_mutex_lock(&told.mutex);
  while (told.times == 0) pthread_cond_wait(&told.changed, &told.mutex);
  CHECK(told.times == 1 && told.status == RINGLOAD_OK);
  CHECK(told.status_of_waiting == RINGLOAD_INVALID_ARGUMENT);
  pthread_mutex_unlock(&told.mutex);

  // The result can be had more than once, but only of its own kind.
  ringload_model *one = NULL, *two = NULL;
  CHECK(ringload_operation_model(load, &one) == RINGLOAD_OK);
  CHECK(ringload_operation_model(load, &two) == RINGLOAD_OK);
  ringload_tensor* tensor = NULL;
  CHECK(ringload_operation_tensor(load, &tensor) == RINGLOAD_INVALID_ARGUMENT);
  ringload_operation_release(load);
  ringload_model_release(one);
  CHECK(ringload_model_tensor(two, 0, &tensor) == RINGLOAD_OK && is_whole(tensor));
  ringload_model_release(two);
  CHECK(is_whole(tensor));
  ringload_tensor_release(tensor);
}

// A callback is called, once, also if its operation is released before the end.
struct counted {
  int calls, others;
};

static void count_call(void* context, ringload_status status) {
  struct counted* counted = context;
  if (status != RINGLOAD_OK && status != RINGLOAD_CANCELLED) {
    __atomic_add_fetch(&counted->others, 1, __ATOMIC_SEQ_CST);
  }
  __atomic_add_fetch(&counted->calls, 1, __ATOMIC_SEQ_CST);
}

static void called_after_release(ringload_loader* loader, const ringload_checkpoint* file) {
  struct counted counted = {0, 0};
  for (int i = 1; i <= 20; ++i) {
    ringload_operation* load = NULL;
    CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
    CHECK(ringload_operation_on_end(load, count_call, &counted) == RINGLOAD_OK);
    ringload_operation_release(load);
    while (__atomic_load_n(&counted.calls, __ATOMIC_SEQ_CST) < i) usleep(100);
  }
  CHECK(counted.calls == 20 && counted.others == 0);
}

static void cancelled(ringload_loader* loader, const ringload_checkpoint* file) {
  for (int i = 0; i < 20; ++i) {
    ringload_operation* load = NULL;
    CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
    if (i % 2 == 0) ringload_operation_cancel(load);
    if (i % 4 < 2) {
      const ringload_status status = ringload_operation_wait(load, 60000);
      CHECK(status == RINGLOAD_OK || (i % 2 == 0 && status == RINGLOAD_CANCELLED));
    }
    ringload_operation_release(load);
  }
}

static void filled(ringload_loader* loader, const ringload_checkpoint* file) {
  float* const a = malloc(elements * sizeof *a);
  char b[7] = "-------";
  const uint64_t shape_of_a[] = {rows, columns}, shape_of_b[] = {5};
  ringload_destination into[3] = {RINGLOAD_STRUCT(ringload_destination),
                                  RINGLOAD_STRUCT(ringload_destination),
                                  RINGLOAD_STRUCT(ringload_destination)};
  into[0].name = "a";
  into[0].data = a;
  into[0].shape = shape_of_a;
  into[0].rank = 2;
  into[0].dtype = RINGLOAD_F32;
  into[1].name = "b";
  into[1].data = b + 1;
  into[1].shape = shape_of_b;
  into[1].rank = 1;
  into[1].dtype = RINGLOAD_U8;
  into[2] = into[1];
  into[2].name = "c";
  into[2].data = b;
  into[2].rank = 0;

  CHECK(ringload_fill(loader, file, into, 3, NULL, NULL, NULL) == RINGLOAD_NOT_FOUND);
  SAYS("'c'");
  CHECK(memcmp(b, "-------", 7) == 0);
  CHECK(ringload_fill(loader, file, into, 2, NULL, NULL, NULL) == RINGLOAD_OK);
  CHECK(a[elements - 1] == (float)(elements - 1) && memcmp(b, "-bytes-", 7) == 0);

  ringload_fill_options how = RINGLOAD_STRUCT(ringload_fill_options);
  how.allow_missing = 1;
  ringload_operation* fill = NULL;
  CHECK(ringload_fill_begin(loader, file, into + 1, 2, &how, NULL, NULL, &fill) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(fill, -1) == RINGLOAD_OK);
  const char* name = NULL;
  CHECK(ringload_operation_fill_name(fill, RINGLOAD_FILL_MISSING, 0, &name) == RINGLOAD_OK);
  CHECK(strcmp(name, "c") == 0);
  CHECK(ringload_operation_fill_name(fill, RINGLOAD_FILL_MISSING, 1, &name) == RINGLOAD_END);
  CHECK(ringload_operation_fill_name(fill, RINGLOAD_FILL_UNEXPECTED, 0, &name) == RINGLOAD_OK);
  CHECK(strcmp(name, "a") == 0);
  CHECK(ringload_operation_fill_name(fill, RINGLOAD_FILL_TORN, 0, &name) == RINGLOAD_END);
  ringload_operation_release(fill);

  // The operation of a load has no such list.
  ringload_operation* load = NULL;
  CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(load, -1) == RINGLOAD_OK);
  for (int list = RINGLOAD_FILL_MISSING; list <= RINGLOAD_FILL_TORN; ++list) {
    CHECK(ringload_operation_fill_name(load, (ringload_fill_list)list, 0, &name) ==
          RINGLOAD_INVALID_ARGUMENT);
  }
  ringload_operation_release(load);

  into[0].dtype = RINGLOAD_F64;
  CHECK(ringload_fill(loader, file, into, 1, NULL, NULL, NULL) == RINGLOAD_MISMATCH);
  SAYS("'a'");
  into[0].dtype = RINGLOAD_AS_STORED;
  CHECK(ringload_fill(loader, file, into, 1, NULL, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);
  free(a);
}

static void saved(ringload_loader* loader, const ringload_checkpoint* file, const char* folder) {
  ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
  how.allocation = RINGLOAD_PER_TENSOR;
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_OK);
  ringload_tensor* a = NULL;
  CHECK(ringload_model_find(model, "a", &a) == RINGLOAD_OK);
  ringload_model_release(model);

  char path[4096];
  snprintf(path, sizeof path, "%s/saved.safetensors", folder);
  ringload_saved_tensor these[2] = {RINGLOAD_STRUCT(ringload_saved_tensor),
                                    RINGLOAD_STRUCT(ringload_saved_tensor)};
  const uint64_t shape[] = {5};
  these[0].loaded = a;
  these[1].name = "b";
  these[1].data = "bytes";
  these[1].shape = shape;
  these[1].rank = 1;
  these[1].dtype = RINGLOAD_U8;
  const char* const metadata[] = {"made", "by C"};
  ringload_save_options settings = RINGLOAD_STRUCT(ringload_save_options);
  settings.metadata = metadata;
  settings.metadata_count = 1;
  ringload_operation* save = NULL;
  CHECK(ringload_save_begin(loader, path, these, 2, &settings, &save) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(save, -1) == RINGLOAD_OK);
  const char* written = NULL;
  CHECK(ringload_operation_saved_file(save, 0, &written) == RINGLOAD_OK);
  CHECK(strcmp(written, path) == 0);
  CHECK(ringload_operation_saved_file(save, 1, &written) == RINGLOAD_END);
  ringload_operation_release(save);

  // It is read as it was written, also as views of the file.
  ringload_checkpoint* again = NULL;
  CHECK(ringload_open(loader, path, NULL, &again) == RINGLOAD_OK);
  const char *key = NULL, *value = NULL;
  CHECK(ringload_checkpoint_metadata(again, 0, &key, &value) == RINGLOAD_OK);
  CHECK(strcmp(value, "by C") == 0);
  for (how.mapped = 0; how.mapped < 2; ++how.mapped) {
    CHECK(ringload_load(loader, again, NULL, &how, &model) == RINGLOAD_OK);
    for (size_t i = 0; i < 2; ++i) {
      ringload_tensor* one = NULL;
      CHECK(ringload_model_tensor(model, i, &one) == RINGLOAD_OK && is_whole(one));
      ringload_tensor_release(one);
    }
    ringload_model_release(model);
  }
  ringload_checkpoint_release(again);

  settings.keep_existing = 1;
  CHECK(ringload_save(loader, path, these, 2, &settings) == RINGLOAD_SYSTEM_ERROR);
  settings.keep_existing = 0;
  these[1].name = "a";
  CHECK(ringload_save(loader, path, these, 2, &settings) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("tensor 'a': duplicate tensor name");
  const uint64_t too_large[] = {0, (uint64_t)1 << 63};
  these[1].name = "b";
  these[1].shape = too_large;
  these[1].rank = 2;
  CHECK(ringload_save(loader, path, these, 2, &settings) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("tensor 'b': its shape");
  ringload_tensor_release(a);
  remove(path);
}

static void after_the_loader(const char* path) {
  ringload_loader* loader = NULL;
  CHECK(ringload_loader_create(NULL, NULL, &loader) == RINGLOAD_OK);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  ringload_loading* loading = NULL;
  CHECK(ringload_start(loader, file, NULL, NULL, &loading) == RINGLOAD_OK);
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, NULL, NULL, &model) == RINGLOAD_OK);
  ringload_operation* load = NULL;
  CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
  ringload_loader_release(loader);

  const ringload_status status = ringload_operation_wait(load, 60000);
  CHECK(status == RINGLOAD_OK || status == RINGLOAD_CANCELLED);
  ringload_tensor* tensor = NULL;
  CHECK(ringload_model_find(model, "a", &tensor) == RINGLOAD_OK && is_whole(tensor));
  ringload_tensor_release(tensor);
  CHECK(ringload_loading_tensor(loading, "a", &tensor) != RINGLOAD_PENDING);
  ringload_tensor_release(tensor);
  ringload_operation_release(load);
  ringload_loading_release(loading);
  ringload_model_release(model);
  ringload_checkpoint_release(file);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/interface.safetensors", argv[1]);
  write_checkpoint(path);

  CHECK(ringload_last_error()[0] == 0 && ringload_last_error_place()[0] == 0);
  CHECK(ringload_last_error_name()[0] == 0 && ringload_last_errno() == 0);
  CHECK(ringload_abi_version() == RINGLOAD_C_ABI_VERSION);
  ringload_loader* loader = NULL;
  ringload_loader_options within = RINGLOAD_STRUCT(ringload_loader_options);
  within.slots = 4;
  within.slot_bytes = 256 * 1024;
  CHECK(ringload_loader_create(NULL, &within, &loader) == RINGLOAD_OK);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  if (failures > 0) return 1;

  wrong_calls(loader);
  failed_begins(loader, file);
  a_catalog(file, path);
  a_part(loader, file);
  as_they_land(loader, file);
  through_a_window(loader, file);
  told_and_polled(loader, file);
  cancelled(loader, file);
  called_after_release(loader, file);
  filled(loader, file);
  saved(loader, file, argv[1]);
  further_chapters(loader, file, argv[1], path);
  callbacks_chapter(loader, file);
  ringload_stats stats = RINGLOAD_STRUCT(ringload_stats);
  CHECK(ringload_loader_stats(loader, &stats) == RINGLOAD_OK && stats.engine != 0);
  ringload_checkpoint_release(file);
  ringload_loader_release(loader);
  after_the_loader(path);
  remove(path);
  if (failures > 0) return 1;
  printf("the C interface (ringload %s): all as it should be\n", ringload_version());
  return 0;
}
