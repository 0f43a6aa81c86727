// SPDX-License-Identifier: Apache-2.0

// A store of C functions: what a loader reads from it, and every fault of its functions. The text
// is also compiled as C++.

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "interface.h"

// How the functions of the store read.
enum read_form { blocking, within_the_call, in_a_thread, read_forms };

// What goes wrong, once `reads_left` reads have succeeded.
enum fault {
  no_fault,
  read_fails,
  read_is_short,
  read_is_empty,
  read_is_long,
  read_waits_for_cancellation,  // Then fails.
  read_is_late,                 // Waits for the cancellation, then reads everything.
  open_fails,
  list_fails,
  identity_fails,
  identity_changes,
  identity_is_endless
};

struct cache {
  const char* bytes;
  uint64_t size;
  enum fault fault;
  ringload_status status;  // Of functions that fail.
  int reads_left;
  int reads, opened, closed, released, threads, identities, waiting;
};

static int changed(int* counter, int by) {
  return __atomic_add_fetch(counter, by, __ATOMIC_SEQ_CST);
}
static int value(int* counter) { return changed(counter, 0); }

static ringload_status open_object(void* context, const char* name, void** object, uint64_t* bytes,
                                   ringload_store_call* call) {
  struct cache* const cache = (struct cache*)context;
  if (cache->fault == open_fails)
    return ringload_store_fail(call, cache->status,
                               "no way in\nafter \xff or \xc2\x85 or \xc3\xa4");
  if (strcmp(name, "cache://m.safetensors") != 0 && strcmp(name, "cache:///m.safetensors") != 0 &&
      strcmp(name, "cache://folder/m.safetensors") != 0) {
    return ringload_store_fail(call, RINGLOAD_NOT_FOUND, "the cache has no such object");
  }
  changed(&cache->opened, 1);
  *object = cache;
  *bytes = cache->size;
  return RINGLOAD_OK;
}

static void close_object(void* object) { changed(&((struct cache*)object)->closed, 1); }
static void release_cache(void* context) { changed(&((struct cache*)context)->released, 1); }

static int is_folder(void* context, const char* name) {
  (void)context;
  return strcmp(name, "cache://folder") == 0;
}

