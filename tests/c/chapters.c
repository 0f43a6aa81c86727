// SPDX-License-Identifier: Apache-2.0

// What is beyond loads and saves: checksum lists, keepers, extensions.

#include <errno.h>
#include <ringload/c_hdf5.h>
#include <ringload/c_remote.h>
#include <stdlib.h>

#include "interface.h"

// A checksum in the place of SHA-256, which only has to be the same each time.
struct summed {
  int* left;
  unsigned char sum;
};
static void* sum_begin(void* context) {
  struct summed* state = malloc(sizeof *state);
  state->left = context;
  state->sum = 0;
  __atomic_fetch_add(state->left, 1, __ATOMIC_RELAXED);
  return state;
}
static void sum_update(void* state, const void* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ((struct summed*)state)->sum += ((const unsigned char*)bytes)[i];
  }
}
static void sum_finish(void* state, unsigned char* digest) {
  memset(digest, ((struct summed*)state)->sum, 32);
}
static void sum_release(void* state) {
  __atomic_fetch_sub(((struct summed*)state)->left, 1, __ATOMIC_RELAXED);
  free(state);
}

// A .zt file stores a SHA-256 digest. A load verifies the digest with the functions of the caller.
static void stored_digest(ringload_loader* loader, const ringload_sha256* sum, const int* states,
                          const char* folder) {
  static const uint64_t five = 5;
  char path[4096];
  snprintf(path, sizeof path, "%s/digest.zt", folder);
  ringload_saved_tensor tensor = RINGLOAD_STRUCT(ringload_saved_tensor);
  tensor.name = "b";
  tensor.data = (void*)"bytes";
  tensor.dtype = RINGLOAD_U8;
  tensor.shape = &five;
  tensor.rank = 1;
  ringload_writer_options settings = RINGLOAD_STRUCT(ringload_writer_options);
  settings.sha256 = sum;
  ringload_object_options object = RINGLOAD_STRUCT(ringload_object_options);
  object.digest = RINGLOAD_DIGEST_SHA256;
  ringload_writer* writer = NULL;
  CHECK(ringload_writer_create(path, &settings, &writer) == RINGLOAD_OK);
  CHECK(ringload_writer_add(writer, &tensor, &object) == RINGLOAD_OK);
  CHECK(ringload_writer_finish(writer, NULL) == RINGLOAD_OK);
  ringload_writer_release(writer);

  ringload_checkpoint* file = NULL;
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  ringload_tensor_info info = RINGLOAD_STRUCT(ringload_tensor_info);
  CHECK(ringload_checkpoint_tensor(file, 0, &info) == RINGLOAD_OK);
  CHECK(strncmp(info.digest, "sha256 2727", 11) == 0 && strlen(info.digest) == 7 + 64);
  ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
  ringload_model* model = NULL;
  for (int required = 0; required < 2; ++required) {
    options.embedded_digests = required ? RINGLOAD_DIGESTS_REQUIRED : RINGLOAD_DIGESTS_IF_PRESENT;
    options.sha256 = NULL;
    CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_UNSUPPORTED && !model);
    SAYS("sha256");
    options.sha256 = sum;
    CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_OK);
    ringload_model_release(model);
  }
  ringload_checkpoint_release(file);
  CHECK(*states == 0);

  // The bytes of the tensor begin at byte 64.
  FILE* const opened = fopen(path, "r+b");
  fseek(opened, 64, SEEK_SET);
  fwrite("B", 1, 1, opened);
  fclose(opened);
  CHECK(ringload_open(loader, path, NULL, &file) == RINGLOAD_OK);
  CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_INVALID_FILE && !model);
  SAYS("'b'");
  CHECK(strcmp(ringload_last_error_name(), "wrong_digest") == 0);
  ringload_checkpoint_release(file);
  CHECK(*states == 0);
  remove(path);
}

