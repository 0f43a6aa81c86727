// SPDX-License-Identifier: Apache-2.0
#include <ringload/c_remote.h>

#include <ringload/error.hpp>
#if RINGLOAD_C_HAS_REMOTE
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

ringload::remote_options options_of(const ringload_remote_options& given) {
  ringload::remote_options options;
  set(options.connections, given.connections);
  set(options.chunk_bytes, given.chunk_bytes);
  set(options.threads, given.threads);
  set(options.connect_time_max, given.connect_milliseconds_max);
  set(options.silence_time_max, given.silence_milliseconds_max);
  set(options.stall_time_max, given.stall_milliseconds_max);
  set(options.request_time_max, given.request_milliseconds_max);
  set(options.tries_max, given.tries_max);
  set(options.retry_delay, given.retry_milliseconds);
  set(options.retry_delay_max, given.retry_milliseconds_max);
  set(options.redirects_max, given.redirects_max);
  if (given.refuse_redirects != 0) options.redirects_max = 0;
  options.private_redirects = given.private_redirects != 0;
  if (given.hosts_count > 0) required(given.hosts, "the hosts are null");
  for (size_t i = 0; i < given.hosts_count; ++i) {
    options.hosts.emplace_back(&required(given.hosts[i], "a host is null"));
  }
  set(options.proxy, given.proxy);
  set(options.ca_file, given.ca_file);
  set(options.whole_bytes_max, given.whole_bytes_max);
  set(options.hub.endpoint, given.hub_endpoint);
  set(options.hub.token, given.hub_token);
  set(options.hub.cache_folder, given.hub_cache_folder);
  options.hub.cache = cache_of(given.hub_cache);
  options.s3.path_style = path_style_of(given.s3_style);
  set(options.s3.region, given.s3_region);
  set(options.s3.endpoint, given.s3_endpoint);
  set(options.s3.access_key_id, given.s3_access_key_id);
  set(options.s3.secret_access_key, given.s3_secret_access_key);
  set(options.s3.session_token, given.s3_session_token);
  options.offline = given.offline != 0;
  return options;
}

}  // namespace

#endif

ringload_status ringload_remote_extension(const ringload_remote_options* options,
                                          ringload_extension** extension) {
  return guarded([&]() -> ringload_status {
    required(extension, "the place for the extension is null") = nullptr;
    const ringload_remote_options given = received(options);
#if RINGLOAD_C_HAS_REMOTE
    *extension = new ringload_extension{ringload::remote(options_of(given))};
    return RINGLOAD_OK;
#else
    static_cast<void>(given);
    throw ringload::error(ringload::errc::unsupported_feature, "remote sources",
                          "this ringload was built without them");
#endif
  });
}
