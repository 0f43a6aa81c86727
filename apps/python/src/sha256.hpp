// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ringload/verify.hpp>

namespace ringload::python {

/// A hasher for one tensor by FIPS 180-4, in plain C++: the library takes SHA-256 from its users,
/// and Python's own would need the GIL in threads of the library.
hasher make_sha256();

}  // namespace ringload::python
