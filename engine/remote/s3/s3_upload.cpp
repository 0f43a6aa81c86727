// SPDX-License-Identifier: Apache-2.0

#include "remote/s3/s3_upload.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "base/checked.hpp"
#include "formats/checksum_list.hpp"
#include "remote/http/percent_encoding.hpp"
#include "remote/s3/xml_elements.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::uint32_t parts_of_one_size = 1'000;
constexpr std::size_t upload_id_bytes_max = 2048;
constexpr std::size_t md5_bytes = 16;

std::uint32_t part_number(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(number);
}

http_url with_query(const http_url& object, const std::string& query) {
  http_url out = object;
  out.target += "?" + query;
  return out;
}

std::string_view without_quotes(std::string_view etag) noexcept {
  const bool is_quoted = etag.size() >= 2 && etag.front() == '"' && etag.back() == '"';
  return is_quoted ? etag.substr(1, etag.size() - 2) : etag;
}

// Adds the bytes of an MD5 of 32 hexadecimal digits. Returns false for any other text.
bool add_md5(std::string_view hex_text, std::string& bytes) {
  const auto value = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (hex_text.size() != 2 * md5_bytes) return false;
  for (std::size_t i = 0; i < hex_text.size(); i += 2) {
    const int high = value(hex_text[i]);
    const int low = value(hex_text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes += static_cast<char>(high * 16 + low);
  }
  return true;
}

// Returns an empty optional if this OpenSSL does not support MD5.
std::optional<std::string> hex_md5(const void* bytes, std::size_t count) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum = {};
  unsigned length = 0;
  if (::EVP_Digest(bytes, count, sum.data(), &length, ::EVP_md5(), nullptr) != 1) {
    return std::nullopt;
  }
  return hex(std::as_bytes(std::span(sum).first(length)));
}

}  // namespace

result<part_layout> part_layout::make(std::uint64_t object_bytes, std::uint64_t write_bytes_max) {
  std::uint64_t part_bytes = std::max(part_bytes_min, write_bytes_max);
  while (part_bytes <= part_bytes_max && object_bytes / part_bytes >= parts_max) part_bytes *= 2;
  if (part_bytes <= part_bytes_max) return part_layout(object_bytes, part_bytes);
  return fault{errc::size_overflow, "",
               "an object of " + grouped(object_bytes) + " bytes needs more than " +
                   grouped(parts_max) + " parts of " + grouped(part_bytes_max) + " bytes"};
}

std::uint32_t part_layout::part_at(std::uint64_t offset) const noexcept {
  if (object_bytes_ > 0) return part_number(offset / part_bytes_);
  std::uint64_t bytes = part_bytes_;
  std::uint32_t first = 0;
  while (offset >= bytes * parts_of_one_size) {
    offset -= bytes * parts_of_one_size;
    bytes *= 2;
    first += parts_of_one_size;
  }
  return first + part_number(offset / bytes);
}

std::uint64_t part_layout::begin_of(std::uint32_t part) const noexcept {
  if (object_bytes_ > 0) return part * part_bytes_;
  const std::uint32_t doublings = part / parts_of_one_size;
  const std::uint64_t before =
      part_bytes_ * parts_of_one_size * ((std::uint64_t{1} << doublings) - 1);
  return before + (part % parts_of_one_size) * (part_bytes_ << doublings);
}

std::uint64_t part_layout::bytes_of(std::uint32_t part) const noexcept {
  if (object_bytes_ > 0) return std::min(part_bytes_, object_bytes_ - begin_of(part));
  return part_bytes_ << (part / parts_of_one_size);
}

http_url s3_begin_url(const http_url& object) { return with_query(object, "uploads="); }

http_url s3_part_url(const http_url& object, std::uint32_t number, std::string_view upload_id) {
  return with_query(
      object, "partNumber=" + std::to_string(number) + "&uploadId=" + percent_encoded(upload_id));
}

http_url s3_end_url(const http_url& object, std::string_view upload_id) {
  return with_query(object, "uploadId=" + percent_encoded(upload_id));
}

result<std::string> parse_s3_upload_id(std::string_view xml) {
  std::string upload_id;
  auto parsed = parse_xml(xml, [&](const xml_element& element) -> result<void> {
    // rclone's S3 server sends the second name.
    const bool is_upload_id = element.path == "InitiateMultipartUploadResult/UploadId" ||
                              element.path == "InitiateMultipartUpload/UploadId";
    if (is_upload_id) upload_id = element.text;
    return {};
  });
  if (!parsed) return parsed.error();
  if (!upload_id.empty() && upload_id.size() <= upload_id_bytes_max) return upload_id;
  return fault{errc::malformed_answer, "", "the server began no upload: it sent no valid UploadId"};
}

std::string s3_completion_body(const part_etags& etags) {
  std::string out = "<CompleteMultipartUpload>";
  for (const auto& [part, etag] : etags) {
    out += "<Part><PartNumber>" + std::to_string(part + 1) + "</PartNumber><ETag>" + etag +
           "</ETag></Part>";
  }
  return out + "</CompleteMultipartUpload>";
}

bool is_s3_completion(std::string_view xml) {
  bool is_complete = false;
  const auto parsed = parse_xml(xml, [&](const xml_element& element) -> result<void> {
    if (element.path == "CompleteMultipartUploadResult") is_complete = true;
    return {};
  });
  return parsed && is_complete;
}

std::optional<std::string> s3_put_etag(std::span<const std::byte> bytes) {
  const auto sum = hex_md5(bytes.data(), bytes.size());
  return sum ? std::optional('"' + *sum + '"') : std::nullopt;
}

std::optional<std::string> s3_complete_etag(const part_etags& etags) {
  std::string all;
  for (const auto& [part, etag] : etags) {
    if (!add_md5(without_quotes(etag), all)) return std::nullopt;
  }
  const auto sum = hex_md5(all.data(), all.size());
  if (!sum) return std::nullopt;
  return '"' + *sum + "-" + std::to_string(etags.size()) + '"';
}

}  // namespace ringload::inline v0::remote_http
