// SPDX-License-Identifier: Apache-2.0

#include "remote/s3_store.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "base/printable.hpp"
#include "catalog/folder_choice.hpp"
#include "catalog/hub_address.hpp"
#include "remote/http/percent_encoding.hpp"
#include "remote/s3/s3_list.hpp"
#include "remote/s3_access.hpp"
#include "remote/s3_target.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::size_t pages_max = 1000;

class s3_folder final : public byte_folder {
 public:
  s3_folder(std::shared_ptr<http_client> client, s3_access access, std::string bucket,
            std::string prefix)
      : client_(std::move(client)),
        access_(std::move(access)),
        bucket_(std::move(bucket)),
        prefix_(std::move(prefix)) {}

  std::vector<std::string> names(const std::stop_token& stop) override;
  std::vector<std::string> names_beneath(const std::stop_token& stop) override;
  std::shared_ptr<byte_source> open(const std::string& name, const std::stop_token& stop) override;
  void expect(std::span<const std::string> names, const std::stop_token& stop) override;
  std::string path_of(const std::string& name) const override {
    return access_.shown(bucket_, prefix_ + name);
  }

 private:
  remote_object object(const std::string& name) const;
  s3_page fetch_page(const std::string& token, s3_depth depth, const std::stop_token& stop);
  // Adds the listed objects to objects_, and the names of sub-folders to `folders`.
  void list(s3_depth depth, std::set<std::string>& folders, const std::stop_token& stop);
  std::vector<std::string> names_of_objects(s3_depth depth) const;
  fault explained(fault failure, const std::string& name, const std::stop_token& stop) const;

  const std::shared_ptr<http_client> client_;
  const s3_access access_;
  const std::string bucket_;
  const std::string prefix_;  // Empty, or ends with '/'.

  bool listed_ = false;
  // Names of the sub-folders of prefix_. Complete if `listed_` is set.
  std::set<std::string> folders_;
  std::map<std::string, s3_object, std::less<>> objects_;
  std::map<std::string, result<std::shared_ptr<byte_source>>, std::less<>> expected_;
};

s3_page s3_folder::fetch_page(const std::string& token, s3_depth depth,
                              const std::stop_token& stop) {
  const std::string place = path_of({});
  small_request request;
  request.object.url =
      value_or_throw(s3_list_url(access_.place, bucket_, prefix_, token, depth), place);
  access_.authorize(request.object);
  request.object.shown = place;
  request.bytes_max = s3_page_bytes_max;
  const small_response response = value_or_throw(client_->fetch(request, stop), place);
  if (response.status != 200) throw to_error(access_.explained(response, place));
  return value_or_throw(parse_s3_page(response.body), place);
}

// Requests one byte of the object to learn why the server refuses the object. Returns a fault with
// the server's reason, or `failure` if the server does not refuse this request.
fault s3_folder::explained(fault failure, const std::string& name,
                           const std::stop_token& stop) const {
  const bool refused = failure.code == errc::access_denied ||
                       failure.code == errc::source_not_found ||
                       failure.code == errc::remote_failed;
  if (!refused) return failure;
  small_request request;
  request.object = object(name);
  request.fields = {{"Range", "bytes=0-0"}};
  const auto response = client_->fetch(request, stop);
  // If the server ignores Range, the server sends the whole object. If the object exceeds
  // bytes_max, `response` is a fault.
  if (!response || response->status < 300) return failure;
  return access_.explained(*response, path_of(name));
}

