// SPDX-License-Identifier: Apache-2.0

// The writer: .zt files of C programs.

#include <stdlib.h>
#include <unistd.h>

#include "interface.h"

static const uint64_t three[1] = {3};
static const float floats[3] = {1, 2, 3}, others[3] = {4, 5, 6};
static const char* const decay[2] = {"decay", "[0.1, \"late\"]"};

static ringload_saved_tensor vector_of(const char* name, const void* data, ringload_dtype dtype) {
  ringload_saved_tensor one = RINGLOAD_STRUCT(ringload_saved_tensor);
  one.name = name;
  one.data = data;
  one.dtype = dtype;
  one.shape = three;
  one.rank = 1;
  return one;
}

static ringload_tensor* loaded(ringload_loader* loader, const char* path, const char* name) {
  ringload_checkpoint* file = NULL;
  ringload_model* model = NULL;
  ringload_tensor* tensor = NULL;
  ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
  how.embedded_digests = RINGLOAD_DIGESTS_IF_PRESENT;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_OK);
  ringload_model_find(model, name, &tensor);
  ringload_model_release(model);
  ringload_checkpoint_release(file);
  return tensor;
}

static int holds(ringload_loader* loader, const char* path, const char* name, const float* wanted) {
  ringload_tensor* const tensor = loaded(loader, path, name);
  ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
  const int good = tensor && ringload_tensor_look(tensor, &view) == RINGLOAD_OK &&
                   view.dtype == RINGLOAD_F32 && view.bytes == sizeof floats &&
                   memcmp(view.data, wanted, sizeof floats) == 0;
  ringload_tensor_release(tensor);
  return good;
}

// A dense tensor, compressed and hashed; a sparse one; a second name; attributes.
static void written(ringload_loader* loader, const ringload_tensor* a, const char* path) {
  ringload_writer_options settings = RINGLOAD_STRUCT(ringload_writer_options);
  settings.result_digest = RINGLOAD_DIGEST_CRC32C;
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_create(path, &settings, &writer) == RINGLOAD_OK);
  ringload_object_options how = RINGLOAD_STRUCT(ringload_object_options);
  how.zstd_level = 3;
  how.digest = RINGLOAD_DIGEST_CRC32C;
  how.attributes = decay;
  how.attributes_count = 1;
  ringload_saved_tensor first = RINGLOAD_STRUCT(ringload_saved_tensor);
  first.loaded = a;
  CHECK(ringload_writer_add(writer, &first, &how) == RINGLOAD_OK);

  const uint64_t shape[2] = {2, 4}, indices[3] = {0, 3, 1}, indptr[3] = {0, 2, 3};
  ringload_object csr = RINGLOAD_STRUCT(ringload_object);
  csr.name = "s";
  csr.layout = "sparse_csr";
  csr.shape = shape;
  csr.rank = 2;
  CHECK(ringload_writer_declare(writer, &csr) == RINGLOAD_OK);
  const ringload_saved_tensor parts[3] = {vector_of("values", floats, RINGLOAD_F32),
                                          vector_of("indices", indices, RINGLOAD_U64),
                                          vector_of("indptr", indptr, RINGLOAD_U64)};
  ringload_operation* begun[3] = {NULL, NULL, NULL};
  for (int i = 0; i < 3; ++i) {
    CHECK(ringload_writer_add_part_begin(writer, "s", &parts[i], NULL, &begun[i]) == RINGLOAD_OK);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(ringload_operation_wait(begun[i], -1) == RINGLOAD_OK);
    ringload_operation_release(begun[i]);
  }
  CHECK(ringload_writer_add_alias(writer, "again", "a") == RINGLOAD_OK);
  CHECK(ringload_writer_set_attribute(writer, "model", "\"tiny\"") == RINGLOAD_OK);

  CHECK(access(path, F_OK) != 0);
  ringload_operation* finish = NULL;
  CHECK(ringload_writer_finish_begin(writer, &finish) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(finish, -1) == RINGLOAD_OK);
  const char* text = NULL;
  CHECK(ringload_operation_saved_checksums(finish, &text) == RINGLOAD_OK);
  CHECK(text && strstr(text, "  a\n") && strstr(text, "  s/values\n"));
  ringload_operation_release(finish);
  ringload_writer_release(writer);

  ringload_tensor* const read = loaded(loader, path, "a");
  CHECK(read && is_whole(read));
  ringload_tensor_release(read);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  const char *key = NULL, *value = NULL;
  CHECK(ringload_checkpoint_metadata(file, 0, &key, &value) == RINGLOAD_OK);
  CHECK(strcmp(key, "model") == 0 && strcmp(value, "tiny") == 0);
  ringload_attribute typed = {0};
  typed.struct_bytes = sizeof typed;
  CHECK(ringload_checkpoint_attribute(file, 0, &typed) == RINGLOAD_OK);
  CHECK(strcmp(typed.key, "model") == 0 && strcmp(typed.text, "tiny") == 0 && typed.is_text);
  CHECK(typed.cbor_bytes == 5 && memcmp(typed.cbor, "\x64tiny", 5) == 0);
  CHECK(ringload_checkpoint_attribute(file, 99, &typed) == RINGLOAD_END);
  size_t at = 0;
  CHECK(ringload_checkpoint_find(file, "again", &at) == RINGLOAD_OK);
  CHECK(ringload_checkpoint_tensor_attribute(file, at, 99, &typed) == RINGLOAD_END);
  ringload_checkpoint_release(file);
}