static void verified(ringload_loader* loader, const ringload_checkpoint* file, const char* folder) {
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, NULL, NULL, &model) == RINGLOAD_OK);
  ringload_tensor *a = NULL, *b = NULL;
  CHECK(ringload_model_find(model, "a", &a) == RINGLOAD_OK);
  CHECK(ringload_model_find(model, "b", &b) == RINGLOAD_OK);
  ringload_model_release(model);

  // Digests that a save gives are those that a load wants.
  char path[4096];
  snprintf(path, sizeof path, "%s/digests.safetensors", folder);
  ringload_saved_tensor these[2] = {RINGLOAD_STRUCT(ringload_saved_tensor),
                                    RINGLOAD_STRUCT(ringload_saved_tensor)};
  these[0].loaded = a;
  these[1].loaded = b;
  int states = 0;
  ringload_sha256 sum = RINGLOAD_STRUCT(ringload_sha256);
  sum.begin = sum_begin;
  sum.update = sum_update;
  sum.finish = sum_finish;
  sum.release = sum_release;
  sum.context = &states;
  for (ringload_digest kind = RINGLOAD_DIGEST_CRC32C; kind <= RINGLOAD_DIGEST_SHA256; ++kind) {
    ringload_save_options settings = RINGLOAD_STRUCT(ringload_save_options);
    settings.digest = kind;
    settings.sha256 = kind == RINGLOAD_DIGEST_SHA256 ? &sum : NULL;
    ringload_operation* save = NULL;
    CHECK(ringload_save_begin(loader, path, these, 2, &settings, &save) == RINGLOAD_OK);
    CHECK(ringload_operation_wait(save, -1) == RINGLOAD_OK);
    const char *text = NULL, *again = NULL;
    CHECK(ringload_operation_saved_checksums(save, &text) == RINGLOAD_OK);
    CHECK(ringload_operation_saved_checksums(save, &again) == RINGLOAD_OK && again == text);
    // "bytes" has the CRC-32C d06e9c92, and 98 + 121 + 116 + 101 + 115 is 0x227.
    CHECK(strstr(text, kind == RINGLOAD_DIGEST_CRC32C ? "crc32c d06e9c92  b\n" : "2727  b\n"));

    ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
    ringload_checksum_list* listed = NULL;
    CHECK(ringload_checksum_list_parse(text, NULL, settings.sha256, &listed) == RINGLOAD_OK);
    how.checksums = listed;
    CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_OK);
    ringload_model_release(model);
    ringload_checksum_list_release(listed);

    char* const changed = strdup(text);
    char* const digit = strstr(changed, "  b\n") - 1;
    *digit = *digit == '0' ? '1' : '0';
    CHECK(ringload_checksum_list_parse(changed, "list", settings.sha256, &listed) == RINGLOAD_OK);
    how.checksums = listed;
    CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_INVALID_FILE && !model);
    SAYS("'b'");
    ringload_checksum_list_release(listed);
    if (kind == RINGLOAD_DIGEST_SHA256) {
      CHECK(ringload_checksum_list_parse(text, NULL, NULL, &listed) == RINGLOAD_OK);
      how.checksums = listed;
      CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_UNSUPPORTED);
      ringload_checksum_list_release(listed);
    }
    free(changed);
    ringload_operation_release(save);
  }
  CHECK(states == 0);
  stored_digest(loader, &sum, &states, folder);

  ringload_checksum_list* none = NULL;
  CHECK(ringload_checksum_list_parse("crc32c 12\n", "list", NULL, &none) == RINGLOAD_INVALID_FILE);
  SAYS("list");
  CHECK(none == NULL && ringload_checksum_list_read("/no/such", NULL, &none) == RINGLOAD_NOT_FOUND);
  sum.finish = NULL;
  CHECK(ringload_checksum_list_parse("", NULL, &sum, &none) == RINGLOAD_INVALID_ARGUMENT);
  ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
  how.embedded_digests = RINGLOAD_DIGESTS_REQUIRED;
  CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_UNSUPPORTED);
  how.embedded_digests = RINGLOAD_DIGESTS_IF_PRESENT;
  CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_OK);
  ringload_model_release(model);
  ringload_tensor_release(a);
  ringload_tensor_release(b);
  remove(path);
}

