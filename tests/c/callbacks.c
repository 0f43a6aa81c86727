// SPDX-License-Identifier: Apache-2.0

// Functions of the caller that a load calls: which tensors, which device, which conversions. And
// callbacks that run in a thread of the caller.

#include <pthread.h>

#include "interface.h"

struct asked {
  int calls;
  int right;  // How often the described tensor was 'a' or 'b' of the checkpoint.
};

static void describe(struct asked* asked, const ringload_tensor_info* tensor) {
  const int is_a = strcmp(tensor->name, "a") == 0;
  ++asked->calls;
  asked->right +=
      tensor->struct_bytes == sizeof *tensor && tensor->file[0] == 0 &&
      tensor->rank == (is_a ? 2u : 1u) && tensor->shape[0] == (is_a ? (uint64_t)rows : 5u) &&
      tensor->original_rank == tensor->rank && tensor->dtype == (is_a ? RINGLOAD_F32 : RINGLOAD_U8);
}

static int is_matrix(void* context, const ringload_tensor_info* tensor) {
  describe(context, tensor);
  return tensor->rank == 2;
}

static uint32_t second_for_matrices(void* context, const ringload_tensor_info* tensor) {
  describe(context, tensor);
  return tensor->rank == 2 ? 1 : RINGLOAD_ALL_DEVICES;
}

static int never(void* context, const ringload_tensor_info* tensor) {
  describe(context, tensor);
  return 0;
}

static void chosen_tensors(ringload_loader* loader, const ringload_checkpoint* file) {
  struct asked asked = {0, 0};
  ringload_selection* wanted = NULL;
  CHECK(ringload_selection_create(&wanted) == RINGLOAD_OK);
  CHECK(ringload_selection_where(wanted, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_selection_where(NULL, is_matrix, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_selection_where(wanted, is_matrix, &asked) == RINGLOAD_OK);
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, wanted, NULL, &model) == RINGLOAD_OK);
  CHECK(asked.calls == 2 && asked.right == 2);
  CHECK(ringload_model_size(model) == 1);
  ringload_tensor* tensor = NULL;
  CHECK(ringload_model_find(model, "a", &tensor) == RINGLOAD_OK && is_whole(tensor));
  ringload_tensor_release(tensor);
  CHECK(ringload_model_find(model, "b", &tensor) == RINGLOAD_NOT_FOUND && tensor == NULL);
  ringload_model_release(model);
  ringload_selection_release(wanted);
}

enum { names_of_a_thread = 5000 };

static void* add_names(void* selection) {
  char name[32];
  for (int i = 0; i < names_of_a_thread; ++i) {
    snprintf(name, sizeof name, "no such tensor %d", i);
    CHECK(ringload_selection_name((ringload_selection*)selection, name) == RINGLOAD_OK);
  }
  return NULL;
}

// Several threads add names to one selection while loads read the selection.
static void selection_of_several_threads(ringload_loader* loader, const ringload_checkpoint* file) {
  ringload_selection* wanted = NULL;
  CHECK(ringload_selection_create(&wanted) == RINGLOAD_OK);
  CHECK(ringload_selection_name(wanted, "a") == RINGLOAD_OK);
  CHECK(ringload_selection_allow_missing(wanted) == RINGLOAD_OK);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, add_names, wanted) == 0);
  for (int i = 0; i < 4; ++i) {
    ringload_model* model = NULL;
    CHECK(ringload_load(loader, file, wanted, NULL, &model) == RINGLOAD_OK);
    CHECK(ringload_model_size(model) == 1);
    ringload_model_release(model);
  }
  for (int i = 0; i < 4; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  ringload_selection_release(wanted);
}

static void chosen_devices(const ringload_checkpoint* file) {
  const ringload_device* const two_hosts[2] = {NULL, NULL};
  ringload_loader* loader = NULL;
  CHECK(ringload_loader_create_on(two_hosts, 2, NULL, NULL, 0, &loader) == RINGLOAD_OK);
  struct asked asked = {0, 0};
  ringload_selection* wanted = NULL;
  CHECK(ringload_selection_create(&wanted) == RINGLOAD_OK);
  CHECK(ringload_selection_on_choice(wanted, NULL, NULL) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_selection_on_choice(wanted, second_for_matrices, &asked) == RINGLOAD_OK);
  ringload_model* model = NULL;
  CHECK(ringload_load(loader, file, wanted, NULL, &model) == RINGLOAD_OK);
  CHECK(asked.calls == 2 && asked.right == 2);
  ringload_tensor* tensor = NULL;
  CHECK(ringload_model_find_on(model, "a", 0, &tensor) == RINGLOAD_NOT_FOUND && tensor == NULL);
  CHECK(ringload_model_find_on(model, "a", 1, &tensor) == RINGLOAD_OK && is_whole(tensor));
  ringload_tensor_release(tensor);
  for (uint32_t device = 0; device < 2; ++device) {
    CHECK(ringload_model_find_on(model, "b", device, &tensor) == RINGLOAD_OK);
    ringload_tensor_release(tensor);
  }
  ringload_model_release(model);
  ringload_selection_release(wanted);
  ringload_loader_release(loader);
}

