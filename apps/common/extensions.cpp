// SPDX-License-Identifier: Apache-2.0
#include "extensions.hpp"

#include <ringload/error.hpp>

#ifdef RINGLOAD_WITH_HDF5
#include <filesystem>
#include <ringload/hdf5.hpp>
#include <system_error>
#include <utility>
#endif
#ifdef RINGLOAD_WITH_REMOTE
#include <chrono>
#include <cstdio>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/remote.hpp>
#include <stop_token>
#include <string_view>
#include <utility>
#endif

namespace ringload::tool {

#ifdef RINGLOAD_WITH_REMOTE
namespace {

void report_cache_error(const hub_cached_file& file) {
  if (file.error_text.empty()) return;
  std::fprintf(stderr, "ringload: %s is not written into the cache: %s\n", file.name.c_str(),
               file.error_text.c_str());
}

// Refuses every network source, because the proxy in the environment is invalid or not supported.
// Local files can still be loaded.
class refused_network final : public byte_store {
 public:
  explicit refused_network(error reason) : reason_(std::move(reason)) {}
  bool has_name(std::string_view source) const noexcept override {
    return source.find("://") != source.npos;
  }
  found_source find(std::string_view, const std::stop_token&) override { throw reason_; }

 private:
  const error reason_;
};

// Returns the extension for the network. If an option is invalid, the error names the option as the
// user wrote it.
extension network(const remote_options& options, const remote_wish& wish,
                  const surroundings& environment) {
  try {
    return remote(options);
  } catch (const error& refused) {
    if (refused.place().empty()) throw;
    const std::string cause = std::string(refused.what()).substr(refused.place().size() + 2);
    error named(refused.code(), setting_of(refused.place(), wish, environment), cause);
    const bool from_environment = refused.place() == "remote_options::proxy" && wish.proxy.empty();
    if (!from_environment) throw named;
    return extension(std::make_shared<refused_network>(std::move(named)));
  }
}

}  // namespace
#endif

std::vector<extension> extensions([[maybe_unused]] const std::optional<remote_wish>& wish) {
  std::vector<extension> all;
#ifdef RINGLOAD_WITH_HDF5
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  hdf5_process parser;
  parser.program = (self.parent_path() / "ringload-hdf5-parse").native();
  all.push_back(hdf5(std::move(parser)));
#endif
#ifdef RINGLOAD_WITH_REMOTE
  if (wish) {
    const surroundings environment = process_surroundings();
    remote_options options;
    options.hub = hub_settings(*wish, environment);
    options.hub.on_cached = &report_cache_error;
    options.s3 = s3_settings(*wish, environment);
    options.gs = gs_settings(*wish, environment);
    options.azure = azure_settings(*wish, environment);
    options.offline = is_offline(*wish, environment);
    if (wish->connections) options.connections = *wish->connections;
    if (wish->chunk_bytes) options.chunk_bytes = *wish->chunk_bytes;
    if (wish->stall_seconds_max) {
      options.stall_time_max = std::chrono::seconds(*wish->stall_seconds_max);
    }
    options.ca_file = wish->ca_file;
    proxy_settings proxies = find_proxy(*wish, environment);
    options.proxy = std::move(proxies.proxy);
    options.no_proxy = std::move(proxies.no_proxy);
    all.push_back(network(options, *wish, environment));
  }
#endif
  return all;
}

#ifdef RINGLOAD_WITH_REMOTE
extension network_of(const std::vector<std::string>& hosts) {
  remote_options options;
  options.hosts = hosts;
  options.hub.cache = hub_cache::off;
  return remote(options);
}
#else
extension network_of(const std::vector<std::string>&) {
  throw error(errc::unsupported_feature, "--allow-host",
              "this ringload was built without the component remote");
}
#endif

}  // namespace ringload::tool
