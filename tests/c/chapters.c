// SPDX-License-Identifier: Apache-2.0

// What is beyond loads and saves: manifests, keepers, extensions.

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
    CHECK(ringload_operation_saved_manifest(save, &text) == RINGLOAD_OK);
    CHECK(ringload_operation_saved_manifest(save, &again) == RINGLOAD_OK && again == text);
    // "bytes" has the CRC-32C d06e9c92, and 98 + 121 + 116 + 101 + 115 is 0x227.
    CHECK(strstr(text, kind == RINGLOAD_DIGEST_CRC32C ? "crc32c d06e9c92  b\n" : "2727  b\n"));

    ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
    ringload_manifest* listed = NULL;
    CHECK(ringload_manifest_parse(text, NULL, settings.sha256, &listed) == RINGLOAD_OK);
    how.manifest = listed;
    CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_OK);
    ringload_model_release(model);
    ringload_manifest_release(listed);

    char* const changed = strdup(text);
    char* const digit = strstr(changed, "  b\n") - 1;
    *digit = *digit == '0' ? '1' : '0';
    CHECK(ringload_manifest_parse(changed, "list", settings.sha256, &listed) == RINGLOAD_OK);
    how.manifest = listed;
    CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_INVALID_FILE && !model);
    SAYS("'b'");
    ringload_manifest_release(listed);
    if (kind == RINGLOAD_DIGEST_SHA256) {
      CHECK(ringload_manifest_parse(text, NULL, NULL, &listed) == RINGLOAD_OK);
      how.manifest = listed;
      CHECK(ringload_load(loader, file, NULL, &how, &model) == RINGLOAD_UNSUPPORTED);
      ringload_manifest_release(listed);
    }
    free(changed);
    ringload_operation_release(save);
  }
  CHECK(states == 0);

  ringload_manifest* none = NULL;
  CHECK(ringload_manifest_parse("crc32c 12\n", "list", NULL, &none) == RINGLOAD_INVALID_FILE);
  SAYS("list");
  CHECK(none == NULL && ringload_manifest_read("/no/such", NULL, &none) == RINGLOAD_NOT_FOUND);
  sum.finish = NULL;
  CHECK(ringload_manifest_parse("", NULL, &sum, &none) == RINGLOAD_INVALID_ARGUMENT);
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
}
