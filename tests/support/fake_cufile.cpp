// SPDX-License-Identifier: Apache-2.0

// A stand-in for the library cuFile, with the program's stand-in for CUDA as its device. Reads the
// file with pread and writes the bytes to device memory, late. Calls that the real library refuses,
// or answers by reading through the host, are recorded as misuse: memory that is not registered,
// offsets and sizes that are not whole blocks, a file that is not open for direct reads or was
// closed before it was deregistered, and memory that was freed.

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "support/fake_cudart/fake_cudart.hpp"

using namespace ringload::testing::fake_cudart;

namespace {

constexpr int not_initialized = 5001;
constexpr int invalid_value = 5022;
constexpr int already_registered = 5023;
constexpr int not_registered = 5024;
constexpr int not_direct = 5020;
constexpr std::size_t block = 4096;
constexpr std::size_t gpu_page = 65'536;
constexpr unsigned compatibility_flag = 1U << 1U;

struct file {
  int descriptor;
  unsigned reads = 0;  // In progress.
};

struct registered_memory {
  std::size_t bytes;
  unsigned reads = 0;
};

// Never destroyed, because a thread may wait here until the process ends.
struct state {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  bool allows_compatibility = true;
  bool keeps_compatibility = false;
  bool hangs = false;
  bool holds = false;
  unsigned waiting = 0;
  std::size_t bytes_max = 0;
  std::map<std::string, unsigned> counts;
  std::map<std::pair<std::string, unsigned>, int> failures;
  std::map<const std::byte*, registered_memory> memory;
  std::map<file*, std::unique_ptr<file>> files;
  std::string misuse;
};

state& the() {
  static state& one = *new state;
  return one;
}

// Counts the call. Returns the requested error, or 0. The mutex must be held.
int count(const char* name) {
  const unsigned nth = ++the().counts[name];
  const auto found = the().failures.find({name, nth});
  return found == the().failures.end() ? 0 : found->second;
}

void complain(const std::string& what) { the().misuse += what + "; "; }

}  // namespace