static ringload_status list_folder(void* context, const char* folder, ringload_store_call* call) {
  struct cache* const cache = (struct cache*)context;
  CHECK(strcmp(folder, "cache://folder") == 0);
  if (cache->fault == list_fails) return ringload_store_fail(call, cache->status, "no list");
  CHECK(ringload_store_add_name(call, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_store_add_name(call, "readme.txt") == RINGLOAD_OK);
  return ringload_store_add_name(call, "m.safetensors");
}

static ringload_status identify(void* object, char* text, ringload_store_call* call) {
  struct cache* const cache = (struct cache*)object;
  CHECK(ringload_store_add_name(call, "x") == RINGLOAD_INVALID_ARGUMENT);
  if (cache->fault == identity_fails) return ringload_store_fail(call, cache->status, "no tag");
  if (cache->fault == identity_is_endless) {
    memset(text, 'x', RINGLOAD_STORE_IDENTITY_BYTES);
    return RINGLOAD_OK;
  }
  const int turn = changed(&cache->identities, 1);
  snprintf(text, RINGLOAD_STORE_IDENTITY_BYTES, "tag %d",
           cache->fault == identity_changes ? turn : 0);
  return RINGLOAD_OK;
}

// One read. Exactly one of `call` and `read` is set.
struct work {
  struct cache* cache;
  uint64_t offset, bytes;
  void* into;
  ringload_store_call* call;
  ringload_store_read* read;
};

static int is_cancelled(const struct work* work) {
  return work->call ? ringload_store_is_cancelled(work->call)
                    : ringload_store_read_is_cancelled(work->read);
}

// Returns the status, and the number of bytes in `received`.
static ringload_status carry_out(const struct work* work, uint64_t* received) {
  struct cache* const cache = work->cache;
  const enum fault fault = changed(&cache->reads_left, -1) < 0 ? cache->fault : no_fault;
  changed(&cache->reads, 1);
  if (fault == read_waits_for_cancellation || fault == read_is_late) {
    changed(&cache->waiting, 1);
    while (!is_cancelled(work)) usleep(100);
    if (fault == read_waits_for_cancellation) return RINGLOAD_CANCELLED;
  }
  if (fault == read_fails) return cache->status;
  CHECK(work->offset + work->bytes <= cache->size);
  uint64_t count = work->bytes;
  if (fault == read_is_short) count -= 1;
  if (fault == read_is_empty) count = 0;
  memcpy(work->into, cache->bytes + work->offset, count);
  *received = fault == read_is_long ? count + 1 : count;
  return RINGLOAD_OK;
}

static ringload_status read_object(void* object, uint64_t offset, void* into, uint64_t bytes,
                                   uint64_t* bytes_read, ringload_store_call* call) {
  const struct work work = {(struct cache*)object, offset, bytes, into, call, NULL};
  const ringload_status status = carry_out(&work, bytes_read);
  return status == RINGLOAD_OK ? status : ringload_store_fail(call, status, "no bytes");
}

static void end_work(const struct work* work) {
  uint64_t received = 0;
  const ringload_status status = carry_out(work, &received);
  if (status == RINGLOAD_OK) {
    ringload_store_read_done(work->read, received);
  } else {
    ringload_store_read_failed(work->read, status, "no bytes");
  }
}

static void begin_within(void* object, uint64_t offset, void* into, uint64_t bytes,
                         ringload_store_read* read) {
  const struct work work = {(struct cache*)object, offset, bytes, into, NULL, read};
  end_work(&work);
}

static void* run_work(void* argument) {
  struct work* const work = (struct work*)argument;
  struct cache* const cache = work->cache;
  end_work(work);
  free(work);
  changed(&cache->threads, -1);
  return NULL;
}

static void begin_in_thread(void* object, uint64_t offset, void* into, uint64_t bytes,
                            ringload_store_read* read) {
  struct work* const work = (struct work*)malloc(sizeof *work);
  const struct work given = {(struct cache*)object, offset, bytes, into, NULL, read};
  *work = given;
  changed(&work->cache->threads, 1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_work, work) == 0);
  pthread_detach(thread);
}

static ringload_store store_of(struct cache* cache, enum read_form form) {
  ringload_store store = RINGLOAD_STRUCT(ringload_store);
  store.context = cache;
  store.prefix = "cache://";
  store.open = open_object;
  store.close = close_object;
  store.identity = identify;
  store.is_folder = is_folder;
  store.list = list_folder;
  store.release = release_cache;
  if (form == blocking) store.read = read_object;
  if (form == within_the_call) store.begin_read = begin_within;
  if (form == in_a_thread) store.begin_read = begin_in_thread;
  return store;
}

static ringload_loader* loader_of(const ringload_store* store) {
  ringload_extension* extension = NULL;
  ringload_loader* loader = NULL;
  CHECK(ringload_store_extension(store, &extension) == RINGLOAD_OK);
  const ringload_extension* const extensions[1] = {extension};
  ringload_loader_options limits = RINGLOAD_STRUCT(ringload_loader_options);
  limits.slots = 4;
  limits.slot_bytes = 256 * 1024;
  CHECK(ringload_loader_create_with(NULL, &limits, extensions, 1, &loader) == RINGLOAD_OK);
  ringload_extension_release(extension);
  return loader;
}

