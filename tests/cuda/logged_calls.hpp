// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace ringload::testing {

// The rows of a call in an allocation log, and the sum of their sizes.
struct logged_calls {
  unsigned count = 0;
  std::uint64_t bytes = 0;

  logged_calls(const std::string& log, const std::string& call) {
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string time, name, pointer, size;
      std::getline(fields, time, ',');
      std::getline(fields, name, ',');
      std::getline(fields, pointer, ',');
      std::getline(fields, size, ',');
      if (name != call) continue;
      count += 1;
      bytes += std::stoull(size);
    }
  }
};

}  // namespace ringload::testing
