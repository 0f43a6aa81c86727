// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the statistics of a load, as text and as JSON.

#include <ringload/catalog.hpp>
#include <ringload/stats.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"

namespace ringload::tool {

struct load_report {
  const std::vector<std::string>& sources;
  const std::string& device;  // Its name: "host".
  const catalog& loaded;      // What was wanted, as the files have it.
  const load_stats& stats;
  const std::vector<file_stats>& of_files;  // By file of the catalog.
  double seconds_starting;  // That the loader took to start, before the load's own clock.
  bool verified = false;    // Against a manifest.
  std::uint64_t tensor_bytes_peak = 0;  // The most memory that tensors took at once.
};

/// Decimal gigabytes a second; 0 where no time has passed.
double gb_per_s(const load_stats& stats) noexcept;

/// Several lines.
std::string report_text(const load_report& report);

/// The field "source": a string; of several files a list of them.
void append_source(json_object& to, const std::vector<std::string>& sources);

/// One object, without a line's end.
void append_report(std::string& to, const load_report& report);

}  // namespace ringload::tool
