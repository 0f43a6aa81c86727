// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks what a shared libringload shows; all else in it is hidden. The same for who builds the
// library and who uses it, static or shared, so there is nothing to define before this is included.

#define RINGLOAD_EXPORT __attribute__((visibility("default")))