void s3_folder::list(s3_depth depth, std::set<std::string>& folders, const std::stop_token& stop) {
  std::string token;
  bool more = true;
  for (std::size_t page = 0; more; ++page) {
    s3_page next = fetch_page(token, depth, stop);
    for (const std::string& prefix : next.prefixes) {
      if (!prefix.starts_with(prefix_) || !prefix.ends_with('/')) continue;
      const std::string name = prefix.substr(prefix_.size(), prefix.size() - prefix_.size() - 1);
      // A sub-folder with the name of a checkpoint file is not listed, because the caller would
      // open the sub-folder as a file.
      if (is_path_key(name) && !is_checkpoint_file(name)) folders.insert(name);
    }
    for (s3_object& object : next.objects) {
      // Some servers list keys outside of the folder.
      if (!object.key.starts_with(prefix_)) continue;
      std::string name = object.key.substr(prefix_.size());
      if (is_path_key(name)) objects_.insert_or_assign(std::move(name), std::move(object));
    }
    if (objects_.size() + folders.size() > s3_objects_max || page == pages_max) {
      throw to_error({errc::not_a_checkpoint, path_of({}),
                      "more than " + grouped(s3_objects_max) + " objects are in this folder"});
    }
    more = !next.next.empty();
    token = std::move(next.next);
  }
}

std::vector<std::string> s3_folder::names_of_objects(s3_depth depth) const {
  std::vector<std::string> out;
  for (const auto& [name, object] : objects_) {
    if (depth == s3_depth::all || name.find('/') == name.npos) out.push_back(name);
  }
  return out;
}

std::vector<std::string> s3_folder::names(const std::stop_token& stop) {
  if (!listed_) list(s3_depth::one, folders_, stop);
  listed_ = true;
  std::vector<std::string> out = names_of_objects(s3_depth::one);
  out.insert(out.end(), folders_.begin(), folders_.end());
  return out;
}

std::vector<std::string> s3_folder::names_beneath(const std::stop_token& stop) {
  std::set<std::string> folders;
  list(s3_depth::all, folders, stop);
  return names_of_objects(s3_depth::all);
}

remote_object s3_folder::object(const std::string& name) const {
  remote_object out;
  out.url = value_or_throw(s3_object_url(access_.place, {bucket_, prefix_ + name}), path_of(name));
  access_.authorize(out);
  out.shown = path_of(name);
  if (const auto listed = objects_.find(name); listed != objects_.end()) {
    out.bytes = listed->second.bytes;
    // The ETag header has quotes, which some servers omit in a listing.
    const std::string& etag = listed->second.etag;
    out.etag = etag.empty() || etag.ends_with('"') ? etag : '"' + etag + '"';
  }
  return out;
}

void s3_folder::expect(std::span<const std::string> names, const std::stop_token& stop) {
  std::vector<remote_object> objects;
  for (const std::string& name : names) objects.push_back(object(name));
  auto opened = client_->open_all(objects, stop);
  for (std::size_t i = 0; i < opened.size() && i < names.size(); ++i) {
    expected_.insert_or_assign(names[i], std::move(opened[i]));
  }
}

std::shared_ptr<byte_source> s3_folder::open(const std::string& name, const std::stop_token& stop) {
  auto expected = expected_.extract(name);
  auto opened = expected ? std::move(expected.mapped()) : client_->open(object(name), stop);
  if (!opened) opened = explained(opened.error(), name, stop);
  return value_or_throw(std::move(opened), path_of(name));
}

// Returns true if the folder has objects or sub-folders. Returns false if the server refuses the
// listing, because a user may have the right to read objects but not the right to list objects.
bool has_names(s3_folder& folder, const std::stop_token& stop) {
  try {
    return !folder.names(stop).empty();
  } catch (const error& refused) {
    if (refused.code() == errc::access_denied) return false;
    throw;
  }
}

class s3_store final : public byte_store {
 public:
  s3_store(std::shared_ptr<http_client> client, const s3_options& options, std::string_view scheme);

  bool has_name(std::string_view source) const noexcept override {
    return begins_with_scheme(source, access_.scheme);
  }
  found_source find(std::string_view source, const std::stop_token& stop) override;
  std::shared_ptr<byte_target> create(const target_request& request) override;