// Bytes and NaN, which JSON does not have, are written, read, and written again as they were read.
static void typed(ringload_loader* loader, const char* path) {
  const char* const encoded[2] = {"\x42\x01\x00", "\xfb\x7f\xf8\0\0\0\0\0\0"};
  const size_t lengths[2] = {3, 9};
  ringload_attribute values[2] = {RINGLOAD_STRUCT(ringload_attribute),
                                  RINGLOAD_STRUCT(ringload_attribute)};
  const ringload_attribute* const both[2] = {&values[0], &values[1]};
  for (int i = 0; i < 2; ++i) {
    values[i].key = i == 0 ? "bytes" : "nan";
    values[i].cbor = encoded[i];
    values[i].cbor_bytes = lengths[i];
  }
  ringload_checkpoint* file = NULL;
  for (int round = 0; round < 2; ++round) {
    ringload_writer* writer = NULL;
    CHECK(ringload_writer_create(path, NULL, &writer) == RINGLOAD_OK);
    ringload_object_options how = RINGLOAD_STRUCT(ringload_object_options);
    how.typed_attributes = both;
    how.typed_attributes_count = 2;
    const ringload_saved_tensor v = vector_of("v", floats, RINGLOAD_F32);
    CHECK(ringload_writer_add(writer, &v, &how) == RINGLOAD_OK);
    CHECK(ringload_writer_set_typed_attribute(writer, &values[0]) == RINGLOAD_OK);
    ringload_attribute wrong = values[0];
    wrong.cbor_bytes = 2;
    CHECK(ringload_writer_set_typed_attribute(writer, &wrong) == RINGLOAD_INVALID_ARGUMENT);
    SAYS("'bytes'");
    wrong.cbor = NULL;
    CHECK(ringload_writer_set_typed_attribute(writer, &wrong) == RINGLOAD_INVALID_ARGUMENT);
    CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
    ringload_writer_release(writer);
    ringload_checkpoint_release(file);

    CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
    ringload_attribute found = RINGLOAD_STRUCT(ringload_attribute);
    CHECK(ringload_checkpoint_attribute(file, 0, &found) == RINGLOAD_OK);
    CHECK(found.cbor_bytes == 3 && memcmp(found.cbor, encoded[0], 3) == 0);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(ringload_checkpoint_tensor_attribute(file, 0, i, &values[i]) == RINGLOAD_OK);
      CHECK(values[i].cbor_bytes == lengths[i]);
      CHECK(memcmp(values[i].cbor, encoded[i], lengths[i]) == 0);
    }
  }
  ringload_checkpoint_release(file);
}

