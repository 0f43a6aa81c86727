// SPDX-License-Identifier: Apache-2.0

// What a checkpoint contains besides its tensors, several devices, copies, traces, files in memory.
// The text is also compiled as C++.

#include <stdlib.h>
#include <unistd.h>

#include "interface.h"

static const uint64_t matrix_shape[2] = {2, 4};
static const float three_floats[3] = {1, 2, 3};

static ringload_saved_tensor vector_of(const char* name, const void* data, ringload_dtype dtype,
                                       const uint64_t* count) {
  ringload_saved_tensor tensor = RINGLOAD_STRUCT(ringload_saved_tensor);
  tensor.name = name;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.shape = count;
  tensor.rank = 1;
  return tensor;
}

// A sparse matrix with an attribute, a compressed tensor with a digest, and a plain tensor.
static void write_objects(const char* path) {
  static const uint64_t three = 3, indices[3] = {0, 3, 1}, indptr[3] = {0, 2, 3}, thousand = 1000;
  static const float zeros[1000] = {0};
  static const char* const attributes[2] = {"origin", "{\"step\": 7}"};
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_create(path, NULL, &writer) == RINGLOAD_OK);
  ringload_object csr = RINGLOAD_STRUCT(ringload_object);
  csr.name = "sparse";
  csr.layout = "sparse_csr";
  csr.shape = matrix_shape;
  csr.rank = 2;
  csr.attributes = attributes;
  csr.attributes_count = 1;
  CHECK(ringload_writer_declare(writer, &csr) == RINGLOAD_OK);
  const ringload_saved_tensor parts[3] = {vector_of("values", three_floats, RINGLOAD_F32, &three),
                                          vector_of("indices", indices, RINGLOAD_U64, &three),
                                          vector_of("indptr", indptr, RINGLOAD_U64, &three)};
  for (int i = 0; i < 3; ++i) {
    CHECK(ringload_writer_add_part(writer, "sparse", &parts[i], NULL) == RINGLOAD_OK);
  }
  ringload_object_options compressed = RINGLOAD_STRUCT(ringload_object_options);
  compressed.zstd_level = 3;
  compressed.digest = RINGLOAD_DIGEST_CRC32C;
  const ringload_saved_tensor small = vector_of("small", zeros, RINGLOAD_F32, &thousand);
  CHECK(ringload_writer_add(writer, &small, &compressed) == RINGLOAD_OK);
  const ringload_saved_tensor plain = vector_of("plain", three_floats, RINGLOAD_F32, &three);
  CHECK(ringload_writer_add(writer, &plain, NULL) == RINGLOAD_OK);
  CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);
}

static ringload_tensor_info info_of(const ringload_checkpoint* file, const char* name) {
  ringload_tensor_info info = RINGLOAD_STRUCT(ringload_tensor_info);
  size_t position = 0;
  CHECK(ringload_checkpoint_find(file, name, &position) == RINGLOAD_OK);
  CHECK(ringload_checkpoint_tensor(file, position, &info) == RINGLOAD_OK);
  return info;
}

static void places_of_bytes(const ringload_checkpoint* file, const char* path) {
  FILE* const stream = fopen(path, "rb");
  CHECK(stream && fseek(stream, 0, SEEK_END) == 0);
  ringload_file_info whole = RINGLOAD_STRUCT(ringload_file_info);
  CHECK(ringload_checkpoint_file(file, 0, &whole) == RINGLOAD_OK);
  CHECK(strcmp(whole.path, path) == 0 && strcmp(whole.format, "zt") == 0);
  CHECK(whole.bytes == (uint64_t)ftell(stream));
  CHECK(whole.header_bytes > 0);
  CHECK(ringload_checkpoint_file(file, 1, &whole) == RINGLOAD_END);
  CHECK(ringload_checkpoint_file(NULL, 0, &whole) == RINGLOAD_INVALID_ARGUMENT);

  // The bytes of a tensor without encoding are at its offset.
  const ringload_tensor_info plain = info_of(file, "plain");
  float bytes[3] = {0, 0, 0};
  CHECK(plain.encoding[0] == 0 && plain.digest[0] == 0 && plain.file_position == 0);
  CHECK(plain.stored_bytes == sizeof bytes && plain.offset > 0);
  CHECK(fseek(stream, (long)plain.offset, SEEK_SET) == 0);
  CHECK(fread(bytes, sizeof bytes, 1, stream) == 1);
  CHECK(memcmp(bytes, three_floats, sizeof bytes) == 0);
  CHECK(plain.original_rank == 1 && plain.original_shape[0] == 3);

  // The first bytes at the offset of a compressed tensor are the mark of a zstd frame.
  const ringload_tensor_info small = info_of(file, "small");
  CHECK(strcmp(small.encoding, "zstd") == 0 && strncmp(small.digest, "crc32c ", 7) == 0);
  CHECK(small.bytes == 4000 && small.stored_bytes < 200 && strlen(small.digest) == 15);
  CHECK(fseek(stream, (long)small.offset, SEEK_SET) == 0);
  CHECK(fread(bytes, 4, 1, stream) == 1 && memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0);
  fclose(stream);
}

