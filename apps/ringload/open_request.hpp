// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the sources and the selection of a command line to a catalog, or to a load.

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

/// What a loader of these sources is made with: the network only where one of them is not here.
std::vector<extension> extensions_for(const source_request& from);

/// The whole catalog. Throws `ringload::error`.
catalog catalog_of(const source_request& from);

/// The source; of several the first, and how many there are besides.
std::string shown(const source_request& from);

struct started_load {
  started_load() = default;

  checkpoint file;
  load_operation load;
  double seconds_opening = 0;  // Before the load's own clock.
};

/// A load as its coroutine leaves it for the progress bar and for the report.
struct running_load {
  const load_request& request;
  loader& with;
  started_load started = {};
  bool loads = false;  // `started` is there.
  model loaded = {};
};

/// Opens the checkpoint. `with` and `from` outlive the coroutine.
boost::asio::awaitable<checkpoint> open_checkpoint(loader& with, const source_request& from);

/// Opens the checkpoint and starts to load what is wanted of it. `with` and `request` outlive the
/// coroutine.
boost::asio::awaitable<started_load> start_load(loader& with, const load_request& request);

/// Starts it, and waits for the whole model. `one` outlives the coroutine.
boost::asio::awaitable<void> load_all(running_load& one);

/// Before it is started, nothing.
progress so_far(const running_load& one);

/// The statistics with the time of opening in them, as if the load had opened the checkpoint.
load_stats with_opening(load_stats of, double seconds_opening);

}  // namespace ringload::tool