 private:
  s3_access access_to(const std::string& bucket, const std::stop_token& stop) const;
  void find_region(s3_access& access, const std::string& bucket, const std::stop_token& stop) const;

  const std::shared_ptr<http_client> client_;
  s3_access access_;
};

s3_store::s3_store(std::shared_ptr<http_client> client, const s3_options& options,
                   std::string_view scheme)
    : client_(std::move(client)),
      access_{{options.region, options.endpoint, options.path_style},
              std::make_shared<s3_keyring>(
                  s3_credentials{options.access_key_id, options.secret_access_key,
                                 options.session_token},
                  options.renew),
              options.missing_keys_reason,
              scheme} {
  for (const std::string* value : {&options.access_key_id, &options.session_token}) {
    const bool sent = std::ranges::all_of(*value, [](char c) { return c > ' ' && c < '\x7f'; });
    if (!sent) {
      const bool is_key = value == &options.access_key_id;
      throw to_error({errc::invalid_options,
                      is_key ? "s3_options::access_key_id" : "s3_options::session_token",
                      "a credential holds a blank, or a character that is not printable ASCII"});
    }
  }
  if (options.endpoint.empty()) return;
  if (auto endpoint = parse_http_url(options.endpoint); !endpoint) {
    throw to_error({errc::invalid_options, "s3_options::endpoint", endpoint.error().cause()});
  }
}

// Requests the region of the bucket without credentials: Amazon reports the region to every client.
void s3_store::find_region(s3_access& access, const std::string& bucket,
                           const std::stop_token& stop) const {
  small_request request;
  request.method = http_method::head;
  request.follows_redirects = false;
  request.object.shown = "s3://" + bucket;
  request.object.url =
      value_or_throw(s3_object_url(access.place, {bucket, ""}), request.object.shown);
  const small_response response =
      value_or_throw(client_->fetch(request, stop), request.object.shown);
  const std::string* const region = response.field(s3_region_field);
  if (region != nullptr) access.place.region = *region;
}

s3_access s3_store::access_to(const std::string& bucket, const std::stop_token& stop) const {
  s3_access access = access_;
  if (access.place.region.empty() && access.place.endpoint.empty()) {
    find_region(access, bucket, stop);
  }
  return access;
}

std::shared_ptr<byte_target> s3_store::create(const target_request& request) {
  const auto address =
      value_or_throw(parse_s3_address(request.name, access_.scheme), printable_path(request.name));
  if (address.key.empty() || address.key.ends_with('/')) {
    throw to_error({errc::invalid_source_name, printable_path(request.name),
                    "the address has no key; expected the name of a file"});
  }
  return make_s3_target(client_, access_to(address.bucket, request.stop), address, request);
}

found_source s3_store::find(std::string_view source, const std::stop_token& stop) {
  const auto address =
      value_or_throw(parse_s3_address(source, access_.scheme), printable_path(source));
  const s3_access access = access_to(address.bucket, stop);
  const auto folder = [&](std::string prefix) {
    return std::make_shared<s3_folder>(client_, access, address.bucket, std::move(prefix));
  };
  found_source out;
  const std::string& key = address.key;
  const std::size_t name = key.rfind('/') + 1;  // 0 if the key has no '/'.
  if (key.empty() || key.ends_with('/')) {
    out.folder = folder(key);
    return out;
  }
  const auto inside = folder(key + "/");
  const bool may_be_folder = !is_checkpoint_file(key) && !key.ends_with(".index.json");
  if (may_be_folder && has_names(*inside, stop)) {
    out.folder = inside;
    return out;
  }
  out.folder = folder(key.substr(0, name));
  out.file = key.substr(name);
  return out;
}

}  // namespace

std::shared_ptr<byte_store> make_s3_store(std::shared_ptr<http_client> client,
                                          const s3_options& options, std::string_view scheme) {
  return std::make_shared<s3_store>(std::move(client), options, scheme);
}

}  // namespace ringload::inline v0::remote_http