// A text of a file can contain a 0 byte. The lengths of an attribute count the bytes after it.
static void zero_bytes(ringload_loader* loader, const char* path) {
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_create(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_set_attribute(writer, "text", "\"a\\u0000bc\"") == RINGLOAD_OK);
  CHECK(ringload_writer_set_attribute(writer, "number", "12") == RINGLOAD_OK);
  CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  ringload_attribute found = RINGLOAD_STRUCT(ringload_attribute);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(ringload_checkpoint_attribute(file, i, &found) == RINGLOAD_OK);
    const int is_text = strcmp(found.key, "text") == 0;
    CHECK(found.key_bytes == (is_text ? 4u : 6u) && found.text_bytes == (is_text ? 4u : 2u));
    CHECK(memcmp(found.text, is_text ? "a\0bc" : "12", found.text_bytes + 1) == 0);
  }
  // A program with an earlier version of the struct receives the earlier members only.
  ringload_attribute early = RINGLOAD_STRUCT(ringload_attribute);
  early.struct_bytes = offsetof(ringload_attribute, key_bytes);
  CHECK(ringload_checkpoint_attribute(file, 0, &early) == RINGLOAD_OK);
  CHECK(early.key_bytes == 0 && early.text_bytes == 0 && early.text != NULL);

  CHECK(ringload_writer_create(NULL, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_set_typed_attribute(writer, &found) == RINGLOAD_OK);
  CHECK(ringload_writer_set_typed_attribute(writer, &early) == RINGLOAD_OK);
  found.key_bytes = strlen(found.key) + 1;
  CHECK(ringload_writer_set_typed_attribute(writer, &found) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("key_bytes");
  ringload_writer_release(writer);
  ringload_checkpoint_release(file);
}

// What is there is added to, replaced and taken away.
static void changed(ringload_loader* loader, const char* path) {
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_append(path, NULL, &writer) == RINGLOAD_OK);
  const ringload_saved_tensor added = vector_of("v", floats, RINGLOAD_F32);
  CHECK(ringload_writer_add(writer, &added, NULL) == RINGLOAD_OK);
  uint64_t bytes = 0;
  CHECK(ringload_writer_finish(writer, &bytes) == RINGLOAD_OK && bytes > sizeof floats);
  ringload_writer_release(writer);
  CHECK(holds(loader, path, "v", floats));

  CHECK(ringload_writer_append(path, NULL, &writer) == RINGLOAD_OK);
  const ringload_saved_tensor by = vector_of("v", others, RINGLOAD_F32);
  CHECK(ringload_writer_replace(writer, &by) == RINGLOAD_OK);
  CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);
  CHECK(holds(loader, path, "v", others));

  const char* const gone[2] = {"again", "s"};
  ringload_copy_options how = RINGLOAD_STRUCT(ringload_copy_options);
  how.without = gone;
  how.without_count = 2;
  CHECK(ringload_writer_create(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_copy(writer, path, &how) == RINGLOAD_OK);
  CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);
  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  CHECK(ringload_checkpoint_size(file) == 2);
  ringload_checkpoint_release(file);
  CHECK(holds(loader, path, "v", others));
}

// Writes a .zt file with the tensors 'v' and 'w', and replaces bytes of the file. The last
// occurrence of `bytes` is replaced.
static void write_damaged(const char* path, const void* bytes, const void* replacement,
                          size_t count) {
  ringload_writer* writer = NULL;
  ringload_operation* finish = NULL;
  ringload_written done = RINGLOAD_STRUCT(ringload_written);
  ringload_object_options how = RINGLOAD_STRUCT(ringload_object_options);
  how.digest = RINGLOAD_DIGEST_CRC32C;
  const ringload_saved_tensor v = vector_of("v", floats, RINGLOAD_F32);
  const ringload_saved_tensor w = vector_of("w", others, RINGLOAD_F32);
  CHECK(ringload_writer_create(NULL, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &v, &how) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &w, &how) == RINGLOAD_OK);
  CHECK(ringload_writer_finish_begin(writer, &finish) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(finish, -1) == RINGLOAD_OK);
  CHECK(ringload_operation_written(finish, &done) == RINGLOAD_OK);
  ringload_writer_release(writer);
  char file[4096];
  const size_t size = (size_t)done.bytes;
  CHECK(done.file && size >= count && size <= sizeof file);
  if (!done.file || size < count || size > sizeof file) exit(2);
  memcpy(file, done.file, size);
  ringload_operation_release(finish);
  size_t begin = size - count;
  while (begin > 0 && memcmp(file + begin, bytes, count) != 0) --begin;
  CHECK(begin > 0);
  memcpy(file + begin, replacement, count);
  FILE* const stream = fopen(path, "wb");
  CHECK(stream && fwrite(file, 1, size, stream) == size);
  CHECK(stream && fclose(stream) == 0);
}

