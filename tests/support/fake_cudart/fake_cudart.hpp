// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stand-in for the CUDA runtime, linked in its place: it shows what a GPU would not forgive.
//
// Device memory is separate memory behind addresses that the host cannot touch. A thread of its own
// is the device: it carries out what the streams hold late, and between streams in any order. A
// copy reads its source when it is carried out and not before, and what it has read it overwrites,
// but for what is pinned for several devices, so a slot that is filled again too early, or given
// back too late, shows as wrong bytes. Kernels are the library's own, compiled for the processor.
// They have to be given the address by which the device knows pinned memory, and overwrite what
// they have read as well.
//
// It is as unkind as a real device may be: nearly every call makes a context, a stream holds so
// much and then makes callers wait, cudaFree does not wait for work that uses the memory and the
// next cudaMalloc gives the same address, host functions run one after the other, and captured
// graphs are invalidated by calls of other threads.
//
// Any function can be told to fail. What no real runtime would accept, or would only seem to, is
// written down as misuse: memory that is not pinned, another device's stream, an error left behind,
// memory given back while a stream uses it, a kernel that is loaded by its first launch.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ringload::testing::fake_cudart {

inline constexpr int devices = 2;
inline constexpr std::size_t memory_bytes = std::size_t{64} << 20;  // Of each device.

// How far the addresses by which the device knows pinned memory are from the host's.
inline constexpr std::size_t mapped_at = std::size_t{1} << 47U;

// What copies and kernels leave behind in their source.
inline constexpr unsigned char poison = 0xEE;

// Back to the beginning: no failures, no counts, no misuse. Nothing of before may be in use.
void reset();

// The nth call of that function from now on, counted from 1, fails, beside others that are to.
// Functions that give something back have done so nevertheless.
void fail(const std::string& function, unsigned nth, cudaError_t with);

// When the nth copy or kernel of a stream from now on is carried out, the context breaks: from then
// on every call says so, and nothing on a stream is carried out any more.
void break_at_copy(unsigned nth, cudaError_t with);

// As the machine would be without: what cudaGetDeviceCount and cudaDriverGetVersion say.
void no_device(cudaError_t said, int driver_version);

// The device does nothing until it is let go again.
void hold();
void let_go();

// Whether cudaFree waits for all that the device has to do, as it may.
void free_waits(bool does);

// Copies from and to memory that is not pinned are no misuse from now on.
void expect_pageable();

// How often each function was called since the last reset.
std::map<std::string, unsigned> calls();

// The devices that have a context.
std::set<int> contexts();

// Where each piece of pinned memory begins.
std::vector<const void*> pinned_memory();

// The devices cannot read each other's memory.
void not_connected();

// By copies since the last reset: from the host to devices, and from one device to another.
struct bytes_moved {
  std::size_t up = 0;
  std::size_t across = 0;
};
bytes_moved moved();

// Copies and kernels that the streams hold.
std::size_t waiting_copies();

// Device memory, pinned ranges, streams and events that were not given back, by name; empty if all
// were.
std::string left_over();

std::vector<std::string> misuse();

}  // namespace ringload::testing::fake_cudart
