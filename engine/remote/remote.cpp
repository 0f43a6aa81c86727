// SPDX-License-Identifier: Apache-2.0

// Checks remote_options. Creates the HTTP client, and the byte_store of each service: the hub, S3,
// Google Cloud Storage, Azure and web servers.

#include <openssl/evp.h>

#include <algorithm>
#include <ringload/error.hpp>
#include <ringload/remote.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "remote/http/client.hpp"
#include "remote/http/percent_encoding.hpp"
#include "remote/http_store.hpp"
#include "remote/hub_store.hpp"
#include "remote/s3_store.hpp"

namespace ringload::inline v0 {

namespace {

using namespace remote_http;

[[noreturn]] void refuse(const char* option, std::string cause) {
  throw error(errc::invalid_options, std::string("remote_options::") + option, std::move(cause));
}

// Returns the value of Proxy-Authorization for "user:password", which may be percent-encoded.
std::string basic_authorization(std::string_view user_info) {
  const auto text = percent_decoded(user_info);
  if (!text) refuse("proxy", "the user name or the password has an invalid '%'");
  std::string encoded(4 * ((text->size() + 2) / 3) + 1, '\0');
  const int bytes = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                      reinterpret_cast<const unsigned char*>(text->data()),
                                      static_cast<int>(text->size()));
  encoded.resize(static_cast<std::size_t>(bytes));
  return "Basic " + encoded;
}

// The faults do not contain the address, because the address may contain a password.
void set_proxy(std::string address, client_settings& out) {
  constexpr std::size_t bytes_max = 8192;
  if (address.size() > bytes_max) refuse("proxy", "it is longer than 8,192 bytes");
  const std::size_t begin = address.find("://") + 3;
  const std::size_t host = address.find('@');
  if (begin != std::string::npos + 3 && host > begin && host < address.find('/', begin)) {
    out.proxy_authorization =
        basic_authorization(std::string_view(address).substr(begin, host - begin));
    address.erase(begin, host + 1 - begin);
  }
  auto proxy = parse_http_url(address);
  if (!proxy || proxy->tls || proxy->target != "/") {
    refuse("proxy", "it must be the address of a server: http://[user:password@]host:port");
  }
  out.proxy = std::move(*proxy);
}

client_settings settings_of(const remote_options& options) {
  using std::chrono::milliseconds;
  client_settings out;
  if (options.connections < 1 || options.connections > 1024)
    refuse("connections", "it must be 1 to 1,024");
  if (options.threads < 1 || options.threads > 64) refuse("threads", "it must be 1 to 64");
  if (options.chunk_bytes < 64 << 10) refuse("chunk_bytes", "it must be at least 64 KiB");
  if (options.tries_max < 1) refuse("tries_max", "it must be at least 1");
  for (const auto& [name, time] : {std::pair("connect_time_max", options.connect_time_max),
                                   std::pair("silence_time_max", options.silence_time_max),
                                   std::pair("stall_time_max", options.stall_time_max),
                                   std::pair("request_time_max", options.request_time_max)}) {
    if (time <= milliseconds(0) || time > std::chrono::days(366)) {
      refuse(name, "it must be more than 0, and at most a year");
    }
  }
  if (options.retry_delay < milliseconds(0) || options.retry_delay_max < options.retry_delay) {
    refuse("retry_delay", "it must not be below 0, nor above retry_delay_max");
  }
  out.threads = std::min(options.threads, options.connections);
  out.connections = (options.connections + out.threads - 1) / out.threads;
  out.chunk_bytes = options.chunk_bytes;
  out.connect_time_max = options.connect_time_max;
  out.silence_time_max = options.silence_time_max;
  out.stall_time_max = options.stall_time_max;
  out.request_time_max = options.request_time_max;
  out.retries.tries_max = options.tries_max;
  out.retries.delay_first = options.retry_delay;
  out.retries.delay_max = options.retry_delay_max;
  out.redirects_max = options.redirects_max;
  out.private_redirects = options.private_redirects;
  out.whole_bytes_max = options.whole_bytes_max;
  out.offline = options.offline;
  for (std::string host : options.hosts) {
    for (char& c : host) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    out.hosts.push_back(std::move(host));
  }
  if (!options.proxy.empty()) set_proxy(options.proxy, out);
  out.no_proxy = options.no_proxy;
  auto tls = make_tls_settings(options.ca_file);
  if (!tls) throw error(tls.error().code, tls.error().where(), tls.error().cause());
  out.tls = std::move(*tls);
  return out;
}

// Passes each source name to the first store that accepts the name.
class all_stores final : public byte_store {
 public:
  explicit all_stores(std::vector<std::shared_ptr<byte_store>> stores)
      : stores_(std::move(stores)) {}

  bool has_name(std::string_view source) const noexcept override {
    return store_for(source) != nullptr;
  }
  found_source find(std::string_view source, const std::stop_token& stop) override {
    byte_store* const store = store_for(source);
    if (store == nullptr)
      throw error(errc::source_not_found, "", "no remote store accepts this name");
    return store->find(source, stop);
  }
  std::shared_ptr<byte_target> create(const target_request& request) override {
    byte_store* const store = store_for(request.name);
    if (store == nullptr)
      throw error(errc::source_not_found, "", "no remote store accepts this name");
    return store->create(request);
  }

 private:
  byte_store* store_for(std::string_view source) const noexcept {
    for (const auto& store : stores_) {
      if (store->has_name(source)) return store.get();
    }
    return nullptr;
  }

  const std::vector<std::shared_ptr<byte_store>> stores_;
};

s3_options google_options(s3_options options) {
  if (options.endpoint.empty()) options.endpoint = "https://storage.googleapis.com";
  if (options.region.empty()) options.region = "auto";
  return options;
}

}  // namespace

extension remote(const remote_options& options) {
  client_settings settings = settings_of(options);
  try {
    const std::shared_ptr<http_client> client = make_client(std::move(settings));
    return extension(std::make_shared<all_stores>(std::vector{
        make_hub_store(client, options.hub, options.offline), make_s3_store(client, options.s3),
        make_s3_store(client, google_options(options.gs), gs_scheme),
        make_azure_store(client, options.azure), make_http_store(client)}));
  } catch (const std::system_error& e) {
    throw error({e.code().value(), boost::system::system_category()}, "remote()",
                "a thread could not be started");
  }
}

}  // namespace ringload::inline v0