static void objects(ringload_loader* loader, const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/objects.zt", folder);
  write_objects(path);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  places_of_bytes(file, path);

  ringload_object_info object = RINGLOAD_STRUCT(ringload_object_info);
  CHECK(ringload_checkpoint_object(file, 0, &object) == RINGLOAD_OK);
  CHECK(strcmp(object.name, "sparse") == 0 && strcmp(object.layout, "sparse_csr") == 0);
  CHECK(object.rank == 2 && object.shape[0] == 2 && object.shape[1] == 4);
  CHECK(object.parts == 3 && object.file_position == 0 && object.type != NULL);
  CHECK(ringload_checkpoint_object(file, 1, &object) == RINGLOAD_END);
  int found = 0;
  for (size_t i = 0; i < object.parts; ++i) {
    const char* part = NULL;
    size_t position = 99;
    char whole[64];
    ringload_tensor_info info = RINGLOAD_STRUCT(ringload_tensor_info);
    CHECK(ringload_checkpoint_object_part(file, 0, i, &part, &position) == RINGLOAD_OK);
    CHECK(ringload_checkpoint_tensor(file, position, &info) == RINGLOAD_OK);
    snprintf(whole, sizeof whole, "sparse/%s", part);
    CHECK(strcmp(info.name, whole) == 0);
    found += strcmp(part, "values") == 0 || strcmp(part, "indices") == 0;
  }
  CHECK(found == 2);
  const char* part = "x";
  CHECK(ringload_checkpoint_object_part(file, 0, 3, &part, NULL) == RINGLOAD_END && part == NULL);
  CHECK(ringload_checkpoint_object_part(file, 1, 0, &part, NULL) == RINGLOAD_END);
  CHECK(ringload_checkpoint_object_part(file, 0, 0, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);

  ringload_attribute attribute = RINGLOAD_STRUCT(ringload_attribute);
  CHECK(ringload_checkpoint_object_attribute(file, 0, 0, &attribute) == RINGLOAD_OK);
  CHECK(strcmp(attribute.key, "origin") == 0 && !attribute.is_text && attribute.cbor_bytes == 7);
  CHECK(memcmp(attribute.cbor, "\xa1\x64step\x07", 7) == 0 && strstr(attribute.text, "\"step\""));
  CHECK(ringload_checkpoint_object_attribute(file, 0, 1, &attribute) == RINGLOAD_END);
  CHECK(ringload_checkpoint_object_attribute(file, 1, 0, &attribute) == RINGLOAD_END);
  ringload_checkpoint_release(file);
  remove(path);
}

// An encoding that no version knows makes one tensor unreadable. All others can be loaded.
static void unreadable(ringload_loader* loader, const char* folder) {
  char path[4096], bytes[65536];
  snprintf(path, sizeof path, "%s/unreadable.zt", folder);
  write_objects(path);
  FILE* const stream = fopen(path, "r+b");
  const size_t count = fread(bytes, 1, sizeof bytes, stream);
  size_t patched = 0;
  for (size_t i = 0; i + 5 <= count; ++i) {
    if (memcmp(bytes + i, "\x64zstd", 5) == 0) patched = i;
  }
  CHECK(patched > 0 && fseek(stream, (long)patched, SEEK_SET) == 0);
  fwrite("\x64zzzz", 5, 1, stream);
  fclose(stream);

  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  ringload_unreadable_info info = RINGLOAD_STRUCT(ringload_unreadable_info);
  CHECK(ringload_checkpoint_unreadable(file, 0, &info) == RINGLOAD_OK);
  CHECK(info.status == RINGLOAD_UNSUPPORTED && !info.is_left_out && info.file_position == 0);
  CHECK(info.error_name && strcmp(info.error_name, "unsupported_feature") == 0);
  CHECK(info.name && strcmp(info.name, "small") == 0 && strstr(info.place, path));
  CHECK(info.reason && strstr(info.reason, "zzzz"));
  CHECK(ringload_checkpoint_unreadable(file, 1, &info) == RINGLOAD_END);
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, NULL, NULL, &model) == RINGLOAD_UNSUPPORTED);
  ringload_selection* others = NULL;
  CHECK(ringload_selection_create(&others) == RINGLOAD_OK);
  CHECK(ringload_selection_except(others, "small") == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, others, NULL, &model) == RINGLOAD_OK);
  CHECK(ringload_model_size(model) == 4);
  ringload_model_release(model);
  // A fused tensor without parts is refused, not left out.
  CHECK(ringload_selection_fused(others, "empty", NULL, 0, 0) == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, others, NULL, &model) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("tensor 'empty': the fused tensor has no parts");
  ringload_selection_release(others);
  ringload_checkpoint_release(file);
  remove(path);
}

