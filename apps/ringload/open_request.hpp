// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens the sources of a command line, to read their catalog or to load them.

#include <boost/asio/awaitable.hpp>
#include <ringload/catalog.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/extension.hpp>
#include <ringload/loader.hpp>
#include <ringload/model.hpp>
#include <ringload/stats.hpp>
#include <string>
#include <vector>

#include "progress_bar.hpp"
#include "requests.hpp"

namespace ringload::tool {

/// Returns the extensions of a loader for these sources. The network extension is included only if
/// a source is not local.
std::vector<extension> extensions_for(const source_request& from);

/// Returns the whole catalog. Throws `ringload::error`.
catalog catalog_of(const source_request& from);

/// Returns the source as text: the first source, and the number of further sources.
std::string shown(const source_request& from);

struct started_load {
  started_load() = default;

  checkpoint file;
  load_operation load;   // Set for a load without a window.
  tensor_stream stream;  // Set for a load with a window.
  bool windowed = false;
  tensor_stream& tensors() noexcept { return windowed ? stream : load; }
  const tensor_stream& tensors() const noexcept { return windowed ? stream : load; }
  double seconds_opening = 0;  // The time before the load's own clock starts.
};

/// The state of a load that its coroutine shares with the progress bar and the report.
struct running_load {
  const load_request& request;
  loader& file_loader;
  started_load started = {};
  bool loads = false;  // True if `started` is set.
  model loaded = {};
};

/// Returns true if the source is a folder of versions, see `load_version_async`.
bool is_version_folder(const source_request& from);

/// Opens the checkpoint. Both arguments must outlive the coroutine.
boost::asio::awaitable<checkpoint> open_checkpoint(loader& file_loader, const source_request& from);

/// Opens the checkpoint and starts to load the selected tensors. Both arguments must outlive the
/// coroutine.
boost::asio::awaitable<started_load> start_load(loader& file_loader, const load_request& request);

/// Starts the load, and waits for the whole model. The argument must outlive the coroutine.
boost::asio::awaitable<void> load_all(running_load& one);

/// Returns the progress of the load. Before the load has started, all values are 0.
progress so_far(const running_load& one);

/// Adds the time of opening to the statistics, as if the load had opened the checkpoint.
load_stats with_opening(load_stats of, double seconds_opening);

}  // namespace ringload::tool
