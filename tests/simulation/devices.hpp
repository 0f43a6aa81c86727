// SPDX-License-Identifier: Apache-2.0
#pragma once

// The GPUs of a simulated world: the stand-in for CUDA, for which the seed chooses. A task begins
// late, copies its bytes at a random moment, and ends later. Only its stream and the waits of the
// program order a task. Threads of the world carry out the tasks and call the host functions.

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringload::simulation {

// Starts the devices of the world, if it has any.
void begin_devices();

// Waits until the library has freed everything, and checks that nothing is left on the devices.
void end_devices();

// Returns when only the threads of the devices are left beside the calling thread.
void await_freed_memory();

// Returns true if a task that a device has not ended reads or writes the memory.
bool devices_use(const std::byte* memory, std::uint64_t bytes);

// Returns true if every call of CUDA fails from now on.
bool devices_are_broken();

// The bytes on a device, without a call of CUDA.
std::string bytes_on_device(const void* address, std::size_t bytes, int device);

// While an object lives, no call of CUDA in this thread fails, unless the devices are broken.
class certain_calls {
 public:
  certain_calls() noexcept { ++depth; }
  certain_calls(const certain_calls&) = delete;
  certain_calls& operator=(const certain_calls&) = delete;
  ~certain_calls() { --depth; }

  static bool exist() noexcept { return depth > 0; }

 private:
  static thread_local int depth;
};

}  // namespace ringload::simulation
