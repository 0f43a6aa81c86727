// SPDX-License-Identifier: Apache-2.0
#pragma once

// The sum of memory's bytes, for programs in C++ and, by ctypes, in Python.

#include <cstddef>
#include <cstdint>

#include <ringload/export.hpp>

// Eight bytes at a time, modulo 2^64; what is left at the end, byte by byte.
extern "C" RINGLOAD_EXPORT std::uint64_t sum_of_words(const void* memory, std::size_t bytes);