static void kept(const ringload_checkpoint* file, const char* folder) {
  char socket[4096];
  snprintf(socket, sizeof socket, "%s/keeper", folder);
  ringload_model *mine = NULL, *attached = NULL;
  CHECK(ringload_attach(socket, "qwen", 0, &attached) == RINGLOAD_NOT_FOUND);
  ringload_keeper* keeper = NULL;
  ringload_keeper_options settings = RINGLOAD_STRUCT(ringload_keeper_options);
  settings.connections_max = 2;
  // An empty list of users must not admit every user.
  const uint32_t user = 0;
  settings.users = &user;
  CHECK(ringload_keeper_create(socket, &settings, &keeper) == RINGLOAD_INVALID_ARGUMENT && !keeper);
  SAYS("the list of users is empty");
  settings.users = NULL;
  CHECK(ringload_keeper_create(socket, &settings, &keeper) == RINGLOAD_OK);

  ringload_device* shared = NULL;
  CHECK(ringload_shared_host_device(&shared) == RINGLOAD_OK);
  for (int i = 0; i < 2; ++i) {
    ringload_loader* loader = NULL;
    CHECK(ringload_loader_create(i ? shared : NULL, NULL, &loader) == RINGLOAD_OK);
    CHECK(ringload_load(loader, file, NULL, NULL, &mine) == RINGLOAD_OK);
    ringload_loader_release(loader);
    const ringload_status published = ringload_keeper_publish(keeper, "qwen", mine);
    CHECK(published == (i ? RINGLOAD_OK : RINGLOAD_UNAVAILABLE));
    ringload_model_release(mine);
  }
  ringload_device_release(shared);

  CHECK(ringload_attach(socket, "llama", 0, &attached) == RINGLOAD_NOT_FOUND && !attached);
  SAYS("llama");
  CHECK(ringload_attach(socket, "qwen", 60000, &attached) == RINGLOAD_OK);
  ringload_kept_model seen = RINGLOAD_STRUCT(ringload_kept_model);
  CHECK(ringload_keeper_model(keeper, "qwen", &seen) == RINGLOAD_OK);
  CHECK(seen.version == 1 && seen.attached == 1 && seen.bytes >= (uint64_t)elements * 4 + 5);
  CHECK(ringload_keeper_model(keeper, "llama", &seen) == RINGLOAD_NOT_FOUND);

  ringload_kept_version first = RINGLOAD_STRUCT(ringload_kept_version);
  ringload_kept_version served = RINGLOAD_STRUCT(ringload_kept_version);
  CHECK(ringload_attached_version(attached, &first) == RINGLOAD_OK);
  CHECK(ringload_served_version(socket, "qwen", 60000, &served) == RINGLOAD_OK);
  CHECK(served.keeper != 0 && served.keeper == first.keeper && served.number == 1);
  ringload_model* next = NULL;
  CHECK(ringload_attach_next(socket, "qwen", &first, 20, &next) == RINGLOAD_SYSTEM_ERROR && !next);
  CHECK(ringload_last_errno() == ETIMEDOUT);
  ringload_loader* again = NULL;
  CHECK(ringload_shared_host_device(&shared) == RINGLOAD_OK);
  CHECK(ringload_loader_create(shared, NULL, &again) == RINGLOAD_OK);
  CHECK(ringload_load(again, file, NULL, NULL, &mine) == RINGLOAD_OK);
  CHECK(ringload_keeper_publish(keeper, "qwen", mine) == RINGLOAD_OK);
  ringload_model_release(mine);
  ringload_loader_release(again);
  ringload_device_release(shared);
  CHECK(ringload_attach_next(socket, "qwen", &first, 60000, &next) == RINGLOAD_OK);
  CHECK(ringload_attached_version(next, &served) == RINGLOAD_OK);
  CHECK(served.keeper == first.keeper && served.number == 2);
  ringload_model_release(next);
  CHECK(ringload_attach_next(socket, "qwen", NULL, 0, &next) == RINGLOAD_OK);
  ringload_model_release(next);

  CHECK(ringload_keeper_withdraw(keeper, "qwen") == RINGLOAD_OK);
  CHECK(ringload_keeper_withdraw(keeper, "qwen") == RINGLOAD_NOT_FOUND);
  ringload_keeper_release(keeper);
  for (size_t i = 0; i < 2; ++i) {
    ringload_tensor* one = NULL;
    CHECK(ringload_model_tensor(attached, i, &one) == RINGLOAD_OK && is_whole(one));
    ringload_tensor_release(one);
  }
  ringload_model_release(attached);
}

