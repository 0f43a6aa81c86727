// SPDX-License-Identifier: Apache-2.0
#pragma once

// Declarations for the files of test_c_interface.

#include <ringload/c.h>
#include <stdio.h>
#include <string.h>

extern int failures;

static inline void check_that(int holds, const char* what, const char* file, int line) {
  if (holds) return;
  printf("%s:%d: not so: %s (last error: \"%s\")\n", file, line, what, ringload_last_error());
  ++failures;
}
#define CHECK(what) check_that(!!(what), #what, __FILE__, __LINE__)
#define SAYS(part) check_that(strstr(ringload_last_error(), part) != NULL, part, __FILE__, __LINE__)

// Checks that a _begin function fails with RINGLOAD_INVALID_ARGUMENT and sets its handle to null.
// `call` must pass &operation.
#define REFUSES_TO_BEGIN(call)                                       \
  do {                                                               \
    ringload_operation* operation = (ringload_operation*)&failures;  \
    CHECK((call) == RINGLOAD_INVALID_ARGUMENT && operation == NULL); \
  } while (0)

// The checkpoint: 'a' is a matrix of float with ascending elements, and 'b' has the five bytes of
// "bytes".
enum { rows = 300, columns = 1000, elements = rows * columns };
int is_whole(const ringload_tensor* tensor);

// Checksum lists, keepers and extensions. `path` is the checkpoint's.
void further_chapters(ringload_loader* loader, const ringload_checkpoint* file, const char* folder,
                      const char* path);

// Ranks, as threads and as processes. `path` is the checkpoint's.
void ranks_chapter(ringload_loader* loader, const char* folder, const char* path);

// Files of .zt, by the writer.
void writer_chapter(ringload_loader* loader, const ringload_checkpoint* file, const char* folder);

// Files, objects, devices, copies, traces, files in memory. `path` is the checkpoint's.
void catalog_chapter(ringload_loader* loader, const ringload_checkpoint* file, const char* folder,
                     const char* path);

// Functions of the caller that loads call, and callbacks in a thread of the caller.
void callbacks_chapter(ringload_loader* loader, const ringload_checkpoint* file);

// Stores of C functions. `path` is the checkpoint's.
void store_chapter(const char* path);
