// SPDX-License-Identifier: Apache-2.0
#include "remote/goals.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringload::inline v0::remote_http {

namespace {

header_field range_field(std::uint64_t begin, std::uint64_t end) {
  return {"Range", "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)};
}

std::string value_of(const answer_head& head, std::string_view name) {
  const std::string* const found = head.field(name);
  return found == nullptr ? std::string() : *found;
}

}  // namespace

body_place small_goal::place(const answer_head&) {
  into_.body.clear();
  return {body_place::kind::text, {}, &into_.body, what_.bytes_max};
}

transfer_goal::state small_goal::settle(const answer_head& head, fault&) {
  into_.status = head.status;
  into_.fields = head.fields;
  return state::done;
}

std::vector<header_field> opening_goal::fields() const {
  std::vector<header_field> out{range_field(0, first_bytes)};
  if (is_strong_etag(what_.etag)) out.push_back({"If-Match", what_.etag});
  return out;
}

// Of a good answer, and with it what is known of the object. Not yet known: 0, and in_text_.
result<std::uint64_t> opening_goal::bytes_that_follow(const answer_head& head) {
  asked_range asked = {0, first_bytes, what_.bytes, what_.etag, {}};
  if (kind_of(head) == answer_kind::partial) {
    auto bytes = check_partial(head, asked);
    if (!bytes) return bytes.error();
    const auto range = parse_content_range(*head.field("content-range"));
    if (!range->total) return fault{errc::unsupported_feature, "", "its server hides the size"};
    into_.bytes = *range->total;
    return bytes;
  }
  if (auto same = check_identity(head, asked); !same) return same.error();
  in_text_ = !head.content_length.has_value();
  if (in_text_) return 0;
  into_.bytes = *head.content_length;
  if (into_.bytes > whole_bytes_max_) {
    return fault{errc::unsupported_feature, "",
                 "its server gives no ranges, and the object has " + grouped(into_.bytes) +
                     " bytes, more than the " + grouped(whole_bytes_max_) +
                     " that are fetched as a whole"};
  }
  return into_.bytes;
}

body_place opening_goal::place(const answer_head& head) {
  const answer_kind kind = kind_of(head);
  in_text_ = false;
  refused_ = {};
  if (kind != answer_kind::partial && kind != answer_kind::whole) return {};
  into_.etag = value_of(head, "etag");
  into_.modified = into_.etag.empty() ? value_of(head, "last-modified") : std::string();
  auto bytes = bytes_that_follow(head);
  if (!bytes) {
    refused_ = bytes.error();
    return {};
  }
  text_.clear();
  if (in_text_) return {body_place::kind::text, {}, &text_, whole_bytes_max_};
  into_.first.assign(static_cast<std::size_t>(*bytes), std::byte());
  return {body_place::kind::memory, into_.first, nullptr, 0};
}

result<void> opening_goal::check_expected() const {
  if (!what_.bytes || *what_.bytes == into_.bytes) return {};
  return fault{
      errc::changed_file, "",
      "it was said to have " + grouped(*what_.bytes) + " bytes, and has " + grouped(into_.bytes)};
}

transfer_goal::state opening_goal::settle(const answer_head& head, fault& why) {
  const answer_kind kind = kind_of(head);
  if (kind == answer_kind::unsatisfied) {
    // Of no byte there is no range.
    const auto range = parse_content_range(value_of(head, "content-range"));
    if (range && range->total == 0) {
      into_.etag = value_of(head, "etag");
      into_.bytes = 0;
      auto good = check_expected();
      if (!good) why = good.error();
      return good ? state::done : state::failed;
    }
  }
  if (refused_.code || (kind != answer_kind::partial && kind != answer_kind::whole)) {
    why = refused_.code ? refused_ : fault_of(head);
    return state::failed;
  }
  if (in_text_) {
    const auto bytes = std::as_bytes(std::span(text_));
    into_.first.assign(bytes.begin(), bytes.end());
    into_.bytes = bytes.size();
  }
  if (auto good = check_expected(); !good) {
    why = good.error();
    return state::failed;
  }
  return state::done;
}

transfer_goal::state opening_goal::settle_refused(const answer_head& head, fault& why) {
  why = fault_of(head);
  return state::failed;
}

asked_range range_goal::asked() const {
  return {begin_ + reached_, begin_ + into_.size(), of_->bytes, of_->etag, of_->modified};
}

std::vector<header_field> range_goal::fields() const {
  std::vector<header_field> out{range_field(begin_ + reached_, begin_ + into_.size())};
  if (is_strong_etag(of_->etag)) out.push_back({"If-Match", of_->etag});
  if (!of_->modified.empty()) out.push_back({"If-Unmodified-Since", of_->modified});
  return out;
}

body_place range_goal::place(const answer_head& head) {
  placing_ = false;
  refused_ = {};
  const answer_kind kind = kind_of(head);
  const auto rest = into_.subspan(static_cast<std::size_t>(reached_));
  if (kind == answer_kind::whole && rest.size() == of_->bytes) {
    if (auto same = check_identity(head, asked()); !same) refused_ = same.error();
    if (!refused_.code && head.content_length && *head.content_length != of_->bytes) {
      refused_ = {errc::changed_file, "", "the object has another size than at first"};
    }
    placing_ = !refused_.code;
    return placing_ ? body_place{body_place::kind::memory, rest, nullptr, 0} : body_place();
  }
  if (kind == answer_kind::whole) {
    refused_ = {errc::unsupported_feature, "", "its server stopped to give ranges of it"};
  }
  if (kind != answer_kind::partial) return {};
  auto bytes = check_partial(head, asked());
  if (!bytes) {
    refused_ = bytes.error();
    return {};
  }
  if (counts_) {
    std::int64_t none = 0;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    counts_->first_byte_at.compare_exchange_strong(none, std::chrono::nanoseconds(now).count());
  }
  placing_ = true;
  return {body_place::kind::memory, rest.first(static_cast<std::size_t>(*bytes)), nullptr, 0};
}

void range_goal::arrived(std::uint64_t bytes) {
  if (placing_) reached_ += bytes;
  placing_ = false;
}

transfer_goal::state range_goal::settle(const answer_head& head, fault& why) {
  const answer_kind kind = kind_of(head);
  if (refused_.code || (kind != answer_kind::partial && kind != answer_kind::whole)) {
    why = refused_.code ? refused_ : fault_of(head);
    return state::failed;
  }
  return reached_ == into_.size() ? state::done : state::unfinished;
}

transfer_goal::state range_goal::settle_refused(const answer_head& head, fault& why) {
  why = fault_of(head);
  return state::failed;
}

}  // namespace ringload::inline v0::remote_http
