// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ringload/verify.hpp>

namespace ringload::python {

/// Returns a hasher for one tensor by FIPS 180-4, in plain C++. OpenSSL is several times as fast,
/// but a build without the component `remote` has no OpenSSL. Python's hashlib would need the GIL
/// in threads of the library.
hasher make_sha256();

}  // namespace ringload::python
