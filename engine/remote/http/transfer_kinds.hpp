// SPDX-License-Identifier: Apache-2.0
#pragma once

// What transfers are made for: a small body, a range of an object; its beginning, or all of it
// where there are no ranges, is in object_body.hpp.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "remote/http/answer.hpp"
#include "remote/http/http_transfer.hpp"

namespace ringload::inline v0::remote_http {

// What is known of an object once it is open. Never changes.
struct object_facts {
  std::uint64_t bytes = 0;
  std::string etag;      // As in the first answer; empty: it had none.
  std::string modified;  // Last-Modified, where there is no ETag.
};

header_field range_field(std::uint64_t begin, std::uint64_t end);

// That the object must still be the same; none where nothing is known that could be sent.
void add_conditions(std::vector<header_field>& to, const object_facts& of);

// Any answer is good.
class small_goal final : public transfer_goal {
 public:
  small_goal(const small_request& what, small_answer& into) : what_(what), into_(into) {}

  bool head() const noexcept override { return what_.head; }
  bool follows() const noexcept override { return what_.follows; }
  std::vector<header_field> fields() const override { return what_.fields; }
  body_place place(const answer_head& head) override;
  void arrived(std::uint64_t) override {}
  state settle(const answer_head& head, fault& why) override;
  state settle_refused(const answer_head& head, fault& why) override { return settle(head, why); }

 private:
  const small_request& what_;
  small_answer& into_;
};

// A range, into memory; goes on at the byte that was reached.
class range_goal final : public transfer_goal {
 public:
  range_goal(std::shared_ptr<const object_facts> of, std::uint64_t offset,
             std::span<std::byte> into, transfer_counts* counts)
      : of_(std::move(of)), begin_(offset), into_(into), counts_(counts) {}

  std::vector<header_field> fields() const override;
  body_place place(const answer_head& head) override;
  void arrived(std::uint64_t bytes) override;
  state settle(const answer_head& head, fault& why) override;
  state settle_refused(const answer_head& head, fault& why) override;

 private:
  asked_range asked() const;

  const std::shared_ptr<const object_facts> of_;
  const std::uint64_t begin_;
  const std::span<std::byte> into_;
  transfer_counts* const counts_;
  std::uint64_t reached_ = 0;  // Of into_.
  bool placing_ = false;
  fault refused_;
};

}  // namespace ringload::inline v0::remote_http
