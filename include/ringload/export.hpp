// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exports a symbol from the shared library libringload. All other symbols are hidden. The macro has
// the same value in the library and in programs that use the library, static or shared. Therefore a
// program need not define a macro before it includes a header.

#define RINGLOAD_EXPORT __attribute__((visibility("default")))

// Declares a default constructor of a struct of options for g++, so that the struct is not an
// aggregate. Reason: g++ 12 destroys the members of an aggregate twice if the aggregate is a
// temporary of a co_await expression. With clang, the struct remains an aggregate and supports
// designated initialisers.
#if defined(__clang__)
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
