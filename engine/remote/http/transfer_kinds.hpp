// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two kinds of HTTP transfers: a small body, and a range of an object. object_body.hpp has the
// third kind, which opens an object.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "remote/http/http_transfer.hpp"
#include "remote/http/response.hpp"

namespace ringload::inline v0::remote_http {

// Properties of an open object. Constant after the object was opened.
struct object_properties {
  std::uint64_t bytes = 0;
  std::string etag;  // ETag of the first response. Empty if there was no ETag.
  // Last-Modified of the first response. Empty if the response has an ETag.
  std::string modified;
};

header_field range_field(std::uint64_t begin, std::uint64_t end);

// Adds If-Match if `etag` is strong, and If-Unmodified-Since if `modified` is not empty. The server
// then refuses the request if the object has changed.
void add_conditions(std::vector<header_field>& to, const object_properties& properties);

// Returns the fault for a whole object that the server sent instead of the requested range. Returns
// changed_file if the object is another version. Returns unsupported_feature otherwise: a retry may
// receive the range.
fault fault_of_whole(const response_head& head, const requested_range& requested);

// Receives a small body. A response with any status is a success, unless small_request::must_repeat
// returns true.
class small_body_kind final : public transfer_kind {
 public:
  small_body_kind(const small_request& request, small_response& into)
      : request_(request), into_(into) {}

  http_method method() const noexcept override { return request_.method; }
  std::span<const std::byte> body() const noexcept override { return request_.body; }
  std::string_view body_sha256() const noexcept override { return request_.body_sha256; }
  bool follows_redirects() const noexcept override { return request_.follows_redirects; }
  std::vector<header_field> fields() const override { return request_.fields; }
  body_target choose_target(const response_head& head) override;
  void arrived(std::uint64_t) override {}
  state evaluate(const response_head& head, fault& failure) override;
  state evaluate_refused(const response_head& head, fault& failure) override;

 private:
  const small_request& request_;
  small_response& into_;
};

// Receives a range into memory. A retry requests only the bytes that were not yet received.
class range_kind final : public transfer_kind {
 public:
  range_kind(std::shared_ptr<const object_properties> properties, std::uint64_t offset,
             std::span<std::byte> into, transfer_counts* counts)
      : properties_(std::move(properties)), begin_(offset), into_(into), counts_(counts) {}

  std::vector<header_field> fields() const override;
  body_target choose_target(const response_head& head) override;
  void arrived(std::uint64_t bytes) override;
  state evaluate(const response_head& head, fault& failure) override;
  state evaluate_refused(const response_head& head, fault& failure) override;

 private:
  requested_range requested() const;

  const std::shared_ptr<const object_properties> properties_;
  const std::uint64_t begin_;
  const std::span<std::byte> into_;
  transfer_counts* const counts_;
  std::uint64_t reached_ = 0;  // Number of bytes of into_ that are filled.
  bool placing_ = false;
  fault refused_;
};

}  // namespace ringload::inline v0::remote_http
