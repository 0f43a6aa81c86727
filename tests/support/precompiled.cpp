// SPDX-License-Identifier: Apache-2.0

// Exists for the precompiled headers: see tests/CMakeLists.txt.
