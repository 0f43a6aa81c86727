// SPDX-License-Identifier: Apache-2.0
#include "remote/http/transfer_kinds.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringload::inline v0::remote_http {

header_field range_field(std::uint64_t begin, std::uint64_t end) {
  return {"Range", "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)};
}

void add_conditions(std::vector<header_field>& to, const object_facts& facts) {
  if (is_strong_etag(facts.etag)) to.push_back({"If-Match", facts.etag});
  if (!facts.modified.empty()) to.push_back({"If-Unmodified-Since", facts.modified});
}

body_place small_goal::place(const answer_head&) {
  into_.body.clear();
  return {body_place::kind::text, {}, &into_.body, request_.bytes_max};
}

transfer_goal::state small_goal::settle(const answer_head& head, fault&) {
  into_.status = head.status;
  into_.fields = head.fields;
  return state::done;
}

asked_range range_goal::asked() const {
  return {begin_ + reached_, begin_ + into_.size(), facts_->bytes, facts_->etag, facts_->modified};
}

std::vector<header_field> range_goal::fields() const {
  std::vector<header_field> out{range_field(begin_ + reached_, begin_ + into_.size())};
  add_conditions(out, *facts_);
  return out;
}

body_place range_goal::place(const answer_head& head) {
  placing_ = false;
  refused_ = {};
  const answer_kind kind = kind_of(head);
  const auto rest = into_.subspan(static_cast<std::size_t>(reached_));
  if (kind == answer_kind::whole && rest.size() == facts_->bytes) {
    if (auto identity = check_identity(head, asked()); !identity) refused_ = identity.error();
    if (!refused_.code && head.content_length && *head.content_length != facts_->bytes) {
      refused_ = {errc::changed_file, "",
                  "the object's size has changed since the object was opened"};
    }
    placing_ = !refused_.code;
    return placing_ ? body_place{body_place::kind::memory, rest, nullptr, 0} : body_place();
  }
  if (kind == answer_kind::whole) {
    refused_ = {errc::unsupported_feature, "",
                "the server no longer supports ranges of the object"};
  }
  if (kind != answer_kind::partial) return {};
  auto bytes = check_partial(head, asked());
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
  return {body_place::kind::memory, rest.first(static_cast<std::size_t>(*bytes)), nullptr, 0};
}

void range_goal::arrived(std::uint64_t bytes) {
  if (placing_) reached_ += bytes;
  placing_ = false;
}

transfer_goal::state range_goal::settle(const answer_head& head, fault& failure) {
  const answer_kind kind = kind_of(head);
  if (refused_.code || (kind != answer_kind::partial && kind != answer_kind::whole)) {
    failure = refused_.code ? refused_ : fault_of(head);
    return state::failed;
  }
  return reached_ == into_.size() ? state::done : state::unfinished;
}

transfer_goal::state range_goal::settle_refused(const answer_head& head, fault& failure) {
  failure = fault_of(head);
  return state::failed;
}

}  // namespace ringload::inline v0::remote_http
