// SPDX-License-Identifier: Apache-2.0

#include "remote/http_store.hpp"

#include <map>
#include <ringload/error.hpp>
#include <utility>

#include "catalog/hub_address.hpp"
#include "remote/http/percent_encoding.hpp"

namespace ringload::inline v0::remote_http {

namespace {

[[noreturn]] void raise(const fault& failure) {
  throw error(failure.code, failure.where(), failure.cause());
}

// A folder of a web server. `file` is the name of the file at `url`. Only the address of this file
// has the query of `url`.
class http_folder final : public byte_folder {
 public:
  http_folder(std::shared_ptr<http_client> client, http_url url, std::string file)
      : client_(std::move(client)), url_(std::move(url)), file_(std::move(file)) {}

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

  // Throws the fault without a place, because the caller adds the place.
  static std::shared_ptr<byte_source> value_of(outcome opened) {
    if (!opened) raise({opened.error().code, "", opened.error().cause()});
    return std::move(*opened);
  }

  http_url url_of(const std::string& name) const {
    http_url out = url_;
    if (name == file_) return out;
    const std::string path(url_.path());
    out.target = path.substr(0, path.rfind('/') + 1) + percent_encoded_path(name);
    return out;
  }
  remote_object object_of(const std::string& name) const {
    remote_object out;
    out.url = url_of(name);
    return out;
  }

  const std::shared_ptr<http_client> client_;
  const http_url url_;
  const std::string file_;
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
    out.folder = std::make_shared<http_folder>(client_, std::move(*url), *file);
    out.file = std::move(*file);
    return out;
  }

 private:
  const std::shared_ptr<http_client> client_;
};

}  // namespace

std::shared_ptr<byte_store> make_http_store(std::shared_ptr<http_client> client) {
  return std::make_shared<http_store>(std::move(client));
}

}  // namespace ringload::inline v0::remote_http
