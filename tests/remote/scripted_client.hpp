// SPDX-License-Identifier: Apache-2.0
#pragma once

// An http_client without a network: responses and objects by their addresses, and a list of the
// requests.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "remote/http/http.hpp"

namespace ringload::testing {

// Bytes in memory. Each read completes at once, in the calling thread.
class memory_source final : public byte_source {
 public:
  explicit memory_source(std::string content) : content_(std::move(content)) {}

  std::uint64_t bytes() const noexcept override { return content_.size(); }
  std::string identity() const override { return {}; }
  void read_async(const source_read& what, read_handler done) override {
    ++reads;
    if (fails) {
      std::move(done)(std::make_exception_ptr(error(errc::remote_failed, "a source", "cut")));
      return;
    }
    bytes_read += what.into.size();
    std::memcpy(what.into.data(), content_.data() + what.offset, what.into.size());
    std::move(done)(nullptr);
  }

  std::atomic<int> reads = 0;
  std::atomic<std::uint64_t> bytes_read = 0;
  std::atomic<bool> fails = false;

 private:
  const std::string content_;
};

class scripted_client final : public remote_http::http_client {
 public:
  struct scripted_response {
    unsigned status = 200;
    std::string body;
    std::vector<remote_http::header_field> fields;
  };

  result<remote_http::small_response> fetch(const remote_http::small_request& request,
                                            const std::stop_token&) override {
    note(std::string(name(request.method)), request.object);
    const auto at = responses.find(address(request.object.url));
    if (at == responses.end()) return fault{errc::remote_failed, request.object.name(), "refused"};
    if (at->second.body.size() > request.bytes_max)
      return fault{errc::remote_failed, "", "too large"};
    remote_http::small_response out;
    out.status = at->second.status;
    out.body = at->second.body;
    out.fields = at->second.fields;
    out.from = request.object.url;
    return out;
  }

  void start_fetch(remote_http::small_request request, const std::stop_token& stop,
                   fetch_handler done) override {
    done(fetch(request, stop));
  }

  result<std::shared_ptr<byte_source>> open(const remote_http::remote_object& what,
                                            const std::stop_token&) override {
    note("OPEN", what);
    const auto at = objects.find(address(what.url));
    if (at == objects.end()) return fault{errc::source_not_found, what.name(), "404"};
    return std::shared_ptr<byte_source>(at->second);
  }

  std::vector<result<std::shared_ptr<byte_source>>> open_all(
      std::span<const remote_http::remote_object> what, const std::stop_token& stop) override {
    std::vector<result<std::shared_ptr<byte_source>>> out;
    for (const auto& each : what) out.push_back(open(each, stop));
    return out;
  }

  static std::string address(const remote_http::http_url& url) {
    return (url.tls ? "https://" : "http://") + url.authority() + url.target;
  }

  // The fields that were added to the last request, each as "name: value".
  std::string last_signature() const { return signatures.empty() ? "" : signatures.back(); }
  bool asked_for(const std::string& line) const {
    return std::ranges::find(requests, line) != requests.end();
  }

  std::map<std::string, scripted_response> responses;
  std::map<std::string, std::shared_ptr<memory_source>> objects;
  std::vector<std::string> requests;  // "GET https://host/path?query"
  std::vector<std::string> signatures;

 private:
  void note(const std::string& verb, const remote_http::remote_object& what) {
    requests.push_back(verb + " " + address(what.url));
    std::string added;
    if (what.sign) {
      for (const auto& each : what.sign({"GET", what.url, {}})) {
        added += each.name + ": " + each.value + "\n";
      }
    }
    signatures.push_back(std::move(added));
  }
};

// Reads and waits. Returns the bytes, or "failed".
inline std::string read_text(byte_source& from, std::uint64_t offset, std::size_t bytes) {
  std::string out(bytes, '\0');
  std::promise<bool> ended;
  auto end = ended.get_future();
  from.read_async({offset, std::as_writable_bytes(std::span(out))},
                  [&](std::exception_ptr failure) { ended.set_value(failure == nullptr); });
  return end.get() ? out : "failed";
}

}  // namespace ringload::testing