// Opens and loads everything. Returns the status of the first call that fails.
static ringload_status load_all(ringload_loader* loader, const char* name) {
  ringload_checkpoint* file = NULL;
  ringload_model* model = NULL;
  ringload_status status = ringload_open(loader, name, NULL, &file);
  if (status != RINGLOAD_OK) {
    CHECK(file == NULL && strstr(ringload_last_error_place(), "cache://") != NULL);
    return status;
  }
  status = ringload_load(loader, file, NULL, NULL, &model);
  if (status == RINGLOAD_OK) {
    for (size_t i = 0; i < 2; ++i) {
      ringload_tensor* tensor = NULL;
      CHECK(ringload_model_tensor(model, i, &tensor) == RINGLOAD_OK && is_whole(tensor));
      ringload_tensor_release(tensor);
    }
  } else {
    CHECK(model == NULL);
  }
  // The text of the failure is that of the load.
  ringload_model_release(model);
  ringload_checkpoint_release(file);
  return status;
}

static void set_fault(struct cache* cache, enum fault fault, int reads_left) {
  cache->fault = fault;
  cache->reads_left = reads_left;
  cache->reads = cache->identities = cache->waiting = 0;
}

// Each read of an open and of a load goes wrong once, in each way. A load without a fault follows.
static void walk_reads(ringload_loader* loader, struct cache* cache) {
  set_fault(cache, no_fault, 1000);
  CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_OK);
  const int reads = value(&cache->reads);
  CHECK(reads > 3);
  static const ringload_status statuses[][2] = {
      {RINGLOAD_NOT_FOUND, RINGLOAD_NOT_FOUND},
      {RINGLOAD_UNSUPPORTED, RINGLOAD_UNSUPPORTED},
      {RINGLOAD_NO_MEMORY, RINGLOAD_NO_MEMORY},
      {RINGLOAD_CHANGED_FILE, RINGLOAD_CHANGED_FILE},
      {RINGLOAD_INVALID_FILE, RINGLOAD_INVALID_FILE},
      {RINGLOAD_INVALID_ARGUMENT, RINGLOAD_INVALID_ARGUMENT},
      {RINGLOAD_UNAVAILABLE, RINGLOAD_UNAVAILABLE},
      {RINGLOAD_MISMATCH, RINGLOAD_MISMATCH},
      {RINGLOAD_CANCELLED, RINGLOAD_SYSTEM_ERROR},
      {RINGLOAD_SYSTEM_ERROR, RINGLOAD_SYSTEM_ERROR},
      {RINGLOAD_INTERNAL_ERROR, RINGLOAD_SYSTEM_ERROR},
      {RINGLOAD_PENDING, RINGLOAD_SYSTEM_ERROR},
      {RINGLOAD_END, RINGLOAD_SYSTEM_ERROR},
      {(ringload_status)77, RINGLOAD_SYSTEM_ERROR},
  };
  for (int left = 0; left < reads; ++left) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; ++i) {
      cache->status = statuses[i][0];
      set_fault(cache, read_fails, left);
      CHECK(load_all(loader, "cache://m.safetensors") == statuses[i][1]);
      SAYS("no bytes");
    }
    set_fault(cache, read_is_short, left);
    CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_CHANGED_FILE);
    CHECK(strcmp(ringload_last_error_name(), "truncated_file") == 0);
    SAYS("bytes, expected");
    set_fault(cache, read_is_empty, left);
    CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_CHANGED_FILE);
    set_fault(cache, read_is_long, left);
    CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_SYSTEM_ERROR);
    set_fault(cache, no_fault, 1000);
    CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_OK);
  }
}