// A NumPy array of bfloat16, whose type has no name, can be read only with a dtype.
static void unnamed_dtype(ringload_loader* loader, const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/nameless.npy", folder);
  FILE* const stream = fopen(path, "wb");
  fprintf(stream, "\x93NUMPY\x01%c\x76%c%-117s\n", 0, 0,
          "{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }");
  fwrite("\x80\x3f\x00\x40", 4, 1, stream);
  fclose(stream);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_UNSUPPORTED);
  ringload_open_options options = RINGLOAD_STRUCT(ringload_open_options);
  options.unnamed_two_bytes = RINGLOAD_BF16;
  CHECK(ringload_open(loader, path, &options, &file) == RINGLOAD_OK);
  CHECK(info_of(file, "nameless").dtype == RINGLOAD_BF16);
  ringload_checkpoint_release(file);
  options.unnamed_two_bytes = (ringload_dtype)99;
  CHECK(ringload_open(loader, path, &options, &file) == RINGLOAD_INVALID_ARGUMENT);
  remove(path);
}

static void notes(ringload_loader* loader, const ringload_checkpoint* whole, const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/notes.safetensors.index.json", folder);
  FILE* const stream = fopen(path, "w");
  fputs(
      "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {\"a\": \"interface.safetensors\", "
      "\"b\": \"interface.safetensors\"}}",
      stream);
  fclose(stream);
  ringload_checkpoint* file = NULL;
  const char* text = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  int found = 0;
  size_t position = 0;
  for (; ringload_checkpoint_note(file, position, &text) == RINGLOAD_OK; ++position) {
    found += strstr(text, "total_size") != NULL;
  }
  CHECK(found == 1 && text == NULL);
  CHECK(ringload_checkpoint_note(file, position, &text) == RINGLOAD_END);
  CHECK(ringload_checkpoint_note(whole, 0, &text) == RINGLOAD_OK && strstr(text, "'a'"));
  CHECK(ringload_checkpoint_note(whole, 1, &text) == RINGLOAD_END && text == NULL);
  CHECK(ringload_checkpoint_note(NULL, 0, &text) == RINGLOAD_INVALID_ARGUMENT);
  ringload_checkpoint_release(file);
  remove(path);
}

static void dtypes(void) {
  CHECK(ringload_dtype_named("BF16") == RINGLOAD_BF16);
  CHECK(ringload_dtype_named("bf16") == RINGLOAD_AS_STORED);
  CHECK(ringload_dtype_named(NULL) == RINGLOAD_AS_STORED);
  CHECK(ringload_dtype_alignment(RINGLOAD_C128) == 16 &&
        ringload_dtype_alignment(RINGLOAD_F4) == 1);
  CHECK(ringload_dtype_alignment(RINGLOAD_AS_STORED) == 0);
  CHECK(ringload_dtype_is_convertible(RINGLOAD_F8_E4M3, RINGLOAD_F32) == 1);
  CHECK(ringload_dtype_is_convertible(RINGLOAD_I8, RINGLOAD_F32) == 0);
  CHECK(ringload_dtype_is_convertible(RINGLOAD_F16, (ringload_dtype)99) == 0);
}

