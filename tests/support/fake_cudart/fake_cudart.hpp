// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stand-in for the CUDA runtime, which is linked instead. Detects errors that would fail on a
// GPU.
//
// Device memory has addresses that the host cannot access. A thread acts as the device: it carries
// out the tasks of the streams late, and in any order between streams. A copy reads its source only
// when it is carried out, and then overwrites the source, unless the source is pinned for several
// devices or is device memory to which no drive has written. Therefore a slot that is filled too
// early, or read after its release, causes wrong bytes. Kernels are those of the library, compiled
// for the CPU. They must get the device address of pinned memory, and overwrite their source too.
//
// The stand-in behaves like the worst real device. Nearly every call creates a context. A stream
// has a limited number of tasks, and then blocks its callers. cudaFree, cudaHostUnregister and
// cudaStreamDestroy wait for all work of their device. The next cudaMalloc returns the same
// address. Host functions run one after another. Calls of other threads invalidate graph captures.
//
// A test can make any function fail. Calls that a real runtime refuses, or only seems to accept,
// are recorded as misuse: memory that is not pinned, a stream of another device, an error that is
// not cleared, memory that is freed while a stream uses it, and a kernel that its first launch
// loads.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/fake_cudart/choices.hpp"

namespace ringload::testing::fake_cudart {

inline constexpr int devices = 2;  // Unless have_devices() was called.
inline constexpr std::size_t memory_bytes = std::size_t{64} << 20;  // Of each device.

// The distance between the device address and the host address of pinned memory.
inline constexpr std::size_t mapped_at = std::size_t{1} << 47U;

// The byte with which copies and kernels overwrite their source.
inline constexpr unsigned char poison = 0xEE;

// Resets failures, counts and misuse. No earlier resource may be in use.
void reset();

// The number of devices until the next reset.
void have_devices(int count);

// Replaces the choices of the device until the next reset. `by` must exist until then.
void choose_by(choices& by);

// Starts the threads of the device, which the first stream starts otherwise. Throws
// std::system_error.
void start();

// Makes the nth future call of the function fail, counted from 1, in addition to other failures.
// Functions that release a resource release it nevertheless.
void fail(const std::string& function, unsigned nth, cudaError_t with);
// No later call fails by fail().
void forget_failures();

// Breaks the context when the nth future copy or kernel is carried out. Afterwards, every call
// returns an error, and no task of a stream is carried out.
void break_at_copy(unsigned nth, cudaError_t with);

// Simulates a machine without a device: the results of cudaGetDeviceCount and cudaDriverGetVersion.
void no_device(cudaError_t said, int driver_version);

// The device carries out no task until let_go().
void hold();
void let_go();

// No kernel begins until let_go(), as if a kernel of the program occupied the device. Copies are
// carried out.
void hold_kernels();

// Decides whether cudaFree, cudaHostUnregister and cudaStreamDestroy wait for all work of their
// device. Real devices differ, so a program must not rely on either behaviour. By default, they
// wait.
void free_waits(bool does);

// Afterwards, copies from and to memory that is not pinned are not misuse.
void expect_pageable();

// How often each function was called since the last reset.
std::map<std::string, unsigned> calls();

// The devices that have a context.
std::set<int> contexts();

// The addresses of all pinned ranges.
std::vector<const void*> pinned_memory();

// The devices are integrated, so they share the memory of the host. cudaMemGetInfo reports no free
// memory, as if the page cache occupied all of it.
void integrate();

// The devices cannot read each other's memory.
void not_connected();

// The connection of the devices is defective: each copy between them damages its last byte or, if
// `stuck` is set, never ends.
void badly_connected(bool stuck);

// Like reset(), for a program that does not release its streams and events, but never uses them
// again.
void reset_abandoned();

// Bytes that were copied since the last reset: from the host to devices, from devices to the host,
// and between devices.
struct bytes_moved {
  std::size_t up = 0;
  std::size_t down = 0;
  std::size_t across = 0;
};
bytes_moved moved();

// Writes to memory of the current device, as a drive does. Records misuse if a stream still uses
// the memory.
bool write_by_drive(void* to, const void* from, std::size_t bytes);

// Returns true for memory of the current device.
bool is_device_memory(const void* memory, std::size_t bytes);

// The number of copies and kernels that are not carried out yet.
std::size_t waiting_copies();

// The names of device memory, pinned ranges, streams and events that were not released. Empty if
// all were released.
std::string left_over();

std::vector<std::string> misuse();

}  // namespace ringload::testing::fake_cudart