static void walk_other_functions(ringload_loader* loader, struct cache* cache) {
  static const enum fault faults[3] = {open_fails, list_fails, identity_fails};
  static const char* const reasons[3] = {"no way in", "no list", "no tag"};
  for (int i = 0; i < 3; ++i) {
    cache->status = RINGLOAD_UNSUPPORTED;
    set_fault(cache, faults[i], 1000);
    CHECK(load_all(loader, "cache://folder") == RINGLOAD_UNSUPPORTED);
    SAYS(reasons[i]);
  }
  // The error text of the library is one line of UTF-8, also if the reason of the store is not.
  set_fault(cache, open_fails, 1000);
  CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_UNSUPPORTED);
  SAYS("no way in\\x0aafter \\xff or \\xc2\\x85 or \xc3\xa4");
  set_fault(cache, identity_changes, 1000);
  CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_CHANGED_FILE);
  set_fault(cache, identity_is_endless, 1000);
  CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_SYSTEM_ERROR);
  SAYS("0 byte");
  set_fault(cache, no_fault, 1000);
  CHECK(load_all(loader, "cache://folder") == RINGLOAD_OK);
  CHECK(load_all(loader, "cache:///m.safetensors") == RINGLOAD_OK);
  CHECK(load_all(loader, "cache:///none.safetensors") == RINGLOAD_NOT_FOUND);
  CHECK(strcmp(ringload_last_error_place(), "cache:///none.safetensors") == 0);
  CHECK(load_all(loader, "cache://none.safetensors") == RINGLOAD_NOT_FOUND);
  SAYS("no such object");
  CHECK(load_all(loader, "cache://folder/") == RINGLOAD_INVALID_ARGUMENT);
  CHECK(load_all(loader, "cache://") == RINGLOAD_INVALID_ARGUMENT);
  // The functions of the store receive no name with a component "..".
  CHECK(load_all(loader, "cache://folder/../m.safetensors") == RINGLOAD_INVALID_ARGUMENT);
  SAYS("'..'");
  CHECK(load_all(loader, "cache://folder/..") == RINGLOAD_INVALID_ARGUMENT);
  CHECK(load_all(loader, "cache://..") == RINGLOAD_INVALID_ARGUMENT);
  SAYS("'..'");
  CHECK(load_all(loader, "cache://folder/..m.safetensors") == RINGLOAD_NOT_FOUND);
}

// Reads wait until they are cancelled: by the operation, or by the release of the loader.
static void walk_cancellations(ringload_loader* loader, struct cache* cache, enum fault fault) {
  ringload_checkpoint* file = NULL;
  set_fault(cache, no_fault, 1000);
  CHECK(ringload_open(loader, "cache://m.safetensors", NULL, &file) == RINGLOAD_OK);
  for (int left = 0; left < 4; ++left) {
    set_fault(cache, fault, left);
    ringload_operation* load = NULL;
    CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
    while (value(&cache->waiting) == 0) usleep(100);
    ringload_operation_cancel(load);
    CHECK(ringload_operation_wait(load, -1) == RINGLOAD_CANCELLED);
    ringload_operation_release(load);
  }
  ringload_checkpoint_release(file);
  set_fault(cache, no_fault, 1000);
  CHECK(load_all(loader, "cache://m.safetensors") == RINGLOAD_OK);
}

static void walk_release(struct cache* cache, enum read_form form) {
  const ringload_store store = store_of(cache, form);
  ringload_loader* const loader = loader_of(&store);
  ringload_checkpoint* file = NULL;
  ringload_operation* load = NULL;
  set_fault(cache, no_fault, 1000);
  CHECK(ringload_open(loader, "cache://m.safetensors", NULL, &file) == RINGLOAD_OK);
  set_fault(cache, read_is_late, 1);
  CHECK(ringload_load_begin(loader, file, NULL, NULL, &load) == RINGLOAD_OK);
  while (value(&cache->waiting) == 0) usleep(100);
  ringload_loader_release(loader);
  CHECK(ringload_operation_wait(load, -1) == RINGLOAD_CANCELLED);
  ringload_operation_release(load);
  CHECK(value(&cache->closed) == value(&cache->opened) - 1);
  ringload_checkpoint_release(file);  // The last user of the store.
}

// Objects, contexts and threads come to an end, some of them after the last release.
static void wait_for_the_end(struct cache* cache, int stores) {
  for (int i = 0; i < 600000 && value(&cache->released) < stores; ++i) usleep(100);
  CHECK(value(&cache->released) == stores);
  CHECK(value(&cache->closed) == value(&cache->opened) && value(&cache->opened) > 0);
  while (value(&cache->threads) > 0) usleep(100);
}

