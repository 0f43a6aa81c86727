// SPDX-License-Identifier: Apache-2.0

// Ranks that load one checkpoint together.

#include <pthread.h>

#include "interface.h"

enum { ranks = 2, half = rows / ranks };

struct one_rank {
  ringload_loader* loader;
  ringload_group* group;
  const char* path;
  ringload_group_reading reading;
  const char* wrong;  // What is not as it should be; null: nothing.
};

// The matrix counts up, so its first element tells where a block of its rows begins.
static int begins_with(const ringload_tensor* tensor, uint64_t rows_of_it, float first) {
  ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
  return tensor && ringload_tensor_look(tensor, &view) == RINGLOAD_OK && view.rank == 2 &&
         view.shape[0] == rows_of_it && view.shape[1] == columns && *(float*)view.data == first;
}

#define WANTED(what) \
  if (!(what)) return #what

static const char* calls_of(struct one_rank* self, ringload_group_loading* load) {
  const uint32_t rank = ringload_group_rank(self->group);
  ringload_tensor* got = NULL;
  WANTED(ringload_group_loading_tensor(load, "a", &got) == RINGLOAD_OK && is_whole(got));
  ringload_tensor_release(got);
  const float first = (float)(rank * half * columns);
  WANTED(ringload_group_loading_shard(load, "a", 0, &got) == RINGLOAD_OK);
  WANTED(begins_with(got, half, first));
  ringload_tensor_release(got);
  const char* const twice[2] = {"a", "a"};
  WANTED(ringload_group_loading_fused(load, "aa", twice, 2, 0, &got) == RINGLOAD_OK);
  WANTED(begins_with(got, 2 * half, first));
  ringload_tensor_release(got);
  WANTED(ringload_group_loading_fused(load, "none", NULL, 0, 0, &got) == RINGLOAD_INVALID_ARGUMENT);
  const ringload_status pushed = ringload_group_loading_push(load, "b", 1, &got);
  WANTED(pushed == (rank == 1 ? RINGLOAD_OK : RINGLOAD_END) && (got != NULL) == (rank == 1));
  WANTED(rank == 0 || is_whole(got));
  ringload_tensor_release(got);

  const char* const names[1] = {"b"};
  ringload_model* model = NULL;
  WANTED(ringload_group_loading_model(load, names, 1, &model) == RINGLOAD_OK);
  WANTED(ringload_model_size(model) == 1);
  ringload_model_release(model);
  WANTED(ringload_group_loading_model(load, names, 0, &model) == RINGLOAD_OK);
  WANTED(ringload_model_size(model) == 0);
  ringload_model_release(model);
  WANTED(ringload_group_loading_model(load, NULL, 1, &model) == RINGLOAD_INVALID_ARGUMENT);
  WANTED(ringload_group_loading_model(load, NULL, 0, &model) == RINGLOAD_OK);
  WANTED(ringload_model_size(model) == 2);
  WANTED(ringload_model_find(model, "a", &got) == RINGLOAD_OK && is_whole(got));
  ringload_model_release(model);
  ringload_tensor_release(got);

  // Two calls at once; what is wrong on all, and what differs, changes nothing.
  ringload_operation* begun[2] = {NULL, NULL};
  WANTED(ringload_group_loading_tensor_begin(load, "b", &begun[0]) == RINGLOAD_OK);
  WANTED(ringload_group_loading_tensor_begin(load, "c", &begun[1]) == RINGLOAD_OK);
  WANTED(ringload_operation_wait(begun[0], -1) == RINGLOAD_OK);
  WANTED(ringload_operation_wait(begun[1], -1) == RINGLOAD_NOT_FOUND);
  ringload_operation_release(begun[0]);
  ringload_operation_release(begun[1]);
  WANTED(ringload_group_loading_tensor(load, rank ? "a" : "b", &got) == RINGLOAD_MISMATCH && !got);
  WANTED(ringload_group_loading_shard(load, "b", 1, &got) == RINGLOAD_INVALID_ARGUMENT);
  WANTED(ringload_group_loading_shard(load, NULL, 0, &got) == RINGLOAD_INVALID_ARGUMENT);
  WANTED(ringload_group_loading_tensor(load, "b", &got) == RINGLOAD_OK && is_whole(got));
  ringload_tensor_release(got);
  ringload_stats stats = RINGLOAD_STRUCT(ringload_stats);
  WANTED(ringload_group_loading_stats(load, &stats) == RINGLOAD_OK && stats.bytes > 0);
  return NULL;
}

static const char* work_of(struct one_rank* self) {
  ringload_group_loading* load = NULL;
  WANTED(ringload_group_size(self->group) == ranks);
  // Options that are invalid on all ranks are the same error on all ranks, and end no group.
  ringload_load_options invalid = RINGLOAD_STRUCT(ringload_load_options);
  invalid.populate = 1;
  WANTED(ringload_group_load(self->loader, self->group, self->path, self->reading, &invalid,
                             &load) == RINGLOAD_INVALID_ARGUMENT &&
         load == NULL);
  WANTED(ringload_group_load(self->loader, self->group, self->path, self->reading, NULL, &load) ==
         RINGLOAD_OK);
  const char* const wrong = calls_of(self, load);
  ringload_group_loading_release(load);
  ringload_group_release(self->group);
  return wrong;
}

static void* run(void* context) {
  struct one_rank* const self = context;
  self->wrong = work_of(self);
  if (self->wrong) printf("rank: not so: %s (\"%s\")\n", self->wrong, ringload_last_error());
  return NULL;
}

