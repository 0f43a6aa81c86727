// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stand-in for the CUDA runtime, linked in its place: it shows what a GPU would not forgive.
//
// Device memory is separate memory behind addresses that the host cannot touch. A thread of its own
// is the device: it carries out what the streams hold late, and between streams in any order. A
// copy reads its source when it is carried out and not before, and what it has read it overwrites,
// so a slot that is filled again too early, or given back too late, shows as wrong bytes. So does a
// kernel, which has to be given the address by which the device knows a slot.
//
// Any function can be told to fail. What no real runtime would accept, or would only seem to, is
// written down as misuse: memory that is not pinned, another device's stream, an error left behind.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ringload::testing::fake_cudart {

inline constexpr int devices = 2;
inline constexpr std::size_t memory_bytes = std::size_t{64} << 20;  // Of each device.

// How far the addresses by which the device knows pinned memory are from the host's.
inline constexpr std::size_t mapped_at = std::size_t{1} << 47U;

// What the streams' copies leave behind in their source.
inline constexpr unsigned char poison = 0xEE;

// Back to the beginning: no failures, no counts, no misuse. Nothing of before may be in use.
void reset();

// The nth call of that function from now on, counted from 1, fails. Functions that give something
// back have done so nevertheless.
void fail(const std::string& function, unsigned nth, cudaError_t with);

// When the nth copy of a stream from now on is carried out, the context breaks: from then on every
// call says so, and nothing on a stream is carried out any more.
void break_at_copy(unsigned nth, cudaError_t with);

// As the machine would be without: what cudaGetDeviceCount and cudaDriverGetVersion say.
void no_device(cudaError_t said, int driver_version);

// The device does nothing until it is let go again.
void hold();
void let_go();

// Somebody captures a graph in the global mode, which is the default: what might be unsafe fails in
// every thread that has not said that it knows, and then the graph is spoilt; nothing may wait for
// the device. Returns whether it was spoilt.
void begin_capture();
bool end_capture();

// How often each function was called since the last reset.
std::map<std::string, unsigned> calls();

// Copies that the streams hold.
std::size_t waiting_copies();

// Device memory, pinned ranges, streams and events that were not given back, by name; empty if all
// were.
std::string left_over();

std::vector<std::string> misuse();

}  // namespace ringload::testing::fake_cudart