static void wrong_stores(struct cache* cache) {
  ringload_extension* extension = NULL;
  ringload_store store = store_of(cache, blocking);
  CHECK(ringload_store_extension(NULL, &extension) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_store_extension(&store, NULL) == RINGLOAD_INVALID_ARGUMENT);
  store.begin_read = begin_within;
  CHECK(ringload_store_extension(&store, &extension) == RINGLOAD_INVALID_ARGUMENT);
  SAYS("either");
  store.read = NULL;
  store.begin_read = NULL;
  CHECK(ringload_store_extension(&store, &extension) == RINGLOAD_INVALID_ARGUMENT);
  store = store_of(cache, blocking);
  store.open = NULL;
  CHECK(ringload_store_extension(&store, &extension) == RINGLOAD_INVALID_ARGUMENT);
  store = store_of(cache, blocking);
  store.prefix = NULL;
  CHECK(ringload_store_extension(&store, &extension) == RINGLOAD_INVALID_ARGUMENT);
  store.prefix = "";
  CHECK(ringload_store_extension(&store, &extension) == RINGLOAD_INVALID_ARGUMENT);
  store = store_of(cache, blocking);
  store.threads = 65;
  CHECK(ringload_store_extension(&store, &extension) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(extension == NULL && value(&cache->released) == 0);
  CHECK(ringload_store_fail(NULL, RINGLOAD_NOT_FOUND, "x") == RINGLOAD_NOT_FOUND);
  CHECK(!ringload_store_is_cancelled(NULL) && !ringload_store_read_is_cancelled(NULL));
  CHECK(ringload_store_add_name(NULL, "x") == RINGLOAD_INVALID_ARGUMENT);
  ringload_store_read_done(NULL, 0);
  ringload_store_read_failed(NULL, RINGLOAD_OK, NULL);
}

// Without its optional functions, a store has files only.
static void smallest_store(struct cache* cache) {
  ringload_store store = RINGLOAD_STRUCT(ringload_store);
  store.context = cache;
  store.prefix = "cache://";
  store.open = open_object;
  store.read = read_object;
  store.threads = 1;
  set_fault(cache, no_fault, 1000);
  ringload_loader* loader = loader_of(&store);
  CHECK(load_all(loader, "cache://folder/m.safetensors") == RINGLOAD_OK);
  CHECK(load_all(loader, "cache://folder") == RINGLOAD_NOT_FOUND);
  ringload_loader_release(loader);
  store.is_folder = is_folder;
  loader = loader_of(&store);
  CHECK(load_all(loader, "cache://folder") == RINGLOAD_UNSUPPORTED);
  SAYS("cannot list");
  ringload_loader_release(loader);
}

void store_chapter(const char* path) {
  struct cache cache;
  memset(&cache, 0, sizeof cache);
  char* const bytes = (char*)malloc(elements * 4 + 4096);
  FILE* const stream = fopen(path, "rb");
  cache.size = fread(bytes, 1, elements * 4 + 4096, stream);
  cache.bytes = bytes;
  fclose(stream);

  wrong_stores(&cache);
  for (int form = 0; form < read_forms; ++form) {
    cache.opened = cache.closed = cache.released = 0;
    const ringload_store store = store_of(&cache, (enum read_form)form);
    ringload_loader* const loader = loader_of(&store);
    walk_reads(loader, &cache);
    walk_other_functions(loader, &cache);
    if (form != within_the_call) {  // There a read that waits would stop the loader.
      walk_cancellations(loader, &cache, read_waits_for_cancellation);
      walk_cancellations(loader, &cache, read_is_late);
      walk_release(&cache, (enum read_form)form);
      wait_for_the_end(&cache, 1);
    }
    ringload_loader_release(loader);
    wait_for_the_end(&cache, form == within_the_call ? 1 : 2);
  }
  smallest_store(&cache);
  free(bytes);
}
