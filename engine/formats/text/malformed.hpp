// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/fault.hpp"

namespace ringload::inline v0 {

inline fault malformed(std::string cause) { return {errc::malformed_header, "", std::move(cause)}; }

inline fault malformed_at(std::uint64_t byte, std::string cause) {
  return {errc::malformed_header, "byte " + grouped(byte), std::move(cause)};
}

inline fault unsupported(std::string cause) {
  return {errc::unsupported_feature, "", std::move(cause)};
}

}  // namespace ringload::inline v0
