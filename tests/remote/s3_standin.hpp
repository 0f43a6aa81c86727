// SPDX-License-Identifier: Apache-2.0
#pragma once

// A replacement of S3 on loopback: objects, multipart uploads, and faults by a script.

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "remote/scripted_server.hpp"

namespace ringload::testing {

class s3_standin {
 public:
  // Called for each request, before or after the server obeys it. If the result is set, it replaces
  // the response.
  using fault_script =
      std::function<std::optional<web_reply>(const web_request&, std::uint64_t number)>;

  // The server's mutex guards the state while a request is obeyed. Tests read it between requests.
  std::map<std::string, std::string> objects;  // By path, such as "/bucket/a.zt".
  std::map<std::string, std::map<std::uint32_t, std::string>> uploads;  // Parts, by identifier.
  std::uint64_t began = 0;                                              // Uploads that were begun.
  std::size_t part_bytes_least = 0;  // The smallest part that was not the last one.
  fault_script before;               // The server does not obey the request.
  fault_script after_effect;         // The server obeys the request, but its response is lost.
  std::string expected_token;        // If set, requests without this session token get 403.

  std::map<std::string, std::string> etags;  // By path, with quotes.

  scripted_server server{[this](const web_request& asked, std::uint64_t number) {
    if (before) {
      if (auto reply = before(asked, number)) return *reply;
    }
    const web_reply reply = obey(asked);
    if (after_effect) {
      if (auto lost = after_effect(asked, number)) return *lost;
    }
    return reply;
  }};

  std::string endpoint() const { return server.address(""); }

  static std::string kind_of(const web_request& asked) {
    const bool has_upload = asked.target.find("uploadId=") != std::string::npos;
    if (asked.method == "POST") return has_upload ? "complete" : "begin";
    if (asked.method == "PUT") return has_upload ? "part" : "put";
    if (asked.method == "DELETE") return "abort";
    return "read";
  }

 private:
  static std::string hex_md5(const std::string& bytes, bool as_hex = true) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> sum = {};
    unsigned length = 0;
    EVP_Digest(bytes.data(), bytes.size(), sum.data(), &length, EVP_md5(), nullptr);
    if (!as_hex) return {reinterpret_cast<const char*>(sum.data()), length};
    std::string out;
    for (unsigned i = 0; i < length; ++i) {
      out += "0123456789abcdef"[sum[i] >> 4U];
      out += "0123456789abcdef"[sum[i] & 15U];
    }
    return out;
  }

  static web_reply error_reply(unsigned status, const std::string& code) {
    return web_response(status, {}, "<Error><Code>" + code + "</Code></Error>");
  }

  static std::string value_in(const std::string& target, const std::string& name) {
    const std::size_t begin = target.find(name + "=");
    if (begin == std::string::npos) return "";
    const std::size_t value = begin + name.size() + 1;
    return target.substr(value, target.find('&', value) - value);
  }

  web_reply obey(const web_request& asked) {
    if (!expected_token.empty() && asked.field("x-amz-security-token") != expected_token) {
      return error_reply(403, "ExpiredToken");
    }
    const std::string path = asked.target.substr(0, asked.target.find('?'));
    const std::string upload = value_in(asked.target, "uploadId");
    const std::string kind = kind_of(asked);
    if (kind == "read") return read(asked, path);
    const bool must_be_absent = asked.field("if-none-match") == "*";
    if (must_be_absent && objects.contains(path)) return error_reply(412, "PreconditionFailed");
    if (kind == "begin") {
      const std::string id = "upload-" + std::to_string(++began);
      uploads[id];
      return web_response(200, {},
                          "<InitiateMultipartUploadResult><UploadId>" + id +
                              "</UploadId></InitiateMultipartUploadResult>");
    }
    if (kind == "put") {
      put(path, asked.body, '"' + hex_md5(asked.body) + '"');
      return web_response(200, {"ETag: " + etags[path]});
    }
    const auto found = uploads.find(upload);
    if (found == uploads.end()) return error_reply(404, "NoSuchUpload");
    if (kind == "part") {
      const auto number =
          static_cast<std::uint32_t>(std::stoul(value_in(asked.target, "partNumber")));
      found->second[number] = asked.body;
      return web_response(200, {"ETag: \"" + hex_md5(asked.body) + '"'});
    }
    if (kind == "abort") {
      uploads.erase(found);
      return {web_head(204, {})};
    }
    return complete(path, asked.body, found->second, upload);
  }

  web_reply complete(const std::string& path, const std::string& listed,
                     const std::map<std::uint32_t, std::string>& parts, const std::string& upload) {
    std::string whole;
    std::string sums;
    for (const auto& [number, bytes] : parts) {
      const std::string entry = "<Part><PartNumber>" + std::to_string(number) +
                                "</PartNumber><ETag>\"" + hex_md5(bytes) + "\"</ETag></Part>";
      if (listed.find(entry) == std::string::npos) return error_reply(400, "InvalidPart");
      if (number != parts.rbegin()->first) {
        part_bytes_least =
            part_bytes_least == 0 ? bytes.size() : std::min(part_bytes_least, bytes.size());
        if (bytes.size() < (5 << 20)) return error_reply(400, "EntityTooSmall");
      }
      whole += bytes;
      sums += hex_md5(bytes, false);
    }
    put(path, whole, '"' + hex_md5(sums) + "-" + std::to_string(parts.size()) + '"');
    uploads.erase(upload);
    return web_response(200, {},
                        "<CompleteMultipartUploadResult><ETag>" + etags[path] +
                            "</ETag></CompleteMultipartUploadResult>");
  }

  web_reply read(const web_request& asked, const std::string& path) const {
    const auto found = objects.find(path);
    if (asked.method == "HEAD") {
      if (found == objects.end()) return {web_head(404, {})};
      return {web_head(200, {"ETag: " + etags.at(path),
                             "Content-Length: " + std::to_string(found->second.size())})};
    }
    if (found == objects.end()) return error_reply(404, "NoSuchKey");
    return web_range(asked, found->second, etags.at(path));
  }

  void put(const std::string& path, const std::string& bytes, const std::string& etag) {
    objects[path] = bytes;
    etags[path] = etag;
  }
};

}  // namespace ringload::testing