// --- Several devices. The host is listed twice, so that the test needs no GPU.

static void placed(ringload_loader* loader, const ringload_checkpoint* file) {
  ringload_selection* selection = NULL;
  ringload_model* model = NULL;
  ringload_tensor* tensor = NULL;
  CHECK(ringload_selection_create(&selection) == RINGLOAD_OK);
  CHECK(ringload_selection_on(selection, "*", RINGLOAD_ALL_DEVICES) == RINGLOAD_OK);
  CHECK(ringload_selection_shard_by_device(selection, "a", 0) == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, selection, NULL, &model) == RINGLOAD_OK);
  CHECK(ringload_model_size(model) == 4);
  for (uint32_t device = 0; device < 2; ++device) {
    ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
    CHECK(ringload_model_find_on(model, "b", device, &tensor) == RINGLOAD_OK && is_whole(tensor));
    ringload_tensor_release(tensor);
    CHECK(ringload_model_find_on(model, "a", device, &tensor) == RINGLOAD_OK);
    CHECK(ringload_tensor_look(tensor, &view) == RINGLOAD_OK && view.device_position == device);
    CHECK(view.shape[0] == rows / 2 && view.shape[1] == columns && !view.read_only);
    CHECK(*(const float*)view.data == (float)(device * (elements / 2)));
    ringload_tensor_release(tensor);
  }
  CHECK(ringload_model_find_on(model, "a", 2, &tensor) == RINGLOAD_NOT_FOUND && tensor == NULL);
  ringload_model_release(model);

  CHECK(ringload_selection_on(selection, "a", 2) == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, selection, NULL, &model) == RINGLOAD_INVALID_ARGUMENT);
  ringload_selection_release(selection);

  // 'a' is read first, so 'b' is placed on the second device.
  CHECK(ringload_selection_create(&selection) == RINGLOAD_OK);
  CHECK(ringload_selection_spread(selection, "*") == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, selection, NULL, &model) == RINGLOAD_OK);
  CHECK(ringload_model_find_on(model, "b", 0, &tensor) == RINGLOAD_NOT_FOUND);
  CHECK(ringload_model_find_on(model, "b", 1, &tensor) == RINGLOAD_OK && is_whole(tensor));
  ringload_tensor_release(tensor);
  ringload_model_release(model);
  ringload_selection_release(selection);
  CHECK(ringload_selection_on(NULL, "*", 0) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_selection_spread(NULL, "*") == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_selection_shard_by_device(NULL, "*", 0) == RINGLOAD_INVALID_ARGUMENT);
}

