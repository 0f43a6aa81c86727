// SPDX-License-Identifier: Apache-2.0
#pragma once

// Adds up the bytes of memory, for programs in C++ and, by ctypes, in Python.

#include <cstddef>
#include <cstdint>

#include <ringload/export.hpp>

// Adds up words of eight bytes, modulo 2^64, and then the remaining bytes.
extern "C" RINGLOAD_EXPORT std::uint64_t sum_of_words(const void* memory, std::size_t bytes);
