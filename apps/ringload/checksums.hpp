// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads a checkpoint, as a whole or through a window, and hashes each tensor. Used by the commands
// `sum` and `verify`.

#include <functional>
#include <ringload/checkpoint.hpp>
#include <ringload/stats.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "requests.hpp"

namespace ringload::tool {

struct checksum_result {
  catalog loaded;  // The loaded tensors.
  load_stats stats;
  checkpoint whole;                 // Also lists the tensors that are not selected.
  std::vector<tensor_digest> sums;  // Sorted by name, as unsigned bytes.
  double seconds_starting = 0;      // The time to create the loader.
  double seconds_opening = 0;       // The time to open the checkpoint.
  std::vector<file_stats> of_files = {};
};

/// Hashes the selected tensors. `algorithm_of` returns the algorithm for the tensor with a name.
/// The caller must have called watch_for_interrupts(). Throws the error of the load, or
/// `interrupted`.
checksum_result sum_all_tensors(
    const load_request& request,
    const std::function<digest_algorithm(std::string_view)>& algorithm_of);

/// Hashes the model that a keeper serves under the name of the first source.
checksum_result sum_attached(const load_request& request, const std::string& socket,
                             const std::function<digest_algorithm(std::string_view)>& algorithm_of);

}  // namespace ringload::tool
