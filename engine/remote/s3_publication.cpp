// SPDX-License-Identifier: Apache-2.0

// Publishes an object of S3 when all its bytes are uploaded, or removes an unfinished upload.

#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "remote/s3/s3_list.hpp"
#include "remote/s3/s3_upload.hpp"
#include "remote/s3_target.hpp"

namespace ringload::inline v0::remote_http {

namespace {

// Time limit for the removal of an unfinished upload. The limit is short, because a caller may wait
// for the removal.
constexpr std::chrono::milliseconds abort_time_max{10'000};
constexpr std::chrono::milliseconds head_time_max{60'000};

constexpr std::string_view absent_only = "If-None-Match";

// Adds to the failure that the object may have been replaced.
fault unconfirmed(const fault& failure) {
  return {failure.code, failure.where(),
          failure.cause() + "; the server did not confirm whether the object was replaced"};
}

}  // namespace

void s3_target::end_if_drained() {
  if (in_flight_ > 0 || drained_ == nullptr) return;
  std::exchange(drained_, nullptr)->set_value();
}

void s3_target::drain(const std::function<void()>& work) {
  std::promise<void> drained;
  auto is_drained = drained.get_future();
  boost::asio::post(thread_.get_executor(), [&] {
    const auto worked = catch_as_fault([&]() -> result<void> {
      work();
      return {};
    });
    if (!worked) fail(worked.error());
    drained_ = &drained;
    end_if_drained();
  });
  is_drained.wait();
}

void s3_target::publish() {
  drain([this] { upload_last(); });
  // A stop request has no effect from here on, because the next request may replace the object. The
  // second drain() waits until the thread has handled an earlier stop request.
  on_stop_.reset();
  drain([] {});
  if (failure_.code) throw to_error(failure_);
  if (upload_id_.empty()) {
    put();
  } else {
    complete();
  }
  published_ = true;
}

void s3_target::put() {
  small_request request = request_for(http_method::put, url_);
  if (!replaces_) request.fields.push_back({std::string(absent_only), "*"});
  std::span<const std::byte> bytes;
  if (!parts_.empty()) {
    const part& only = parts_.begin()->second;
    bytes = {only.memory.get(), static_cast<std::size_t>(only.filled)};
  }
  set_body(request, bytes);
  const auto response = client_->fetch(request, {});
  const unsigned status = response ? response->status : 0;
  if (status == 200 || status == 201) return;
  // The server may have stored the object even if its confirmation was lost.
  const bool is_unclear = status == 0 || status >= 500 || may_have_refused_own_object(*response);
  if (is_unclear && is_published(s3_put_etag(bytes))) return;
  fault failure = response ? refused(*response) : response.error();
  if (status == 0 || status >= 500) failure = unconfirmed(failure);
  throw to_error(failure.in(shown_));
}

void s3_target::complete() {
  const std::string body = s3_completion_body(etags_);
  small_request request = request_for(http_method::post, s3_end_url(url_, upload_id_));
  request.fields.push_back({"Content-Type", "application/xml"});
  if (!replaces_) request.fields.push_back({std::string(absent_only), "*"});
  set_body(request, std::as_bytes(std::span<const char>(body)));
  const auto response = client_->fetch(request, {});
  const unsigned status = response ? response->status : 0;
  if (status == 200 && is_s3_completion(response->body)) return;
  // The server may have completed the upload even if its confirmation was lost or is not valid XML.
  const bool is_unclear = status == 0 || status == 200 || status == 404 || status >= 500 ||
                          may_have_refused_own_object(*response);
  if (is_unclear && is_published(s3_complete_etag(etags_))) return;
  const bool is_dropped = abort_upload();
  fault failure = response ? refused(*response) : response.error();
  if (status == 404) {
    failure = {errc::remote_failed, shown_, "the server no longer has the parts of the upload"};
  }
  if (is_unclear && !is_dropped) failure = unconfirmed(failure);
  throw to_error(failure.in(shown_));
}

bool s3_target::may_have_refused_own_object(const small_response& response) const noexcept {
  return response.status == 412 && !replaces_ && response.was_repeated;
}

bool s3_target::is_published(const std::optional<std::string>& expected_etag) const {
  if (!expected_etag) return false;
  small_request request = request_for(http_method::head, url_);
  request.time_max = head_time_max;
  const auto response = client_->fetch(request, {});
  if (!response || response->status != 200) return false;
  const std::string* const etag = response->field("etag");
  return etag != nullptr && *etag == *expected_etag;
}

bool s3_target::abort_upload() noexcept {
  const auto aborted = catch_as_fault([this]() -> result<void> {
    small_request request = request_for(http_method::remove, s3_end_url(url_, upload_id_));
    request.time_max = abort_time_max;
    const auto response = client_->fetch(request, {});
    if (!response) return response.error();
    if (response->status == 204 || response->status == 200) return {};
    return refused(*response);
  });
  if (aborted) upload_id_.clear();
  return static_cast<bool>(aborted);
}

}  // namespace ringload::inline v0::remote_http
