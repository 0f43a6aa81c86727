// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks the exported symbols of a shared libringload; all other symbols are hidden. The macro is
// the same for building and for using the library, static or shared, so a program defines nothing
// before it includes this header.

#define RINGLOAD_EXPORT __attribute__((visibility("default")))