static void several_devices(const ringload_checkpoint* file) {
  ringload_device* host = NULL;
  CHECK(ringload_host_device(&host) == RINGLOAD_OK);
  // A missing output pointer is an error, and leaks nothing.
  CHECK(ringload_host_device(NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_shared_host_device(NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_selection_create(NULL) == RINGLOAD_INVALID_ARGUMENT);
  const ringload_device* const devices[2] = {host, NULL};
  ringload_loader* loader = NULL;
  CHECK(ringload_loader_create_on(devices, 0, NULL, NULL, 0, &loader) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_loader_create_on(NULL, 2, NULL, NULL, 0, &loader) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_loader_create_on(devices, 2, NULL, NULL, 1, &loader) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(loader == NULL && ringload_loader_device_count(loader) == 0);
  CHECK(ringload_loader_create_on(devices, 2, NULL, NULL, 0, &loader) == RINGLOAD_OK);
  CHECK(ringload_loader_device_count(loader) == 2);
  placed(loader, file);

  char memory[5] = {0};
  const uint64_t five = 5;
  ringload_destination into = RINGLOAD_STRUCT(ringload_destination);
  into.name = "b";
  into.data = memory;
  into.shape = &five;
  into.rank = 1;
  into.dtype = RINGLOAD_U8;
  into.device = host;
  CHECK(ringload_fill(loader, file, &into, 1, NULL, NULL, NULL) == RINGLOAD_OK);
  CHECK(memcmp(memory, "bytes", 5) == 0);
  ringload_loader_release(loader);
  ringload_device_release(host);
}

// --- Copies

static void copied(ringload_loader* loader, const ringload_checkpoint* file) {
  ringload_model* model = NULL;
  ringload_tensor *a = NULL, *copy = NULL;
  CHECK(ringload_load(loader, file, NULL, NULL, &model) == RINGLOAD_OK);
  CHECK(ringload_model_find(model, "a", &a) == RINGLOAD_OK);
  CHECK(ringload_tensor_to_dlpack(a, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_tensor_to_legacy_dlpack(a, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_tensor_copy(loader, a, NULL, &copy) == RINGLOAD_OK && is_whole(copy));
  ringload_tensor_view original = RINGLOAD_STRUCT(ringload_tensor_view), view = original;
  CHECK(ringload_tensor_look(a, &original) == RINGLOAD_OK);
  CHECK(ringload_tensor_look(copy, &view) == RINGLOAD_OK && view.data != original.data);
  ringload_tensor_release(copy);

  ringload_device* host = NULL;
  CHECK(ringload_host_device(&host) == RINGLOAD_OK);
  ringload_tensor_copy_options options = RINGLOAD_STRUCT(ringload_tensor_copy_options);
  options.device = host;
  options.dtype = RINGLOAD_F16;
  ringload_operation* operation = NULL;
  CHECK(ringload_tensor_copy_begin(loader, a, &options, &operation) == RINGLOAD_OK);
  ringload_device_release(host);
  ringload_tensor_release(a);
  ringload_model_release(model);
  CHECK(ringload_operation_wait(operation, -1) == RINGLOAD_OK);
  CHECK(ringload_operation_tensor(operation, &copy) == RINGLOAD_OK);
  ringload_operation_release(operation);
  CHECK(ringload_tensor_look(copy, &view) == RINGLOAD_OK && view.dtype == RINGLOAD_F16);
  CHECK(strcmp(view.name, "a") == 0 && view.bytes == elements * 2);
  CHECK(((const uint16_t*)view.data)[2048] == 0x6800);  // 2048 as f16.

  options.device = NULL;
  options.dtype = RINGLOAD_F4;
  a = copy;
  CHECK(ringload_tensor_copy(loader, a, &options, &copy) == RINGLOAD_UNSUPPORTED && copy == NULL);
  options.dtype = (ringload_dtype)99;
  CHECK(ringload_tensor_copy(loader, a, &options, &copy) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_tensor_copy(loader, NULL, NULL, &copy) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_tensor_copy(NULL, a, NULL, &copy) == RINGLOAD_INVALID_ARGUMENT);
  ringload_tensor_release(a);
}

// --- Traces

struct seen_steps {
  int steps[8];
  int wrong;
  uint64_t landed_bytes;
};

static void see_step(void* context, const ringload_trace_event* event) {
  struct seen_steps* const seen = (struct seen_steps*)context;
  const int in_order = event->asked <= event->begin && event->begin <= event->end;
  if (event->step > RINGLOAD_STEP_HANDED_OUT || event->asked <= 0 || !in_order) {
    ++seen->wrong;
    return;
  }
  ++seen->steps[event->step];
  if (event->step == RINGLOAD_STEP_READ && event->bytes == 0) ++seen->wrong;
  if (event->step != RINGLOAD_STEP_LANDED) return;
  seen->landed_bytes += event->bytes;
  if (strcmp(event->tensor, "a") != 0 && strcmp(event->tensor, "b") != 0) ++seen->wrong;
  if (event->slot != RINGLOAD_STEP_NONE || event->stream != RINGLOAD_STEP_NONE) ++seen->wrong;
}

static void traced(ringload_loader* loader, const ringload_checkpoint* file) {
  struct seen_steps seen;
  memset(&seen, 0, sizeof seen);
  ringload_trace trace = RINGLOAD_STRUCT(ringload_trace);
  trace.report = see_step;
  trace.context = &seen;
  ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
  options.trace = &trace;
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_OK);
  ringload_model_release(model);
  CHECK(seen.wrong == 0 && seen.steps[RINGLOAD_STEP_PLANNED] == 1);
  CHECK(seen.steps[RINGLOAD_STEP_READ] > 0 && seen.steps[RINGLOAD_STEP_LANDED] == 2);
  CHECK(seen.steps[RINGLOAD_STEP_HANDED_OUT] == 1 && seen.landed_bytes == elements * 4 + 5);

  trace.struct_bytes = 8;
  CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_INVALID_ARGUMENT);
  trace.struct_bytes = sizeof trace;
  trace.report = NULL;
  CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("trace function");
  CHECK(strcmp(ringload_step_name(RINGLOAD_STEP_READ), "read") == 0);
  CHECK(strcmp(ringload_step_name((ringload_step)8), "unknown") == 0);
}

static void mapped(ringload_loader* loader, const ringload_checkpoint* file) {
  ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
  options.mapped = 1;
  options.load_unmappable = 1;
  options.populate = 1;
  for (options.copy_on_write = 0; options.copy_on_write < 2; ++options.copy_on_write) {
    ringload_model* model = NULL;
    ringload_tensor* b = NULL;
    ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
    CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_OK);
    CHECK(ringload_model_find(model, "b", &b) == RINGLOAD_OK && is_whole(b));
    CHECK(ringload_tensor_look(b, &view) == RINGLOAD_OK && view.read_only != options.copy_on_write);
    if (options.copy_on_write) *(char*)view.data = 'B';
    ringload_tensor_release(b);
    ringload_model_release(model);
  }
}

// --- Files in memory

static void count_release(void* context) { __atomic_fetch_add((int*)context, 1, __ATOMIC_RELAXED); }

static void in_memory(const char* path) {
  FILE* const stream = fopen(path, "rb");
  char* const bytes = (char*)malloc(elements * 4 + 4096);
  const size_t count = fread(bytes, 1, elements * 4 + 4096, stream);
  fclose(stream);
  int released[4] = {0, 0, 0, 0};
  ringload_loader* loader = NULL;
  ringload_checkpoint* file = NULL;
  ringload_model* model = NULL;
  ringload_tensor* a = NULL;
  CHECK(ringload_loader_create(NULL, NULL, &loader) == RINGLOAD_OK);
  CHECK(ringload_open_memory(loader, bytes, count, "m.safetensors", count_release, &released[0],
                             NULL, &file) == RINGLOAD_OK);
  ringload_file_info info = RINGLOAD_STRUCT(ringload_file_info);
  CHECK(ringload_checkpoint_file(file, 0, &info) == RINGLOAD_OK && info.bytes == count);
  CHECK(strcmp(info.path, "m.safetensors") == 0);
  CHECK(ringload_load(loader, file, NULL, NULL, &model) == RINGLOAD_OK);
  CHECK(ringload_model_find(model, "a", &a) == RINGLOAD_OK && is_whole(a));
  ringload_tensor_release(a);
  ringload_model_release(model);
  CHECK(released[0] == 0);
  ringload_checkpoint_release(file);

  // The memory is released after each failure, too.
  CHECK(ringload_open_memory(loader, bytes, 100, "m.safetensors", count_release, &released[1], NULL,
                             &file) == RINGLOAD_INVALID_FILE);
  SAYS("m.safetensors");
  CHECK(file == NULL);
  CHECK(ringload_open_memory(loader, NULL, 100, "m.safetensors", count_release, &released[2], NULL,
                             &file) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_open_memory(NULL, bytes, count, "m.safetensors", count_release, &released[3], NULL,
                             &file) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_open_memory(loader, bytes, count, NULL, NULL, NULL, NULL, &file) ==
        RINGLOAD_INVALID_ARGUMENT);
  ringload_operation* operation = NULL;
  CHECK(ringload_open_memory_begin(loader, bytes, count, "m.safetensors", NULL, NULL, NULL,
                                   &operation) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(operation, -1) == RINGLOAD_OK);
  CHECK(ringload_operation_checkpoint(operation, &file) == RINGLOAD_OK);
  ringload_operation_release(operation);
  CHECK(ringload_checkpoint_size(file) == 2);
  ringload_checkpoint_release(file);
  ringload_loader_release(loader);
  for (int i = 0; i < 4; ++i) CHECK(__atomic_load_n(&released[i], __ATOMIC_RELAXED) == 1);
  free(bytes);
}

void catalog_chapter(ringload_loader* loader, const ringload_checkpoint* file, const char* folder,
                     const char* path) {
  objects(loader, folder);
  unreadable(loader, folder);
  unnamed_dtype(loader, folder);
  notes(loader, file, folder);
  dtypes();
  several_devices(file);
  copied(loader, file);
  traced(loader, file);
  mapped(loader, file);
  in_memory(path);
}
