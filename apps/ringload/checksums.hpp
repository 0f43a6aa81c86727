// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads a checkpoint, at once or through a window, and hashes each tensor: for sum to print and
// verify to compare.

#include <functional>
#include <ringload/checkpoint.hpp>
#include <ringload/stats.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "requests.hpp"

namespace ringload::tool {

struct summed {
  catalog loaded;  // What was loaded of it.
  load_stats stats;
  checkpoint whole;                 // What the tensors were chosen from.
  std::vector<tensor_digest> sums;  // Sorted by name, as unsigned bytes.
  double seconds_starting = 0;      // That the loader took to start.
  double seconds_opening = 0;       // That opening the checkpoint took.
  std::vector<file_stats> of_files = {};
};

/// `algorithm_of` is asked for each tensor, by its name. Interrupts are watched for already. Throws
/// what the load throws, or `interrupted`.
summed sum_all_tensors(const load_request& request,
                       const std::function<digest_algorithm(std::string_view)>& algorithm_of);

/// The same of the model that a keeper has under the first source's name.
summed sum_attached(const load_request& request, const std::string& socket,
                    const std::function<digest_algorithm(std::string_view)>& algorithm_of);

}  // namespace ringload::tool
