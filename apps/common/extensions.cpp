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

void tell_of_cache(const hub_cached_file& file) {
  if (file.error_text.empty()) return;
  std::fprintf(stderr, "ringload: %s is not written into the cache: %s\n", file.name.c_str(),
               file.error_text.c_str());
}

// Refuses every address, because the proxy of the environment is of another kind than HTTP. Files
// of this machine can still be loaded.
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
extension network(const remote_options& how, const remote_wish& wish, const surroundings& here) {
  try {
    return remote(how);
  } catch (const error& refused) {
    if (refused.place().empty()) throw;
    const std::string cause = std::string(refused.what()).substr(refused.place().size() + 2);
    error named(refused.code(), setting_of(refused.place(), wish, here), cause);
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
    const surroundings here = process_surroundings();
    remote_options how;
    how.hub = hub_settings(*wish, here);
    how.hub.on_cached = &tell_of_cache;
    how.s3 = s3_settings(*wish, here);
    how.gs = gs_settings(*wish, here);
    how.azure = azure_settings(*wish, here);
    how.offline = is_offline(*wish, here);
    if (wish->connections) how.connections = *wish->connections;
    if (wish->chunk_bytes) how.chunk_bytes = *wish->chunk_bytes;
    if (wish->stall_seconds_max) {
      how.stall_time_max = std::chrono::seconds(*wish->stall_seconds_max);
    }
    how.ca_file = wish->ca_file;
    proxy_settings proxies = find_proxy(*wish, here);
    how.proxy = std::move(proxies.proxy);
    how.no_proxy = std::move(proxies.no_proxy);
    all.push_back(network(how, *wish, here));
  }
#endif
  return all;
}

#ifdef RINGLOAD_WITH_REMOTE
extension network_of(const std::vector<std::string>& hosts) {
  remote_options how;
  how.hosts = hosts;
  how.hub.cache = hub_cache::off;
  return remote(how);
}
#else
extension network_of(const std::vector<std::string>&) {
  throw error(errc::unsupported_feature, "--allow-host",
              "this ringload was built without the component remote");
}
#endif

}  // namespace ringload::tool
