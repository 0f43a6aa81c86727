// SPDX-License-Identifier: Apache-2.0
#include "open_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ringload/delta.hpp>
#include <ringload/error.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "extensions.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace asio = boost::asio;

std::vector<extension> extensions_for(const source_request& from) {
  // A load of local files reads no credentials, and starts no network thread.
  const auto is_here = [](const std::string& source) {
    std::error_code failed;
    return std::filesystem::exists(source, failed);
  };
  if (std::ranges::all_of(from.sources, is_here)) return extensions();
  return extensions(from.remote);
}

source source_of(const source_request& from) {
  return from.sources.size() > 1 ? source(from.sources) : source(from.sources.front());
}

catalog catalog_of(const source_request& from) {
  // Does not write to the cache, because reading a header must not create a file in the cache.
  source_request only_read = from;
  if (from.remote.cache == hub_cache::fill) only_read.remote.cache = hub_cache::read;
  return read_catalog(source_of(from), from.how, extensions_for(only_read));
}

std::string shown(const source_request& from) {
  const std::size_t more = from.sources.size() - 1;
  return more == 0 ? from.sources.front() : fmt::format("{} and {} more", from.sources[0], more);
}

asio::awaitable<checkpoint> open_checkpoint(loader& file_loader, const source_request& from) {
  const source files = source_of(from);
  auto opened = co_await file_loader.open_async(files, from.how);
  co_return opened;
}

asio::awaitable<started_load> start_load(loader& file_loader, const load_request& request) {
  started_load out;
  const auto before = std::chrono::steady_clock::now();
  auto opened = co_await open_checkpoint(file_loader, request.from);
  out.file = std::move(opened);
  load_options options = request.how;
  options.select = selection_of(request.from.wanted, out.file.catalog());
  const std::chrono::duration<double> opening = std::chrono::steady_clock::now() - before;
  out.seconds_opening = opening.count();
  if (request.window_bytes > 0) {
    auto stream = co_await file_loader.stream_async(out.file, request.window_bytes, options);
    out.stream = std::move(stream);
    out.windowed = true;
  } else {
    auto started = co_await file_loader.start_async(out.file, options);
    out.load = std::move(started);
  }
  co_return out;
}

namespace {

// Returns true for the name of a folder such as weight_v000007.
bool is_weight_version(std::string_view name) {
  constexpr std::string_view start = "weight_v";
  constexpr std::size_t digits_min = 6;
  if (!name.starts_with(start)) return false;
  name.remove_prefix(start.size());
  return name.size() >= digits_min &&
         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_version_folder(const source_request& from) {
  std::error_code failure;
  if (from.sources.size() != 1) return false;
  const std::filesystem::directory_iterator entries(from.sources.front(), failure);
  if (failure) return false;
  return std::ranges::any_of(entries, [](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    std::error_code failed;
    return (name.starts_with("v") && name.ends_with(".delta.zt")) ||
           (is_weight_version(name) && entry.is_directory(failed));
  });
}

namespace {

// Refuses selections and conversions for a folder of versions, because deltas refer to whole stored
// tensors. Also refuses options that would have no effect.
void refuse_options_of_versions(const load_request& request) {
  const load_options& options = request.how;
  const open_options& opening = request.from.how;
  const char* refused = nullptr;
  if (!request.from.wanted.everything() || !request.from.wanted.places.empty() || options.dtype ||
      options.memory != tensor_memory::owned || options.verify.checksums != nullptr ||
      options.verify.stored != embedded_digests::none || request.window_bytes != 0) {
    refused = "a selection, a dtype, a window, mapped memory or digests";
  } else if (opening.independent_files || opening.strictness != strictness::strict ||
             opening.nameless.one_byte || opening.nameless.two_bytes) {
    refused = "--independent-files, --profile or --nameless";
  } else if (options.route != read_route::automatic || options.allocation != allocation::per_load ||
             options.trace != nullptr || options.tensor_alignment != 1) {
    refused = "--route, --allocation, --tensor-alignment or --trace";
  }
  if (refused == nullptr) return;
  throw error(errc::invalid_options, printable(request.from.sources.front()),
              std::string("a folder of versions cannot be loaded with ") + refused);
}

}  // namespace

asio::awaitable<void> load_all(running_load& one) {
  const bool has_versions = is_version_folder(one.request.from);
  if (has_versions) {
    refuse_options_of_versions(one.request);
    version_options versions;
    versions.apply.allocation = one.request.how.allocation;
    auto version =
        co_await load_version_async(one.file_loader, one.request.from.sources.front(), versions);
    one.loaded = std::move(version);
    co_return;
  }
  auto started = co_await start_load(one.file_loader, one.request);
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
