// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exports a symbol from the shared library libringload. All other symbols are hidden. The macro has
// the same value in the library and in programs that use the library, static or shared. Therefore
// programs do not have to define a macro before they include a header.

#define RINGLOAD_EXPORT __attribute__((visibility("default")))

// Declares a default constructor of a struct of options for g++ before version 14, so that the
// struct is not an aggregate. Reason: g++ 12 destroys the members of an aggregate twice if the
// aggregate is a temporary of a co_await expression. With g++ 14 and clang, the struct is an
// aggregate and supports designated initialisers.
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