// An index that repeats a name is the fault of the file, although a repeated name of the caller is
// an invalid argument.
static void repeated_name_in_file(const char* path) {
  write_damaged(path, "\x61w\xa3", "\x61v\xa3", 3);
  const ringload_saved_tensor x = vector_of("x", floats, RINGLOAD_F32);
  const ringload_saved_tensor not_utf8 = vector_of("\xff", floats, RINGLOAD_F32);
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_append(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &x, NULL) == RINGLOAD_INVALID_FILE);
  SAYS("duplicate tensor 'v'");
  CHECK(strcmp(ringload_last_error_name(), "malformed_header") == 0);
  ringload_writer_release(writer);

  CHECK(ringload_writer_create(NULL, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_copy(writer, path, NULL) == RINGLOAD_INVALID_FILE);
  SAYS("duplicate tensor 'v'");
  // The refused copy does not change the statuses of later steps.
  CHECK(ringload_writer_add(writer, &not_utf8, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_writer_add(writer, &x, NULL) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &x, NULL) == RINGLOAD_INVALID_ARGUMENT);
  ringload_writer_release(writer);
}

// A copy that fails after a change of the new file ends the writer. Later steps report the same
// failure, which is still the fault of the copied file.
static void wrong_digest_in_file(const char* path) {
  write_damaged(path, others, floats, sizeof others);
  const ringload_saved_tensor x = vector_of("x", floats, RINGLOAD_F32);
  ringload_copy_options how = RINGLOAD_STRUCT(ringload_copy_options);
  how.encode_anew = 1;
  how.zstd_level = 3;
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_create(NULL, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_copy(writer, path, &how) == RINGLOAD_INVALID_FILE);
  CHECK(strcmp(ringload_last_error_name(), "wrong_digest") == 0);
  CHECK(ringload_writer_add(writer, &x, NULL) == RINGLOAD_INVALID_FILE);
  CHECK(strcmp(ringload_last_error_name(), "wrong_digest") == 0);
  ringload_writer_release(writer);
}

// A file that is no .zt file is an invalid file, although the step has valid arguments.
static void appended_to_other_format(const char* path) {
  FILE* const stream = fopen(path, "wb");
  CHECK(stream && fwrite("not a .zt file, but long enough", 1, 31, stream) == 31);
  CHECK(stream && fclose(stream) == 0);
  const ringload_saved_tensor v = vector_of("v", floats, RINGLOAD_F32);
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_append(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &v, NULL) == RINGLOAD_INVALID_FILE);
  ringload_writer_release(writer);
  CHECK(ringload_writer_create(NULL, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_copy(writer, path, NULL) == RINGLOAD_INVALID_FILE);
  ringload_writer_release(writer);
  repeated_name_in_file(path);
  wrong_digest_in_file(path);
  remove(path);
}

