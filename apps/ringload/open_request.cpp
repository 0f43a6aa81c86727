// SPDX-License-Identifier: Apache-2.0
#include "open_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "extensions.hpp"

namespace ringload::tool {

namespace asio = boost::asio;

std::vector<extension> extensions_for(const source_request& from) {
  // A load of local files reads no credentials, and starts no thread for the network.
  const auto is_here = [](const std::string& source) {
    std::error_code failed;
    return std::filesystem::exists(source, failed);
  };
  if (std::ranges::all_of(from.sources, is_here)) return extensions();
  return extensions(from.remote);
}

catalog catalog_of(const source_request& from) {
  // A header alone is nothing to begin a file of the cache with.
  source_request only_read = from;
  if (from.remote.cache == hub_cache::fill) only_read.remote.cache = hub_cache::read;
  const std::vector<extension> with = extensions_for(only_read);
  if (from.sources.size() > 1) return read_catalog(from.sources, from.how, with);
  return read_catalog(from.sources.front(), from.how, with);
}

std::string shown(const source_request& from) {
  const std::size_t more = from.sources.size() - 1;
  return more == 0 ? from.sources.front() : fmt::format("{} and {} more", from.sources[0], more);
}

asio::awaitable<checkpoint> open_checkpoint(loader& with, const source_request& from) {
  checkpoint out;
  if (from.sources.size() > 1) {
    std::vector<std::string> files = from.sources;
    auto opened = co_await with.open_async(std::move(files), from.how);
    out = std::move(opened);
  } else {
    auto opened = co_await with.open_async(from.sources.front(), from.how);
    out = std::move(opened);
  }
  co_return out;
}

asio::awaitable<started_load> start_load(loader& with, const load_request& request) {
  started_load out;
  const auto before = std::chrono::steady_clock::now();
  auto opened = co_await open_checkpoint(with, request.from);
  out.file = std::move(opened);
  selection wanted = selection_of(request.from.wanted, out.file.catalog());
  const std::chrono::duration<double> opening = std::chrono::steady_clock::now() - before;
  out.seconds_opening = opening.count();
  auto started = co_await with.start_async(out.file, std::move(wanted), request.how);
  out.load = std::move(started);
  co_return out;
}

asio::awaitable<void> load_all(running_load& one) {
  auto started = co_await start_load(one.with, one.request);
  one.started = std::move(started);
  one.loads = true;
  auto loaded = co_await one.started.load.finish_async();
  one.loaded = std::move(loaded);
}

progress so_far(const running_load& one) {
  if (!one.loads) return {};
  const load_stats stats = one.started.load.progress();
  return {stats.bytes_arrived(), stats.bytes_total};
}

load_stats with_opening(load_stats of, double seconds_opening) {
  of.seconds += seconds_opening;
  of.seconds_opening += seconds_opening;
  if (of.seconds_to_first_tensor > 0) of.seconds_to_first_tensor += seconds_opening;
  return of;
}

}  // namespace ringload::tool
