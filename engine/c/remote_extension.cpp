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
  ringload::remote_options how;
  set(how.connections, given.connections);
  set(how.chunk_bytes, given.chunk_bytes);
  set(how.threads, given.threads);
  set(how.connect_time_max, given.connect_milliseconds_max);
  set(how.silence_time_max, given.silence_milliseconds_max);
  set(how.stall_time_max, given.stall_milliseconds_max);
  set(how.request_time_max, given.request_milliseconds_max);
  set(how.tries_max, given.tries_max);
  set(how.retry_delay, given.retry_milliseconds);
  set(how.retry_delay_max, given.retry_milliseconds_max);
  set(how.redirects_max, given.redirects_max);
  if (given.refuse_redirects != 0) how.redirects_max = 0;
  how.private_redirects = given.private_redirects != 0;
  if (given.hosts_count > 0) required(given.hosts, "the hosts are null");
  for (size_t i = 0; i < given.hosts_count; ++i) {
    how.hosts.emplace_back(&required(given.hosts[i], "a host is null"));
  }
  set(how.proxy, given.proxy);
  set(how.ca_file, given.ca_file);
  set(how.whole_bytes_max, given.whole_bytes_max);
  set(how.hub.endpoint, given.hub_endpoint);
  set(how.hub.token, given.hub_token);
  set(how.hub.cache_folder, given.hub_cache_folder);
  how.hub.cache = cache_of(given.hub_cache);
  how.s3.path_style = path_style_of(given.s3_style);
  set(how.s3.region, given.s3_region);
  set(how.s3.endpoint, given.s3_endpoint);
  set(how.s3.access_key_id, given.s3_access_key_id);
  set(how.s3.secret_access_key, given.s3_secret_access_key);
  set(how.s3.session_token, given.s3_session_token);
  how.offline = given.offline != 0;
  return how;
}

}  // namespace

#endif

ringload_status ringload_remote_extension(const ringload_remote_options* how,
                                          ringload_extension** made) {
  return guarded([&]() -> ringload_status {
    required(made, "the place for the extension is null") = nullptr;
    const ringload_remote_options given = received(how);
#if RINGLOAD_C_HAS_REMOTE
    *made = new ringload_extension{ringload::remote(options_of(given))};
    return RINGLOAD_OK;
#else
    static_cast<void>(given);
    throw ringload::error(ringload::errc::unsupported_feature, "remote sources",
                          "this ringload was built without them");
#endif
  });
}