// Whatever goes wrong, the file is what it was.
static void refused(ringload_loader* loader, const char* path) {
  ringload_writer* writer = NULL;
  const ringload_saved_tensor v = vector_of("v", floats, RINGLOAD_F32);
  ringload_saved_tensor wrong = vector_of("v", floats, RINGLOAD_I32);
  CHECK(ringload_writer_append(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_replace(writer, &wrong) == RINGLOAD_MISMATCH);
  SAYS("'v'");
  CHECK(ringload_writer_replace(writer, &v) == RINGLOAD_OK);  // A refused step ends nothing.
  ringload_writer_release(writer);

  CHECK(ringload_writer_append(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &v, NULL) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("'v'");
  CHECK(strcmp(ringload_last_error_name(), "duplicate_tensor") == 0);
  const ringload_saved_tensor not_utf8 = vector_of("\xff", floats, RINGLOAD_F32);
  CHECK(ringload_writer_add(writer, &not_utf8, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);

  // Released before it has finished: nothing of it is there.
  CHECK(ringload_writer_create(path, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &v, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);
  CHECK(holds(loader, path, "v", others));

  ringload_writer_options settings = RINGLOAD_STRUCT(ringload_writer_options);
  settings.keep_existing = 1;
  CHECK(ringload_writer_create(path, &settings, &writer) == RINGLOAD_SYSTEM_ERROR && !writer);
  settings.keep_existing = 0;
  settings.alignment = 100;
  CHECK(ringload_writer_create(path, &settings, &writer) == RINGLOAD_INVALID_ARGUMENT && !writer);
  settings.alignment = 0;
  settings.result_digest = (ringload_digest)7;
  CHECK(ringload_writer_create(path, &settings, &writer) == RINGLOAD_INVALID_ARGUMENT && !writer);
  CHECK(ringload_writer_create(path, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_writer_append(NULL, NULL, &writer) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_writer_add(NULL, &v, NULL) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("the writer is null");
  ringload_writer_release(NULL);
}

// A file in memory; and calls that are wrong, which end no writer.
static void in_memory(ringload_loader* loader, const char* path) {
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_create(NULL, NULL, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_writer_set_attribute(writer, "x", "{") == RINGLOAD_INVALID_ARGUMENT);
  SAYS("attribute 'x': ");
  const ringload_saved_tensor v = vector_of("v", floats, RINGLOAD_F32);
  ringload_object_options how = RINGLOAD_STRUCT(ringload_object_options);
  how.attributes_count = 1;
  CHECK(ringload_writer_add(writer, &v, &how) == RINGLOAD_INVALID_ARGUMENT);
  const char* const repeated[] = {"key", "1", "key", "2"};
  how.attributes = repeated;
  how.attributes_count = 2;
  CHECK(ringload_writer_add(writer, &v, &how) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("'key'");
  how.attributes = NULL;
  REFUSES_TO_BEGIN(ringload_writer_add_begin(NULL, &v, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_writer_add_begin(writer, &v, &how, &operation));
  REFUSES_TO_BEGIN(ringload_writer_add_part_begin(writer, NULL, &v, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_writer_declare_begin(writer, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_writer_add_alias_begin(writer, NULL, "v", &operation));
  REFUSES_TO_BEGIN(ringload_writer_copy_begin(writer, NULL, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_writer_replace_begin(writer, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_writer_set_attribute_begin(writer, NULL, "1", &operation));
  REFUSES_TO_BEGIN(ringload_writer_set_typed_attribute_begin(writer, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_writer_finish_begin(NULL, &operation));
  CHECK(ringload_writer_add(writer, &v, NULL) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &v, NULL) == RINGLOAD_INVALID_ARGUMENT);
  const ringload_saved_tensor not_utf8 = vector_of("\xff", floats, RINGLOAD_F32);
  CHECK(ringload_writer_add(writer, &not_utf8, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_writer_add_alias(writer, "v", "v") == RINGLOAD_INVALID_ARGUMENT);

  ringload_operation* finish = NULL;
  ringload_written done = RINGLOAD_STRUCT(ringload_written);
  CHECK(ringload_writer_finish_begin(writer, &finish) == RINGLOAD_OK);
  CHECK(ringload_operation_wait(finish, -1) == RINGLOAD_OK);
  CHECK(ringload_operation_written(finish, &done) == RINGLOAD_OK);
  ringload_writer_release(writer);
  FILE* const file = fopen(path, "wb");
  if (!file || !done.file) {
    CHECK(file && done.file);
    exit(2);
  }
  CHECK(fwrite(done.file, 1, done.bytes, file) == done.bytes && fclose(file) == 0);
  ringload_operation_release(finish);
  CHECK(holds(loader, path, "v", floats));
}

void writer_chapter(ringload_loader* loader, const ringload_checkpoint* checkpoint,
                    const char* folder) {
  ringload_model* model = NULL;
  ringload_tensor* a = NULL;
  CHECK(ringload_load(loader, checkpoint, NULL, NULL, &model) == RINGLOAD_OK);
  CHECK(ringload_model_find(model, "a", &a) == RINGLOAD_OK);
  ringload_model_release(model);
  char path[4096];
  snprintf(path, sizeof path, "%s/writer.zt", folder);
  remove(path);
  written(loader, a, path);
  ringload_tensor_release(a);
  changed(loader, path);
  refused(loader, path);
  in_memory(loader, path);
  typed(loader, path);
  zero_bytes(loader, path);
  appended_to_other_format(path);
  remove(path);
}
