// SPDX-License-Identifier: Apache-2.0
#pragma once

// Goals of transfers: a small body, and a range of an object. object_body.hpp has the goal for the
// first bytes of an object, or for a whole object without ranges.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "remote/http/answer.hpp"
#include "remote/http/http_transfer.hpp"

namespace ringload::inline v0::remote_http {

// Facts of an open object. Immutable.
struct object_facts {
  std::uint64_t bytes = 0;
  std::string etag;      // ETag of the first answer; empty: no ETag.
  std::string modified;  // Last-Modified, if there is no ETag.
};

header_field range_field(std::uint64_t begin, std::uint64_t end);

// Adds the condition that the object has not changed, if there is a strong ETag or a date.
void add_conditions(std::vector<header_field>& to, const object_facts& facts);

// Receives a small body. Accepts any status.
class small_goal final : public transfer_goal {
 public:
  small_goal(const small_request& request, small_answer& into) : request_(request), into_(into) {}

  bool head() const noexcept override { return request_.head; }
  bool follows() const noexcept override { return request_.follows; }
  std::vector<header_field> fields() const override { return request_.fields; }
  body_place place(const answer_head& head) override;
  void arrived(std::uint64_t) override {}
  state settle(const answer_head& head, fault& failure) override;
  state settle_refused(const answer_head& head, fault& failure) override {
    return settle(head, failure);
  }

 private:
  const small_request& request_;
  small_answer& into_;
};

// Receives a range into memory. A retry continues at the reached byte.
class range_goal final : public transfer_goal {
 public:
  range_goal(std::shared_ptr<const object_facts> facts, std::uint64_t offset,
             std::span<std::byte> into, transfer_counts* counts)
      : facts_(std::move(facts)), begin_(offset), into_(into), counts_(counts) {}

  std::vector<header_field> fields() const override;
  body_place place(const answer_head& head) override;
  void arrived(std::uint64_t bytes) override;
  state settle(const answer_head& head, fault& failure) override;
  state settle_refused(const answer_head& head, fault& failure) override;

 private:
  asked_range asked() const;

  const std::shared_ptr<const object_facts> facts_;
  const std::uint64_t begin_;
  const std::span<std::byte> into_;
  transfer_counts* const counts_;
  std::uint64_t reached_ = 0;  // Bytes of into_ that are filled.
  bool placing_ = false;
  fault refused_;
};

}  // namespace ringload::inline v0::remote_http
