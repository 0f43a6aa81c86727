// SPDX-License-Identifier: Apache-2.0

#include "remote/http/transfer_kinds.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringload::inline v0::remote_http {

header_field range_field(std::uint64_t begin, std::uint64_t end) {
  return {"Range", "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)};
}

void add_conditions(std::vector<header_field>& to, const object_properties& properties) {
  if (is_strong_etag(properties.etag)) to.push_back({"If-Match", properties.etag});
  if (!properties.modified.empty()) to.push_back({"If-Unmodified-Since", properties.modified});
}

fault fault_of_whole(const response_head& head, const requested_range& requested) {
  if (auto identity = check_identity(head, requested); !identity) return identity.error();
  if (head.content_length && requested.total && *head.content_length != *requested.total) {
    return {errc::changed_file, "", "the object's size has changed since the object was opened"};
  }
  return {errc::unsupported_feature, "", "the server no longer supports ranges of the object"};
}

body_target small_body_kind::choose_target(const response_head&) {
  into_.body.clear();
  return {body_target::kind::text, {}, &into_.body, request_.bytes_max};
}

transfer_kind::state small_body_kind::evaluate(const response_head& head, fault& failure) {
  evaluate_refused(head, failure);
  const bool may_repeat = head.status == 200 || head.status == 400;
  if (!may_repeat || !request_.must_repeat || !request_.must_repeat(into_)) return state::done;
  failure = head.status == 200 ? fault{errc::remote_failed, "",
                                       "the server answered 200, but its response is an error"}
                               : fault_of(head);
  return state::unfinished;
}

transfer_kind::state small_body_kind::evaluate_refused(const response_head& head, fault&) {
  into_.status = head.status;
  into_.fields = head.fields;
  return state::done;
}

requested_range range_kind::requested() const {
  return {begin_ + reached_, begin_ + into_.size(), properties_->bytes, properties_->etag,
          properties_->modified};
}

std::vector<header_field> range_kind::fields() const {
  std::vector<header_field> out{range_field(begin_ + reached_, begin_ + into_.size())};
  add_conditions(out, *properties_);
  return out;
}

body_target range_kind::choose_target(const response_head& head) {
  placing_ = false;
  refused_ = {};
  const response_kind kind = kind_of(head);
  const auto rest = into_.subspan(static_cast<std::size_t>(reached_));
  if (kind == response_kind::whole && rest.size() == properties_->bytes) {
    if (auto identity = check_identity(head, requested()); !identity) refused_ = identity.error();
    if (!refused_.code && head.content_length && *head.content_length != properties_->bytes) {
      refused_ = {errc::changed_file, "",
                  "the object's size has changed since the object was opened"};
    }
    placing_ = !refused_.code;
    return placing_ ? body_target{body_target::kind::memory, rest, nullptr, 0} : body_target();
  }
  if (kind == response_kind::whole) refused_ = fault_of_whole(head, requested());
  if (kind != response_kind::partial) return {};
  auto bytes = check_partial(head, requested());
  if (!bytes) {
    refused_ = bytes.error();
    return {};
  }
  if (counts_) {
    std::int64_t unset = 0;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    counts_->first_byte_at.compare_exchange_strong(unset, std::chrono::nanoseconds(now).count());
  }
  placing_ = true;
  return {body_target::kind::memory, rest.first(static_cast<std::size_t>(*bytes)), nullptr, 0};
}

void range_kind::arrived(std::uint64_t bytes) {
  if (placing_) reached_ += bytes;
  placing_ = false;
}

transfer_kind::state range_kind::evaluate(const response_head& head, fault& failure) {
  const response_kind kind = kind_of(head);
  if (refused_.code == errc::unsupported_feature) {
    failure = refused_;
    return state::unfinished;
  }
  if (refused_.code || (kind != response_kind::partial && kind != response_kind::whole)) {
    failure = refused_.code ? refused_ : fault_of(head);
    return state::failed;
  }
  return reached_ == into_.size() ? state::done : state::unfinished;
}

transfer_kind::state range_kind::evaluate_refused(const response_head& head, fault& failure) {
  failure = fault_of(head);
  return state::failed;
}

}  // namespace ringload::inline v0::remote_http
