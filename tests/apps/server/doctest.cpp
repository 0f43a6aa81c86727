// SPDX-License-Identifier: Apache-2.0

// For a program that is not a test but links objects of tests. With precompiled headers, these
// objects refer to doctest.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
