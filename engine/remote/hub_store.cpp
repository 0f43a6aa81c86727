// SPDX-License-Identifier: Apache-2.0

#include "remote/hub_store.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/printable.hpp"
#include "remote/cache/hf_cache_source.hpp"
#include "remote/cache/verified_source.hpp"
#include "remote/hub/hub_api.hpp"
#include "remote/hub/hub_snapshot.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::string_view error_code_field = "x-error-code";

// Returns "hf://owner/model", or "hf://owner/model@revision" if the revision is not main.
std::string shown_model(const model_name& model) {
  std::string out = "hf://" + model.repository;
  if (model.revision == "main") return out;
  out += '@';
  for (const char c : model.revision) out += c == '/' ? std::string("%2F") : std::string(1, c);
  return out;
}

sign_function bearer(const std::string& token) {
  if (token.empty()) return {};
  return [value = "Bearer " + token](const outgoing_request&) {
    return std::vector<header_field>{{"Authorization", value}};
  };
}

std::string origin_of(const http_url& url) {
  return (url.tls ? "https://" : "http://") + url.authority();
}

// Settings that all folders of a store share.
struct hub_access {
  std::shared_ptr<http_client> client;
  std::string endpoint;  // Does not end with '/'.
  bool has_token = false;
  sign_function sign;
  std::string cache;                       // Folder of the local cache. Empty if no cache is used.
  std::shared_ptr<cache_threads> filling;  // Null if the cache is not written.

  fault refused(const small_response& response, const model_name& model) const {
    const std::string* const code = response.field(error_code_field);
    return hub_fault({response.status, code == nullptr ? std::string_view() : *code, has_token},
                     endpoint, model);
  }
};

class hub_folder final : public byte_folder {
 public:
  hub_folder(const hub_access& access, model_name model, hub_listing listing)
      : access_(access),
        model_(std::move(model)),
        listing_(std::move(listing)),
        hashing_(std::make_shared<file_hashing>()) {}

  std::vector<std::string> names(const std::stop_token& stop) override;
  std::vector<std::string> names_beneath(const std::stop_token& stop) override;
  std::shared_ptr<byte_source> open(const std::string& name, const std::stop_token& stop) override;
  void expect(std::span<const std::string> names, const std::stop_token& stop) override;
  std::string path_of(const std::string& name) const override {
    return printable_path(shown_model(model_) + (name.empty() ? "" : "/" + name));
  }

 private:
  const hub_file& listed(const std::string& name) const;
  remote_object object(const hub_file& file) const;
  fault explained(fault failure, const hub_file& file, const std::stop_token& stop) const;

  const hub_access access_;
  const model_name model_;
  const hub_listing listing_;
  const std::shared_ptr<file_hashing> hashing_;
  std::map<std::string, result<std::shared_ptr<byte_source>>, std::less<>> expected_;
};

std::vector<std::string> hub_folder::names(const std::stop_token&) {
  std::vector<std::string> out;
  for (const hub_file& file : listing_.files) add_entry(file.name, out);
  return out;
}

std::vector<std::string> hub_folder::names_beneath(const std::stop_token&) {
  std::vector<std::string> out;
  for (const hub_file& file : listing_.files) out.push_back(file.name);
  return out;
}

const hub_file& hub_folder::listed(const std::string& name) const {
  const hub_file* const file = listing_.find(name);
  if (file == nullptr) {
    throw to_error({errc::source_not_found, path_of(name), "the model has no such file"});
  }
  return *file;
}

remote_object hub_folder::object(const hub_file& file) const {
  remote_object out;
  out.url = value_or_throw(parse_http_url(hub_file_address(access_.endpoint, model_.repository,
                                                           listing_.commit, file.name)),
                           path_of(file.name));
  out.sign = access_.sign;
  out.shown = path_of(file.name);
  out.bytes = file.bytes;
  out.moves = true;
  return out;
}

// The hub lists a gated model but refuses requests for its files. Sends a second request to learn
// the hub's reason, and returns a fault with this reason.
fault hub_folder::explained(fault failure, const hub_file& file,
                            const std::stop_token& stop) const {
  if (failure.code != errc::access_denied && failure.code != errc::source_not_found) return failure;
  small_request request;
  request.object = object(file);
  request.method = http_method::head;
  request.follows_redirects = false;
  const auto response = access_.client->fetch(request, stop);
  if (!response || response->status < 400) return failure;
  return access_.refused(*response, model_);
}

void hub_folder::expect(std::span<const std::string> names, const std::stop_token& stop) {
  std::vector<remote_object> objects;
  std::vector<std::string> known;
  for (const std::string& name : names) {
    const hub_file* const file = listing_.find(name);
    if (file == nullptr) continue;
    known.push_back(name);
    objects.push_back(object(*file));
  }
  auto opened = access_.client->open_all(objects, stop);
  for (std::size_t i = 0; i < opened.size() && i < known.size(); ++i) {
    expected_.insert_or_assign(known[i], std::move(opened[i]));
  }
}

