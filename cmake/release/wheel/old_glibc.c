/* SPDX-License-Identifier: Apache-2.0
 *
 * Symbols that libstdc++ 12 and the library use and glibc 2.28 lacks.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/* From glibc 2.32 on: whether the process has one thread. "No" is always safe. */
char __libc_single_threaded = 0;

static int64_t nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

typedef int wait_function(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);

/* From glibc 2.30 on. Without it the wait is on the system clock, as it was in libstdc++ before: if
 * that clock is set meanwhile, the wait is shorter or longer. Callers look at their clock again. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  static wait_function* volatile found;
  static volatile int searched;
  if (!searched) {
    found = (wait_function*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    searched = 1;
  }
  if (found) return found(condition, mutex, clock, until);
  struct timespec real = *until;
  if (clock != CLOCK_REALTIME) {
    const int64_t wanted = (int64_t)until->tv_sec * 1000000000 + until->tv_nsec;
    const int64_t left = wanted - nanoseconds(clock);
    const int64_t end = nanoseconds(CLOCK_REALTIME) + (left > 0 ? left : 0);
    real.tv_sec = (time_t)(end / 1000000000);
    real.tv_nsec = (long)(end % 1000000000);
  }
  return pthread_cond_timedwait(condition, mutex, &real);
}

typedef int close_function(posix_spawn_file_actions_t*, int);

/* From glibc 2.34 on. Without it the descriptors that are open now are closed. The library opens none
 * that a child inherits, but another library may at that moment. */
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int first) {
  close_function* const found =
      (close_function*)dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");
  if (found) return found(actions, first);
  DIR* const folder = opendir("/proc/self/fd");
  if (!folder) return errno;
  int failure = 0;
  for (struct dirent* entry; !failure && (entry = readdir(folder));) {
    char* end;
    const long descriptor = strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || descriptor < first || descriptor == dirfd(folder)) continue;
    failure = posix_spawn_file_actions_addclose(actions, (int)descriptor);
  }
  closedir(folder);
  return failure;
}

/* From glibc 2.36 on. Called by libexpat. */
void arc4random_buf(void* bytes, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t more = getrandom((char*)bytes + done, count - done, 0);
    if (more < 0 && errno != EINTR) abort();
    if (more > 0) done += (size_t)more;
  }
}

/* From glibc 2.36 on. Called by std::random_device. */
uint32_t arc4random(void) {
  uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}
