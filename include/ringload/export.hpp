// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exports a symbol from a shared library of ringload. All other symbols are hidden. The macro has
// the same value in the libraries and in programs, and for static and shared libraries. Therefore
// programs need not define a macro before they include a header.

#define RINGLOAD_EXPORT __attribute__((visibility("default")))

// Declares the default constructor of an option struct for g++ before version 14, so that the
// struct is not an aggregate. The constructor avoids a bug of g++ 12: if an aggregate is a
// temporary of a co_await expression, the members of the aggregate are destroyed twice. With g++ 14
// and clang, the struct is an aggregate and supports designated initialisers.
#if defined(__clang__) || __GNUC__ >= 14
#define RINGLOAD_OPTION_STRUCT(name)
#else
#define RINGLOAD_OPTION_STRUCT(name) \
  name() {}
#endif

// In a program without exceptions, Asio's classes have another layout than in the library. An
// io_context that the program shares with the library would be damaged.
#if !defined(__cpp_exceptions)
#error "ringload and Asio must be compiled with exceptions: remove -fno-exceptions"
#endif