std::shared_ptr<byte_source> hub_folder::open(const std::string& name,
                                              const std::stop_token& stop) {
  const hub_file& file = listed(name);
  auto expected = expected_.extract(name);
  auto opened = expected ? std::move(expected.mapped()) : access_.client->open(object(file), stop);
  if (!opened) opened = explained(opened.error(), file, stop);
  auto source = value_or_throw(std::move(opened), path_of(name));
  if (access_.filling) {
    blob_place place = {access_.cache, model_, listing_.commit, file};
    auto cached = make_hf_cache_source(source, std::move(place), access_.filling);
    if (cached) return cached;
  }
  return make_verified_source(std::move(source), file, hashing_);
}

class hub_store final : public byte_store {
 public:
  hub_store(std::shared_ptr<http_client> client, const hub_options& options, bool offline);

  bool has_name(std::string_view source) const noexcept override;
  found_source find(std::string_view source, const std::stop_token& stop) override;

 private:
  result<hub_listing> fetch_listing(const model_name& model, const std::stop_token& stop) const;

  hub_access access_;
  const bool offline_;
};

hub_store::hub_store(std::shared_ptr<http_client> client, const hub_options& options, bool offline)
    : access_{std::move(client),
              options.endpoint,
              !options.token.empty(),
              bearer(options.token),
              {},
              {}},
      offline_(offline) {
  while (access_.endpoint.ends_with('/')) access_.endpoint.pop_back();
  const bool sent =
      std::ranges::all_of(options.token, [](char c) { return c > ' ' && c < '\x7f'; });
  if (!sent) {
    throw to_error({errc::invalid_options, "hub_options::token",
                    "the token holds a blank, or a character that is not printable ASCII"});
  }
  if (auto endpoint = parse_http_url(access_.endpoint); !endpoint) {
    throw to_error({errc::invalid_options, "hub_options::endpoint", endpoint.error().cause()});
  }
  if (options.cache == hub_cache::off) return;
  access_.cache = options.cache_folder;
  if (access_.cache.empty()) {
    const auto folder = cache_folder(process_environment());
    if (folder) access_.cache = *folder;
    if (!folder && options.cache == hub_cache::fill) throw to_error(folder.error());
  }
  if (options.cache == hub_cache::fill) {
    access_.filling = std::make_shared<cache_threads>(options.on_cached);
  }
}

// "owner/model" is accepted. "gpt2" is refused, because a name without '/' may be a mistyped path.
bool hub_store::has_name(std::string_view source) const noexcept {
  if (is_hub_address(source)) return true;
  try {
    return source.find('/') != source.npos && parse_model_name(source).has_value();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

result<hub_listing> hub_store::fetch_listing(const model_name& model,
                                             const std::stop_token& stop) const {
  small_request request;
  auto url = parse_http_url(hub_listing_address(access_.endpoint, model));
  if (!url) return url.error();
  request.object.url = std::move(*url);
  request.object.sign = access_.sign;
  request.object.shown = printable_path(access_.endpoint + "/" + model.repository);
  request.follows_redirects = false;  // Follows redirects to the same origin only.
  request.bytes_max = hub_listing_bytes_max;
  auto response = access_.client->fetch(request, stop);
  if (!response) return response.error();
  if (response->status == 200) {
    auto listing = parse_hub_listing(response->body);
    if (!listing) return listing.error().in(request.object.shown);
    return listing;
  }
  const std::string* const location = response->field("location");
  if (response->status >= 300 && response->status < 400 && location != nullptr) {
    // A redirect to another host is refused, because that host would supply the digests of the
    // listing, and would receive no token.
    const auto target = resolve_location(response->from, *location);
    if (target) {
      return fault{
          errc::remote_failed, request.object.shown,
          "the hub redirects to " + origin_of(*target) +
              ", and redirects to other hosts are not followed: set that host as the endpoint"};
    }
  }
  return access_.refused(*response, model);
}

found_source hub_store::find(std::string_view source, const std::stop_token& stop) {
  const std::string place = printable_path(source);
  hub_address address;
  if (is_hub_address(source)) {
    address = value_or_throw(parse_hub_address(source), place);
  } else {
    address.model = value_or_throw(parse_model_name(source), place);
  }
  found_source out;
  if (offline_) {
    if (access_.cache.empty()) {
      throw to_error(
          {errc::source_not_found, place, "offline mode is set, and there is no local cache"});
    }
    out.local_path = value_or_throw(cached_revision(access_.cache, address), place);
    return out;
  }
  auto listing = fetch_listing(address.model, stop);
  if (!listing && listing.error().code == errc::remote_failed && !access_.cache.empty() &&
      has_cached_files(access_.cache, address)) {
    // huggingface_hub also uses the cache if the hub cannot be reached or fails.
    if (auto path = cached_revision(access_.cache, address)) {
      out.local_path = std::move(*path);
      return out;
    }
  }
  if (!listing) throw to_error(listing.error());
  if (!access_.cache.empty()) {
    out.local_path = cached_checkpoint(access_.cache, address.model, *listing, address.file);
  }
  out.folder = std::make_shared<hub_folder>(access_, address.model, std::move(*listing));
  out.file = address.file;
  return out;
}

}  // namespace

std::shared_ptr<byte_store> make_hub_store(std::shared_ptr<http_client> client,
                                           const hub_options& options, bool offline) {
  return std::make_shared<hub_store>(std::move(client), options, offline);
}

}  // namespace ringload::inline v0::remote_http