static void chosen_conversions(ringload_loader* loader, const ringload_checkpoint* file) {
  struct asked asked = {0, 0};
  ringload_load_options options = RINGLOAD_STRUCT(ringload_load_options);
  options.dtype = RINGLOAD_F16;
  options.converts_context = &asked;
  for (int converts = 0; converts < 2; ++converts) {
    options.converts = converts ? is_matrix : never;
    ringload_model* model = NULL;
    CHECK(ringload_load(loader, file, NULL, &options, &model) == RINGLOAD_OK);
    ringload_tensor* tensor = NULL;
    CHECK(ringload_model_find(model, "a", &tensor) == RINGLOAD_OK);
    ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
    CHECK(ringload_tensor_look(tensor, &view) == RINGLOAD_OK);
    CHECK(view.dtype == (converts ? RINGLOAD_F16 : RINGLOAD_F32));
    CHECK(converts || is_whole(tensor));
    ringload_tensor_release(tensor);
    ringload_model_release(model);
  }
  CHECK(asked.calls == 2 && asked.right == 2);  // 'b' is not convertible.
}

// An event loop that runs one function.
struct event_loop {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  void (*function)(void*);
  void* argument;
};

static void post_to(void* context, void (*function)(void*), void* argument) {
  struct event_loop* const loop = context;
  pthread_mutex_lock(&loop->mutex);
  CHECK(loop->function == NULL);
  loop->function = function;
  loop->argument = argument;
  pthread_cond_signal(&loop->changed);
  pthread_mutex_unlock(&loop->mutex);
}

static void run_one(struct event_loop* loop) {
  pthread_mutex_lock(&loop->mutex);
  while (loop->function == NULL) pthread_cond_wait(&loop->changed, &loop->mutex);
  void (*const function)(void*) = loop->function;
  loop->function = NULL;
  pthread_mutex_unlock(&loop->mutex);
  function(loop->argument);
}

struct ended {
  pthread_t thread;
  int calls;
  ringload_status status, status_of_waiting;
  int is_missing;  // If not 0, the last error of the callback's thread is that of the operation.
  ringload_loader* loader;
  const ringload_checkpoint* file;
};

static void note_end(void* context, ringload_status status) {
  struct ended* const ended = context;
  ended->thread = pthread_self();
  ended->status = status;
  ended->is_missing = strcmp(ringload_last_error_place(), "/no/such.safetensors") == 0;
  ++ended->calls;
  // A callback in a thread of the caller may wait.
  ringload_model* model = NULL;
  ended->status_of_waiting = ringload_load(ended->loader, ended->file, NULL, NULL, &model);
  ringload_model_release(model);
}

static void called_in_a_loop(ringload_loader* loader, const ringload_checkpoint* file) {
  struct event_loop loop = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL};
  struct ended ended = {pthread_self(), 0, RINGLOAD_OK, RINGLOAD_OK, 0, loader, file};
  ringload_executor executor = RINGLOAD_STRUCT(ringload_executor);
  executor.context = &loop;
  const char* const missing = "/no/such.safetensors";
  ringload_operation* open = NULL;
  CHECK(ringload_open_begin(loader, &missing, 1, NULL, &open) == RINGLOAD_OK);
  CHECK(ringload_operation_on_end_in(open, NULL, note_end, &ended) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_operation_on_end_in(open, &executor, note_end, &ended) ==
        RINGLOAD_INVALID_ARGUMENT);
  executor.post = post_to;
  CHECK(ringload_operation_on_end_in(open, &executor, NULL, &ended) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(ringload_operation_on_end_in(open, &executor, note_end, &ended) == RINGLOAD_OK);
  CHECK(ended.calls == 0);
  run_one(&loop);
  CHECK(ended.calls == 1 && pthread_equal(ended.thread, pthread_self()));
  CHECK(ended.status == RINGLOAD_NOT_FOUND && ended.is_missing);
  CHECK(ended.status_of_waiting == RINGLOAD_OK);

  // The operation has ended. Its release, before the callback runs, changes nothing.
  CHECK(ringload_operation_on_end_in(open, &executor, note_end, &ended) == RINGLOAD_OK);
  ringload_operation_release(open);
  CHECK(ended.calls == 1);
  run_one(&loop);
  CHECK(ended.calls == 2 && ended.status == RINGLOAD_NOT_FOUND);
}

void callbacks_chapter(ringload_loader* loader, const ringload_checkpoint* file) {
  chosen_tensors(loader, file);
  selection_of_several_threads(loader, file);
  chosen_devices(file);
  chosen_conversions(loader, file);
  called_in_a_loop(loader, file);
}
