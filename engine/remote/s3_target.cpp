// SPDX-License-Identifier: Apache-2.0

// The writes of an object are copied into parts. A part is uploaded when it is complete. One thread
// of the target copies the bytes, hashes the parts and starts the uploads. The number of buffered
// parts is limited: a write waits until an upload has ended and its buffer is free.

#include "remote/s3_target.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/retry_allocation.hpp"
#include "remote/s3/s3_list.hpp"
#include "remote/s3/s3_signature.hpp"
#include "remote/s3/s3_upload.hpp"

namespace ringload::inline v0::remote_http {

namespace {

// Two parts may always be buffered, even if they exceed buffered_bytes_max. One part can then be
// filled while the other part is uploaded.
constexpr std::uint64_t buffered_bytes_max = std::uint64_t{64} << 20;
constexpr std::uint32_t buffered_parts_min = 2;

}  // namespace

s3_target::s3_target(std::shared_ptr<http_client> client, s3_access access,
                     const s3_address& object, const target_request& request)
    : client_(std::move(client)),
      access_(std::move(access)),
      shown_(access_.shown(object.bucket, object.key)),
      url_(value_or_throw(s3_object_url(access_.place, object), shown_)),
      layout_(value_or_throw(part_layout::make(request.bytes, request.write_bytes_max), shown_)),
      bytes_(request.bytes),
      replaces_(request.replace) {
  if (!replaces_) check_absent(request.stop);
  on_stop_.emplace(request.stop, [this] {
    stop_.request_stop();  // The thread of the target may wait for the response to a request.
    retry_allocation([this] {
      boost::asio::post(thread_.get_executor(),
                        [this] { fail({boost::asio::error::operation_aborted, shown_}); });
    });
  });
}

s3_target::~s3_target() {
  on_stop_.reset();
  retry_allocation(
      [this] { drain([this] { fail({boost::asio::error::operation_aborted, shown_}); }); });
  const std::lock_guard wait_for_posts(posting_);
  if (!published_ && !upload_id_.empty()) abort_upload();
}

small_request s3_target::request_for(http_method method, http_url url) const {
  small_request out;
  out.method = method;
  out.object.url = std::move(url);
  out.object.shown = shown_;
  access_.authorize(out.object);
  return out;
}

void s3_target::set_body(small_request& request, std::span<const std::byte> bytes) const {
  request.body = bytes;
  // Amazon answers 400 (RequestTimeout) if the body arrives too slowly.
  request.must_repeat = [](const small_response& response) {
    return is_temporary(parse_s3_error(response.body));
  };
  if (!request.object.sign) return;
  request.body_sha256 = sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

fault s3_target::refused(const small_response& response) const {
  const bool exists = response.status == 412 && !replaces_;
  if (exists) return {{EEXIST, boost::system::system_category()}, shown_};
  return access_.explained(response, shown_);
}

void s3_target::check_absent(const std::stop_token& stop) const {
  const auto response =
      value_or_throw(client_->fetch(request_for(http_method::head, url_), stop), shown_);
  // Any other status is ignored here: a caller without the right to list gets 403.
  if (response.status == 200) throw to_error({{EEXIST, boost::system::system_category()}, shown_});
}

void s3_target::write_async(const target_write& request, write_handler done) {
  boost::asio::post(
      thread_.get_executor(),
      [this, write = waiting_write{request, std::move(done)}]() mutable { add(std::move(write)); });
}

void s3_target::add(waiting_write write) {
  const auto added = catch_as_fault([&]() -> result<void> {
    waiting_.push_back(std::move(write));
    return {};
  });
  if (!added) {
    fail(added.error());
    return std::move(write.done)(std::make_exception_ptr(std::bad_alloc()));
  }
  if (failure_.code) return fail(failure_);
  const auto copied = catch_as_fault([&]() -> result<void> {
    copy_waiting();
    return {};
  });
  if (!copied) fail(copied.error());
}

void s3_target::copy_waiting() {
  for (auto next = waiting_.begin(); !failure_.code && next != waiting_.end();) {
    const target_write& write = next->request;
    const std::uint32_t number = layout_.part_at(write.offset);
    part* const target = find_part(number);
    if (target == nullptr) {
      ++next;
      continue;
    }
    std::memcpy(target->memory.get() + (write.offset - layout_.begin_of(number)), write.from.data(),
                write.from.size());
    target->filled += write.from.size();
    bytes_taken_ += write.from.size();
    write_handler done = std::move(next->done);
    next = waiting_.erase(next);
    std::move(done)(nullptr);
    const bool is_complete = target->filled == layout_.bytes_of(number);
    if (is_complete && !layout_.is_single()) upload(number);
  }
}

// Returns the buffered part, or adds the part. Returns null if the limit for buffered parts is
// reached.
s3_target::part* s3_target::find_part(std::uint32_t number) {
  const auto found = parts_.find(number);
  if (found != parts_.end()) return &found->second;
  const std::uint64_t bytes = layout_.bytes_of(number);
  const bool has_room =
      parts_.size() < buffered_parts_min || buffered_bytes_ + bytes <= buffered_bytes_max;
  if (!has_room) return nullptr;
  part added;
  added.memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  buffered_bytes_ += bytes;
  return &parts_.emplace(number, std::move(added)).first->second;
}

result<void> s3_target::begin_upload() {
  const small_request request = request_for(http_method::post, s3_begin_url(url_));
  const auto response = client_->fetch(request, stop_.get_token());
  if (!response) return response.error();
  if (response->status != 200) return refused(*response);
  auto upload_id = parse_s3_upload_id(response->body);
  if (!upload_id) return upload_id.error().in(shown_);
  upload_id_ = std::move(*upload_id);
  return {};
}

void s3_target::upload(std::uint32_t number) {
  if (upload_id_.empty()) {
    if (auto begun = begin_upload(); !begun) return fail(begun.error());
  }
  if (number >= part_layout::parts_max) {
    return fail({errc::size_overflow, shown_,
                 "the object needs more than " + grouped(part_layout::parts_max) + " parts"});
  }
  const part& sent = parts_.at(number);
  small_request request = request_for(http_method::put, s3_part_url(url_, number + 1, upload_id_));
  set_body(request, {sent.memory.get(), static_cast<std::size_t>(sent.filled)});
  const auto ended = [this, number](const result<small_response>& response) {
    const std::lock_guard lock(posting_);
    retry_allocation([&] {
      boost::asio::post(thread_.get_executor(),
                        [this, number, response] { end_upload(number, response); });
    });
  };
  ++in_flight_;
  const auto started = catch_as_fault([&]() -> result<void> {
    client_->start_fetch(std::move(request), stop_.get_token(), ended);
    return {};
  });
  if (started) return;
  --in_flight_;
  fail(started.error());
}

void s3_target::end_upload(std::uint32_t number, const result<small_response>& response) {
  const auto ended = catch_as_fault([&]() -> result<void> {
    if (!response) return response.error();
    if (response->status != 200) return refused(*response);
    const std::string* const etag = response->field("etag");
    if (etag == nullptr || etag->empty() || etag->find_first_of("<>&") != etag->npos) {
      return fault{errc::malformed_answer, shown_,
                   "the server sent no valid ETag for part " + grouped(number + 1)};
    }
    etags_.insert_or_assign(number, *etag);
    return {};
  });
  --in_flight_;
  buffered_bytes_ -= layout_.bytes_of(number);
  parts_.erase(number);
  if (!ended) fail(ended.error());
  const auto copied = catch_as_fault([&]() -> result<void> {
    copy_waiting();
    return {};
  });
  if (!copied) fail(copied.error());
  end_if_drained();
}

void s3_target::fail(const fault& failure) {
  if (!failure_.code) failure_ = failure;
  stop_.request_stop();
  while (!waiting_.empty()) {
    write_handler done = std::move(waiting_.front().done);
    waiting_.pop_front();
    std::move(done)(
        retry_allocation([this] { return std::make_exception_ptr(to_error(failure_)); }));
  }
}

// Uploads the last part of an object whose size was not known.
void s3_target::upload_last() {
  if (failure_.code) return;
  if (bytes_ > 0 && bytes_taken_ != bytes_) {
    return fail({errc::invalid_saving, shown_,
                 grouped(bytes_taken_) + " bytes were written, expected " + grouped(bytes_)});
  }
  if (upload_id_.empty()) return;
  const std::uint32_t last = parts_.empty() ? 0 : parts_.rbegin()->first;
  const bool is_partial = !parts_.empty() && parts_.at(last).filled < layout_.bytes_of(last);
  if (is_partial) upload(last);
}

std::shared_ptr<byte_target> make_s3_target(std::shared_ptr<http_client> client, s3_access access,
                                            const s3_address& object,
                                            const target_request& request) {
  return std::make_shared<s3_target>(std::move(client), std::move(access), object, request);
}

}  // namespace ringload::inline v0::remote_http
