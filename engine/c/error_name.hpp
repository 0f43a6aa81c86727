// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ringload/error.hpp>

namespace ringload::c {

/// Returns the name of the code, for example "truncated_file". Returns an empty string if `code` is
/// not a value of errc.
const char* error_name(errc code) noexcept;
/// Returns an empty string if `code` is not a code of ringload.
const char* error_name(const boost::system::error_code& code) noexcept;

}  // namespace ringload::c
