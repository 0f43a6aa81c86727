// SPDX-License-Identifier: Apache-2.0

#include "remote/http_store.hpp"

#include <algorithm>
#include <map>
#include <ringload/error.hpp>
#include <utility>

#include "base/printable.hpp"
#include "catalog/hub_address.hpp"
#include "remote/http/percent_encoding.hpp"

namespace ringload::inline v0::remote_http {

namespace {

[[noreturn]] void raise(const fault& failure) {
  throw error(failure.code, failure.where(), failure.cause());
}

// A folder of a web server. `file` is the name of the file at `url`. The address of this file keeps
// the query of `url`. Other files have no query, unless `signature` is set.
struct http_place {
  http_url url;
  std::string file;
  std::string signature = {};  // A query that all files have.
  sign_function sign = {};     // Adds fields to each request.
};

class http_folder final : public byte_folder {
 public:
  http_folder(std::shared_ptr<http_client> client, http_place place)
      : client_(std::move(client)),
        url_(std::move(place.url)),
        file_(std::move(place.file)),
        signature_(std::move(place.signature)),
        sign_(std::move(place.sign)) {}

  std::vector<std::string> names(const std::stop_token&) override {
    throw error(errc::unsupported_feature, path_of({}),
                "a web server does not list its files: name a file, or an index");
  }

  std::shared_ptr<byte_source> open(const std::string& name, const std::stop_token& stop) override {
    const auto ahead = opened_.find(name);
    if (ahead == opened_.end()) return value_of(client_->open(object_of(name), stop));
    auto opened = std::move(ahead->second);
    opened_.erase(ahead);
    return value_of(std::move(opened));
  }

  void expect(std::span<const std::string> names, const std::stop_token& stop) override {
    std::vector<remote_object> objects;
    for (const std::string& name : names) objects.push_back(object_of(name));
    auto opened = client_->open_all(objects, stop);
    for (std::size_t i = 0; i < names.size(); ++i) {
      opened_.insert_or_assign(names[i], std::move(opened[i]));
    }
  }

  std::string path_of(const std::string& name) const override { return url_of(name).shown(); }

 private:
  using outcome = result<std::shared_ptr<byte_source>>;

  // Throws the fault without the where() text, because the caller adds the name of the file.
  static std::shared_ptr<byte_source> value_of(outcome opened) {
    if (!opened) raise({opened.error().code, "", opened.error().cause()});
    return std::move(*opened);
  }

  http_url url_of(const std::string& name) const {
    http_url out = url_;
    if (name == file_) return out;
    const std::string path(url_.path());
    out.target = path.substr(0, path.rfind('/') + 1) + percent_encoded_path(name) + signature_;
    return out;
  }
  remote_object object_of(const std::string& name) const {
    remote_object out;
    out.url = url_of(name);
    out.sign = sign_;
    return out;
  }

  const std::shared_ptr<http_client> client_;
  const http_url url_;
  const std::string file_;
  const std::string signature_;
  const sign_function sign_;
  std::map<std::string, outcome> opened_;  // Results of expect(), by file name.
};

class http_store final : public byte_store {
 public:
  explicit http_store(std::shared_ptr<http_client> client) : client_(std::move(client)) {}

  bool has_name(std::string_view source) const noexcept override {
    return begins_with_scheme(source, "http://") || begins_with_scheme(source, "https://");
  }

  found_source find(std::string_view source, const std::stop_token&) override {
    auto url = parse_http_url(source);
    // The address may contain a password, so the fault does not show the address.
    if (!url) raise(url.error().in("the address"));
    const std::string path(url->path());
    auto file = percent_decoded(path.substr(path.rfind('/') + 1));
    if (!file) raise(file.error().in(url->shown()));
    if (file->find('/') != std::string::npos) {
      raise({errc::invalid_source_name, url->shown(), "the file name holds a '/'"});
    }
    found_source out;
    out.folder = std::make_shared<http_folder>(client_, http_place{std::move(*url), *file});
    out.file = std::move(*file);
    return out;
  }

 private:
  const std::shared_ptr<http_client> client_;
};

constexpr std::string_view azure_scheme = "az://";
// Version of Azure's API. Before version 2011-08-18, an ETag had no quotes.
constexpr std::string_view azure_version = "2021-08-06";

std::string_view next_part(std::string_view& path) noexcept {
  const std::string_view part = path.substr(0, path.find('/'));
  path.remove_prefix(std::min(part.size() + 1, path.size()));
  return part;
}

bool is_azure_name(std::string_view name) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '$';
  };
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, is_allowed);
}

class azure_store final : public byte_store {
 public:
  azure_store(std::shared_ptr<http_client> client, const azure_options& options)
      : client_(std::move(client)), endpoint_(options.endpoint) {
    while (endpoint_.ends_with('/')) endpoint_.pop_back();
    if (!options.endpoint.empty()) {
      const auto url = parse_http_url(endpoint_);
      if (!url) raise({errc::invalid_options, "azure_options::endpoint", url.error().cause()});
      if (endpoint_.find_first_of("?#") != endpoint_.npos) {
        raise({errc::invalid_options, "azure_options::endpoint",
               "the endpoint has a query; expected scheme, host, port and path"});
      }
    }
    std::string_view token = options.sas_token;
    if (token.starts_with('?')) token.remove_prefix(1);
    if (token.empty()) return;
    signature_ = "?" + std::string(token);
    const bool is_query =
        token.find_first_of("#? \r\n") == token.npos && token.find('=') != token.npos;
    if (is_query && parse_http_url("https://host/" + signature_)) return;
    raise({errc::invalid_options, "azure_options::sas_token",
           "it is not a query string, expected sv=...&sig=..."});
  }

  bool has_name(std::string_view source) const noexcept override {
    return begins_with_scheme(source, azure_scheme);
  }

  found_source find(std::string_view source, const std::stop_token&) override {
    const std::string shown = printable_path(source);
    std::string_view path = source.substr(azure_scheme.size());
    const std::string_view account = next_part(path);
    const std::string_view container = next_part(path);
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (!is_azure_name(account) || !is_azure_name(container)) {
      raise({errc::invalid_source_name, shown, "expected az://account/container/key"});
    }
    if (!is_path_key(path)) {
      raise({errc::unsupported_feature, shown,
             "folders of Azure Blob Storage are not listed: name a file, or an index"});
    }
    const std::string host = endpoint_.empty()
                                 ? "https://" + std::string(account) + ".blob.core.windows.net"
                                 : endpoint_ + "/" + std::string(account);
    auto url = parse_http_url(host + "/" + std::string(container) + "/" +
                              percent_encoded_path(path) + signature_);
    if (!url) raise(url.error().in(shown));
    const auto sign = [](const outgoing_request&) {
      return std::vector<header_field>{{"x-ms-version", std::string(azure_version)}};
    };
    found_source out;
    out.folder = std::make_shared<http_folder>(
        client_, http_place{std::move(*url), std::string(file), signature_, sign});
    out.file = file;
    return out;
  }

 private:
  const std::shared_ptr<http_client> client_;
  std::string endpoint_;   // Does not end with '/'. Empty if Azure's own endpoint is used.
  std::string signature_;  // Begins with '?'. Empty if requests are not signed.
};

}  // namespace

std::shared_ptr<byte_store> make_azure_store(std::shared_ptr<http_client> client,
                                             const azure_options& options) {
  return std::make_shared<azure_store>(std::move(client), options);
}

std::shared_ptr<byte_store> make_http_store(std::shared_ptr<http_client> client) {
  return std::make_shared<http_store>(std::move(client));
}

}  // namespace ringload::inline v0::remote_http