extern "C" {

struct cufile_error {
  int code;
  int driver_code;
};

struct cufile_properties {
  struct {
    unsigned major_version, minor_version;
    std::size_t poll_threshold, direct_io_max;
    unsigned status_flags, control_flags;
  } nvfs;
  unsigned feature_flags, device_cache, buffer_cache, pinned_max, batch_max, batch_timeout;
};

struct cufile_descriptor {
  int type;
  union {
    int descriptor;
    void* handle;
  } file;
  const void* operations;
};

cufile_error cuFileSetParameterBool(int parameter, bool value) {
  const std::lock_guard lock(the().mutex);
  if (const int failed = count("cuFileSetParameterBool")) return {failed, 0};
  if (the().is_open) complain("a parameter is set after the driver was opened");
  if (parameter == 1 && !the().keeps_compatibility) the().allows_compatibility = value;
  return {0, 0};
}

cufile_error cuFileDriverOpen() {
  std::unique_lock lock(the().mutex);
  const int failed = count("cuFileDriverOpen");
  the().changed.wait(lock, [] { return !the().hangs; });
  if (failed != 0) return {failed, 0};
  the().is_open = true;
  return {0, 0};
}

cufile_error cuFileDriverGetProperties(cufile_properties* properties) {
  const std::lock_guard lock(the().mutex);
  if (const int failed = count("cuFileDriverGetProperties")) return {failed, 0};
  *properties = {};
  properties->nvfs.control_flags = the().allows_compatibility ? compatibility_flag : 0;
  return {0, 0};
}

cufile_error cuFileHandleRegister(void** handle, cufile_descriptor* described) {
  const std::lock_guard lock(the().mutex);
  if (const int failed = count("cuFileHandleRegister")) return {failed, 0};
  if (!the().is_open) return {not_initialized, 0};
  const int flags = ::fcntl(described->file.descriptor, F_GETFL);
  if (described->type != 1 || flags < 0) return {invalid_value, 0};
  if ((flags & O_DIRECT) == 0) return {not_direct, 0};
  for (const auto& [known, owned] : the().files) {
    if (known->descriptor != described->file.descriptor) continue;
    complain("a descriptor is registered twice");
    return {already_registered, 0};
  }
  auto created = std::make_unique<file>();
  created->descriptor = described->file.descriptor;
  *handle = created.get();
  the().files[created.get()] = std::move(created);
  return {0, 0};
}

void cuFileHandleDeregister(void* handle) {
  const std::lock_guard lock(the().mutex);
  (void)count("cuFileHandleDeregister");
  const auto found = the().files.find(static_cast<file*>(handle));
  if (found == the().files.end()) return complain("no such file is registered");
  if (found->first->reads > 0) complain("a file is deregistered while it is read");
  if (::fcntl(found->first->descriptor, F_GETFD) < 0) {
    complain("a file was closed before it was deregistered");
  }
  the().files.erase(found);
}

cufile_error cuFileBufRegister(const void* memory, std::size_t bytes, int flags) {
  const bool is_on_device = is_device_memory(memory, bytes);
  const std::lock_guard lock(the().mutex);
  if (const int failed = count("cuFileBufRegister")) return {failed, 0};
  if (!the().is_open) return {not_initialized, 0};
  const auto* const begin = static_cast<const std::byte*>(memory);
  if (flags != 0 || !is_on_device) {
    complain("memory is registered that is no memory of the current device");
    return {invalid_value, 0};
  }
  if (reinterpret_cast<std::uintptr_t>(begin) % gpu_page != 0 || bytes % gpu_page != 0) {
    complain("registered memory is no whole pages of the GPU");
  }
  if (!the().memory.emplace(begin, registered_memory{bytes}).second) {
    complain("memory is registered twice");
    return {already_registered, 0};
  }
  return {0, 0};
}

cufile_error cuFileBufDeregister(const void* memory) {
  const std::lock_guard lock(the().mutex);
  const int failed = count("cuFileBufDeregister");
  const auto found = the().memory.find(static_cast<const std::byte*>(memory));
  if (found == the().memory.end()) {
    complain("memory is deregistered that is not registered");
    return {not_registered, 0};
  }
  if (!is_device_memory(memory, found->second.bytes)) {
    complain("memory was freed before it was deregistered");
  }
  if (found->second.reads > 0) complain("memory is deregistered while a file is read into it");
  if (failed != 0) return {failed, 0};
  the().memory.erase(found);
  return {0, 0};
}

::ssize_t cuFileRead(void* handle, void* base, std::size_t bytes, ::off_t file_offset,
                     ::off_t memory_offset) {
  std::unique_lock lock(the().mutex);
  const int failed = count("cuFileRead");
  const auto registered = the().files.find(static_cast<file*>(handle));
  const auto into = the().memory.find(static_cast<const std::byte*>(base));
  if (registered == the().files.end() || into == the().memory.end()) {
    complain("a read without registered memory or file");
    return -not_registered;
  }
  const auto offset = static_cast<std::size_t>(memory_offset);
  if (offset + bytes > into->second.bytes) {
    complain("a read past the end of its memory");
    return -invalid_value;
  }
  if (bytes % block != 0 || static_cast<std::size_t>(file_offset) % block != 0 ||
      offset % block != 0) {
    complain("a read that is no whole blocks, which would go through the host");
  }
  file& from = *registered->first;
  registered_memory& memory = into->second;
  ++from.reads;
  ++memory.reads;
  ++the().waiting;
  the().changed.notify_all();
  the().changed.wait(lock, [] { return !the().holds; });
  --the().waiting;
  const std::size_t most = the().bytes_max;
  lock.unlock();
  void* room = nullptr;
  ::ssize_t got = -1;
  if (::posix_memalign(&room, block, bytes) == 0) {
    got = ::pread(from.descriptor, room, bytes, file_offset);
  }
  if (got > 0 && most > 0)
    got = static_cast<::ssize_t>(std::min(static_cast<std::size_t>(got), most));
  const bool is_there =
      failed != 0 || got <= 0 ||
      write_by_drive(static_cast<std::byte*>(base) + offset, room, static_cast<std::size_t>(got));
  std::free(room);
  lock.lock();
  --from.reads;
  --memory.reads;
  if (!is_there) complain("a read into memory that is no memory of the current device");
  if (failed > 5000) return -failed;
  if (failed != 0) {
    errno = failed;
    return -1;
  }
  return got;
}

// For tests.

void fake_cufile_reset() {
  const std::lock_guard lock(the().mutex);
  the().is_open = the().keeps_compatibility = the().hangs = the().holds = false;
  the().allows_compatibility = true;
  the().bytes_max = 0;
  the().counts.clear();
  the().failures.clear();
  the().memory.clear();
  the().files.clear();
  the().misuse.clear();
  the().changed.notify_all();
}

void fake_cufile_fail(const char* name, unsigned nth, int code) {
  const std::lock_guard lock(the().mutex);
  the().failures[{name, the().counts[name] + nth}] = code;
}

void fake_cufile_shorten(std::size_t bytes_max) {
  const std::lock_guard lock(the().mutex);
  the().bytes_max = bytes_max;
}

void fake_cufile_keep_compatibility() {
  const std::lock_guard lock(the().mutex);
  the().keeps_compatibility = true;
}

void fake_cufile_hang(bool does) {
  const std::lock_guard lock(the().mutex);
  the().hangs = does;
  the().changed.notify_all();
}

void fake_cufile_hold(bool does) {
  const std::lock_guard lock(the().mutex);
  the().holds = does;
  the().changed.notify_all();
}

unsigned fake_cufile_waiting() {
  const std::lock_guard lock(the().mutex);
  return the().waiting;
}

unsigned fake_cufile_calls(const char* name) {
  const std::lock_guard lock(the().mutex);
  return the().counts[name];
}

unsigned fake_cufile_memory() {
  const std::lock_guard lock(the().mutex);
  return static_cast<unsigned>(the().memory.size());
}

unsigned fake_cufile_files() {
  const std::lock_guard lock(the().mutex);
  return static_cast<unsigned>(the().files.size());
}

const char* fake_cufile_misuse() {
  const std::lock_guard lock(the().mutex);
  static std::string& text = *new std::string;
  text = the().misuse;
  return text.c_str();
}
}
