// SPDX-License-Identifier: Apache-2.0

// For a program that is no test and holds objects of tests: these name doctest, where the headers
// that most tests include are precompiled.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
