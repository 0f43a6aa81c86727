// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attributes as their texts.

#include <ringload/attribute.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringload::testing {

inline std::vector<std::pair<std::string, std::string>> texts_of(const attributes& all) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, value] : all) out.emplace_back(key, value.text());
  return out;
}

}  // namespace ringload::testing
