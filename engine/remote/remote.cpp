// SPDX-License-Identifier: Apache-2.0

// The extension: options made into settings, and the stores that one client serves.

#include <algorithm>
#include <ringload/error.hpp>
#include <ringload/remote.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "remote/http/client.hpp"
#include "remote/http_store.hpp"
#include "remote/hub_store.hpp"
#include "remote/s3_store.hpp"

namespace ringload::inline v0 {

namespace {

using namespace remote_http;

[[noreturn]] void refuse(const char* option, std::string why) {
  throw error(errc::invalid_options, std::string("remote_options::") + option, std::move(why));
}

client_settings settings_of(const remote_options& how) {
  using std::chrono::milliseconds;
  client_settings out;
  if (how.connections < 1 || how.connections > 1024) refuse("connections", "it must be 1 to 1,024");
  if (how.threads < 1 || how.threads > 64) refuse("threads", "it must be 1 to 64");
  if (how.chunk_bytes < 64 << 10) refuse("chunk_bytes", "it must be at least 64 KiB");
  if (how.tries_max < 1) refuse("tries_max", "it must be at least 1");
  for (const auto& [name, time] : {std::pair("connect_time_max", how.connect_time_max),
                                   std::pair("silence_time_max", how.silence_time_max),
                                   std::pair("stall_time_max", how.stall_time_max),
                                   std::pair("request_time_max", how.request_time_max)}) {
    if (time <= milliseconds(0) || time > std::chrono::days(366)) {
      refuse(name, "it must be more than 0, and at most a year");
    }
  }
  if (how.retry_delay < milliseconds(0) || how.retry_delay_max < how.retry_delay) {
    refuse("retry_delay", "it must not be below 0, nor above retry_delay_max");
  }
  out.lanes = std::min(how.threads, how.connections);
  out.connections = (how.connections + out.lanes - 1) / out.lanes;
  out.chunk_bytes = how.chunk_bytes;
  out.connect_time_max = how.connect_time_max;
  out.silence_time_max = how.silence_time_max;
  out.stall_time_max = how.stall_time_max;
  out.request_time_max = how.request_time_max;
  out.retries.tries_max = how.tries_max;
  out.retries.delay_first = how.retry_delay;
  out.retries.delay_max = how.retry_delay_max;
  out.redirects_max = how.redirects_max;
  out.private_redirects = how.private_redirects;
  out.whole_bytes_max = how.whole_bytes_max;
  out.offline = how.offline;
  for (std::string host : how.hosts) {
    for (char& c : host) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    out.hosts.push_back(std::move(host));
  }
  if (!how.proxy.empty()) {
    auto proxy = parse_http_url(how.proxy);
    if (!proxy || proxy->tls || proxy->target != "/") {
      refuse("proxy", "it must be the address of a server: http://host:port");
    }
    out.proxy = std::move(*proxy);
  }
  auto tls = make_tls_settings(how.ca_file);
  if (!tls) throw error(tls.error().code, tls.error().where, tls.error().cause);
  out.tls = std::move(*tls);
  return out;
}

// The first that knows a name has it.
class all_stores final : public byte_store {
 public:
  explicit all_stores(std::vector<std::shared_ptr<byte_store>> all) : all_(std::move(all)) {}

  bool has_name(std::string_view source) const noexcept override { return of(source) != nullptr; }
  found_source find(std::string_view source, const std::stop_token& stop) override {
    byte_store* const one = of(source);
    if (one == nullptr) throw error(errc::source_not_found, "", "no server has such names");
    return one->find(source, stop);
  }

 private:
  byte_store* of(std::string_view source) const noexcept {
    for (const auto& each : all_) {
      if (each->has_name(source)) return each.get();
    }
    return nullptr;
  }

  const std::vector<std::shared_ptr<byte_store>> all_;
};

}  // namespace

extension remote(const remote_options& how) {
  client_settings settings = settings_of(how);
  try {
    const std::shared_ptr<http_client> by = make_client(std::move(settings));
    return extension(std::make_shared<all_stores>(std::vector{
        make_hub_store(by, how.hub, how.offline), make_s3_store(by, how.s3), make_http_store(by)}));
  } catch (const std::system_error& e) {
    throw error({e.code().value(), boost::system::system_category()}, "remote()",
                "a thread could not be started");
  }
}

}  // namespace ringload::inline v0