// Extensions are there, or say that they are not: either way the functions are.
static void extended(const char* path) {
  ringload_extension* extensions[2] = {NULL, NULL};
  const ringload_status hdf5 = ringload_hdf5_extension(NULL, &extensions[0]);
  CHECK(hdf5 == RINGLOAD_OK || hdf5 == RINGLOAD_UNSUPPORTED);
  ringload_remote_options how = RINGLOAD_STRUCT(ringload_remote_options);
  how.offline = 1;
  how.hub_token = "secret";
  how.s3_style = RINGLOAD_S3_STYLE_PATH;
  const ringload_status remote = ringload_remote_extension(&how, &extensions[1]);
  CHECK(remote == RINGLOAD_OK || remote == RINGLOAD_UNSUPPORTED);
  if (remote == RINGLOAD_OK) {
    ringload_loader* loader = NULL;
    CHECK(ringload_loader_create_with(NULL, NULL, (const ringload_extension* const*)&extensions[1],
                                      1, &loader) == RINGLOAD_OK);
    ringload_checkpoint* opened = NULL;
    CHECK(ringload_open(loader, "https://localhost/x.safetensors", NULL, &opened) != RINGLOAD_OK);
    SAYS("offline");
    CHECK(ringload_open(loader, path, NULL, &opened) == RINGLOAD_OK);
    ringload_checkpoint_release(opened);
    ringload_loader_release(loader);
    ringload_writer_options writing = RINGLOAD_STRUCT(ringload_writer_options);
    writing.extensions = (const ringload_extension* const*)&extensions[1];
    writing.extension_count = 1;
    ringload_writer* writer = NULL;
    CHECK(ringload_writer_create("s3://bucket/x.zt", &writing, &writer) != RINGLOAD_OK);
    SAYS("offline");
    CHECK(ringload_writer_append("s3://bucket/x.zt", &writing, &writer) != RINGLOAD_OK);
    SAYS("cannot be added");
    ringload_extension* wrong = NULL;
    how.connections = 100000;
    CHECK(ringload_remote_extension(&how, &wrong) == RINGLOAD_INVALID_ARGUMENT && wrong == NULL);
    how.connections = 0;
    how.hub_cache = (ringload_hub_cache)9;
    CHECK(ringload_remote_extension(&how, &wrong) == RINGLOAD_INVALID_ARGUMENT);
  } else {
    SAYS("built without");
  }
  ringload_extension_release(extensions[0]);
  ringload_extension_release(extensions[1]);
}

void further_chapters(ringload_loader* loader, const ringload_checkpoint* file, const char* folder,
                      const char* path) {
  verified(loader, file, folder);
  kept(file, folder);
  extended(path);
  ranks_chapter(loader, folder, path);
  writer_chapter(loader, file, folder);
  catalog_chapter(loader, file, folder, path);
  store_chapter(path);
}