static void as_threads(ringload_loader* loader, const char* path, ringload_group_reading reading) {
  ringload_group* groups[ranks] = {NULL, NULL};
  CHECK(ringload_thread_groups(ranks, 60000, groups) == RINGLOAD_OK);
  struct one_rank each[ranks];
  pthread_t threads[ranks];
  for (int i = 0; i < ranks; ++i) {
    each[i] = (struct one_rank){loader, groups[i], path, reading, NULL};
    CHECK(pthread_create(&threads[i], NULL, run, &each[i]) == 0);
  }
  for (int i = 0; i < ranks; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(each[i].wrong == NULL);
  }
}

// Rank 1 leaves while rank 0 waits for it; what is released before it has ended is cancelled, and
// keeps its loader until then.
static void given_up(const char* path) {
  ringload_loader* loader = NULL;
  CHECK(ringload_loader_create(NULL, NULL, &loader) == RINGLOAD_OK);
  ringload_group* groups[ranks] = {NULL, NULL};
  CHECK(ringload_thread_groups(ranks, 60000, groups) == RINGLOAD_OK);
  ringload_operation* begun[ranks] = {NULL, NULL};
  for (int i = 0; i < ranks; ++i) {
    CHECK(ringload_group_load_begin(loader, groups[i], path, RINGLOAD_READING_DIVIDED, NULL,
                                    &begun[i]) == RINGLOAD_OK);
  }
  ringload_loader_release(loader);
  ringload_group_loading* loads[ranks] = {NULL, NULL};
  for (int i = 0; i < ranks; ++i) {
    CHECK(ringload_operation_wait(begun[i], -1) == RINGLOAD_OK);
    CHECK(ringload_operation_group_loading(begun[i], &loads[i]) == RINGLOAD_OK);
    ringload_operation_release(begun[i]);
  }
  CHECK(ringload_group_loading_tensor_begin(loads[0], "a", &begun[0]) == RINGLOAD_OK);
  CHECK(ringload_group_loading_tensor_begin(loads[1], "b", &begun[1]) == RINGLOAD_OK);
  ringload_operation_release(begun[1]);
  ringload_group_loading_release(loads[1]);
  ringload_group_release(groups[1]);
  const ringload_status status = ringload_operation_wait(begun[0], -1);
  CHECK(status == RINGLOAD_SYSTEM_ERROR || status == RINGLOAD_MISMATCH);
  ringload_operation_release(begun[0]);
  ringload_tensor* tensor = NULL;
  CHECK(ringload_group_loading_tensor(loads[0], "a", &tensor) == RINGLOAD_SYSTEM_ERROR);
  SAYS("rank 1");
  ringload_group_loading_release(loads[0]);
  ringload_group_release(groups[0]);
}

static void wrong_groups(ringload_loader* loader, const char* folder, const char* path) {
  ringload_group* none = NULL;
  CHECK(ringload_thread_groups(0, 0, &none) == RINGLOAD_INVALID_ARGUMENT && none == NULL);
  CHECK(ringload_thread_groups(2, 0, NULL) == RINGLOAD_INVALID_ARGUMENT);
  ringload_group* too_many[200];
  for (int i = 0; i < 200; ++i) too_many[i] = (ringload_group*)&failures;
  CHECK(ringload_thread_groups(200, 0, too_many) == RINGLOAD_INVALID_ARGUMENT);
  for (int i = 0; i < 200; ++i) CHECK(too_many[i] == NULL);
  char socket[4096];
  snprintf(socket, sizeof socket, "%s/ranks", folder);
  CHECK(ringload_join_group(socket, 2, 2, 0, &none) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_join_group(socket, 0, 2, 1, &none) == RINGLOAD_SYSTEM_ERROR && none == NULL);
  SAYS("did not join in time");
  CHECK(ringload_join_group("tcp://127.0.0.1", 0, 2, 1, &none) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_join_group("tcp://127.0.0.1:1", 1, 2, 1, &none) == RINGLOAD_SYSTEM_ERROR);
  CHECK(ringload_join_group(socket, 0, 1, 0, &none) == RINGLOAD_OK);
  ringload_group_loading* load = NULL;
  CHECK(ringload_group_load(loader, none, path, (ringload_group_reading)7, NULL, &load) ==
        RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_group_load(loader, NULL, path, RINGLOAD_READING_OWN, NULL, &load) ==
        RINGLOAD_INVALID_ARGUMENT);
  ringload_load_options how = RINGLOAD_STRUCT(ringload_load_options);
  how.mapped = 1;
  CHECK(ringload_group_load(loader, none, path, RINGLOAD_READING_OWN, &how, &load) ==
        RINGLOAD_INVALID_ARGUMENT);
  SAYS("mapped");
  REFUSES_TO_BEGIN(
      ringload_group_load_begin(loader, none, path, (ringload_group_reading)7, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_group_loading_tensor_begin(NULL, NULL, &operation));
  REFUSES_TO_BEGIN(ringload_group_loading_shard_begin(NULL, "a", 0, &operation));
  REFUSES_TO_BEGIN(ringload_group_loading_fused_begin(NULL, "a", NULL, 1, 0, &operation));
  REFUSES_TO_BEGIN(ringload_group_loading_push_begin(NULL, NULL, 0, &operation));
  REFUSES_TO_BEGIN(ringload_group_loading_model_begin(NULL, NULL, 1, &operation));
  CHECK(load == NULL && ringload_group_rank(NULL) == 0 && ringload_group_size(NULL) == 0);
  ringload_group_release(none);
}

void ranks_chapter(ringload_loader* loader, const char* folder, const char* path) {
  as_threads(loader, path, RINGLOAD_READING_DIVIDED);
  as_threads(loader, path, RINGLOAD_READING_OWN);
  given_up(path);
  wrong_groups(loader, folder, path);
}
