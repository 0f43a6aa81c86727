// SPDX-License-Identifier: Apache-2.0

// Without the component `remote`, ringload_remote_extension() fails.

#include <ringload/c_remote.h>

#include <ringload/error.hpp>
#if RINGLOAD_C_HAS_REMOTE
#include <functional>
#include <optional>
#include <ringload/remote.hpp>
#include <string>
#endif

#include "c/handles.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

#if RINGLOAD_C_HAS_REMOTE

namespace {

void set(std::string& into, const char* from) {
  if (from) into = from;
}
template <class T, class From>
void set(T& into, From from) {
  if (from != 0) into = T(from);
}

ringload::hub_cache cache_of(ringload_hub_cache from) {
  switch (from) {
    case RINGLOAD_HUB_CACHE_READ: return ringload::hub_cache::read;
    case RINGLOAD_HUB_CACHE_OFF: return ringload::hub_cache::off;
    case RINGLOAD_HUB_CACHE_FILL: return ringload::hub_cache::fill;
  }
  throw invalid_argument("no such ringload_hub_cache");
}

std::optional<bool> path_style_of(ringload_s3_style from) {
  switch (from) {
    case RINGLOAD_S3_STYLE_AUTOMATIC: return std::nullopt;
    case RINGLOAD_S3_STYLE_PATH: return true;
    case RINGLOAD_S3_STYLE_HOST: return false;
  }
  throw invalid_argument("no such ringload_s3_style");
}

std::function<std::optional<ringload::s3_keys>()> renewal_of(
    const ringload_remote_options& c_options) {
  if (!c_options.s3_renew) return {};
  return [renew = c_options.s3_renew, context = c_options.s3_renew_context] {
    ringload_s3_keys keys = {};
    std::optional<ringload::s3_keys> out;
    if (renew(context, &keys) == 0) return out;
    out.emplace();
    set(out->access_key_id, keys.access_key_id);
    set(out->secret_access_key, keys.secret_access_key);
    set(out->session_token, keys.session_token);
    return out;
  };
}

ringload::remote_options options_of(const ringload_remote_options& c_options) {
  ringload::remote_options options;
  set(options.connections, c_options.connections);
  set(options.chunk_bytes, c_options.chunk_bytes);
  set(options.threads, c_options.threads);
  set(options.connect_time_max, c_options.connect_milliseconds_max);
  set(options.silence_time_max, c_options.silence_milliseconds_max);
  set(options.stall_time_max, c_options.stall_milliseconds_max);
  set(options.request_time_max, c_options.request_milliseconds_max);
  set(options.tries_max, c_options.tries_max);
  set(options.retry_delay, c_options.retry_milliseconds);
  set(options.retry_delay_max, c_options.retry_milliseconds_max);
  set(options.redirects_max, c_options.redirects_max);
  if (c_options.refuse_redirects != 0) options.redirects_max = 0;
  options.private_redirects = c_options.private_redirects != 0;
  if (c_options.hosts_count > 0) required(c_options.hosts, "the hosts are null");
  for (size_t i = 0; i < c_options.hosts_count; ++i) {
    options.hosts.emplace_back(&required(c_options.hosts[i], "a host is null"));
  }
  set(options.proxy, c_options.proxy);
  set(options.ca_file, c_options.ca_file);
  set(options.whole_bytes_max, c_options.whole_bytes_max);
  set(options.hub.endpoint, c_options.hub_endpoint);
  set(options.hub.token, c_options.hub_token);
  set(options.hub.cache_folder, c_options.hub_cache_folder);
  options.hub.cache = cache_of(c_options.hub_cache);
  options.s3.path_style = path_style_of(c_options.s3_style);
  set(options.s3.region, c_options.s3_region);
  set(options.s3.endpoint, c_options.s3_endpoint);
  set(options.s3.access_key_id, c_options.s3_access_key_id);
  set(options.s3.secret_access_key, c_options.s3_secret_access_key);
  set(options.s3.session_token, c_options.s3_session_token);
  if (c_options.no_proxy_count > 0) required(c_options.no_proxy, "the hosts are null");
  for (size_t i = 0; i < c_options.no_proxy_count; ++i) {
    options.no_proxy.emplace_back(&required(c_options.no_proxy[i], "a host is null"));
  }
  options.s3.renew = renewal_of(c_options);
  set(options.gs.endpoint, c_options.gs_endpoint);
  set(options.gs.access_key_id, c_options.gs_access_key_id);
  set(options.gs.secret_access_key, c_options.gs_secret_access_key);
  set(options.azure.endpoint, c_options.azure_endpoint);
  set(options.azure.sas_token, c_options.azure_sas_token);
  options.offline = c_options.offline != 0;
  return options;
}

}  // namespace

#endif

ringload_status ringload_remote_extension(const ringload_remote_options* options,
                                          ringload_extension** extension) {
  return guarded([&]() -> ringload_status {
    required(extension, "the output pointer for the extension is null") = nullptr;
    const ringload_remote_options c_options = read_struct(options);
#if RINGLOAD_C_HAS_REMOTE
    *extension = new ringload_extension{ringload::remote(options_of(c_options))};
    return RINGLOAD_OK;
#else
    static_cast<void>(c_options);
    throw ringload::error(ringload::errc::unsupported_feature, "remote sources",
                          "this ringload was built without the component 'remote'");
#endif
  });
}
