// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the statistics of a load, as text and as JSON.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <ringload/stats.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"

namespace ringload::tool {

struct load_report {
  const std::vector<std::string>& sources;
  const std::string& device;  // The name, such as "host".
  const catalog& loaded;      // The selected tensors, as stored in the files.
  const load_stats& stats;
  const std::vector<file_stats>& of_files;  // Indexed by file of the catalog.
  double seconds_starting;  // The time to create the loader, before the load's own clock starts.
  bool verified = false;    // True if the load verified digests.
  std::uint64_t tensor_bytes_peak = 0;  // The maximum memory of tensors at the same time.
};

/// Returns decimal gigabytes per second, or 0 if no time has passed.
double gb_per_s(const load_stats& stats) noexcept;

std::string report_text(const load_report& report);

/// Returns a text which states that `files` files of a model hub were not verified.
std::string unverified_text(std::uint64_t files);

/// Appends the field "source": a string, or a list for several files.
void append_source(json_object& to, const std::vector<std::string>& sources);

/// Appends an object, without a line feed.
void append_report(std::string& to, const load_report& report);

}  // namespace ringload::tool
