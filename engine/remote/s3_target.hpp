// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes an object of S3. A small object is one PUT. A larger object is a multipart upload, which
// becomes visible when the upload is completed.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <span>
#include <stop_token>
#include <string>

#include "io/threads.hpp"
#include "remote/http/http.hpp"
#include "remote/s3/s3_address.hpp"
#include "remote/s3/s3_upload.hpp"
#include "remote/s3_access.hpp"

namespace ringload::inline v0::remote_http {

class s3_target final : public byte_target {
 public:
  s3_target(std::shared_ptr<http_client> client, s3_access access, const s3_address& object,
            const target_request& request);
  ~s3_target() override;

  void write_async(const target_write& request, write_handler done) override;
  void publish() override;

 private:
  struct part {
    std::unique_ptr<std::byte[]> memory;
    std::uint64_t filled = 0;
  };
  struct waiting_write {
    target_write request;
    write_handler done;
  };

  small_request request_for(http_method method, http_url url) const;
  // Sets the body and its digest. The request is repeated after a temporary error.
  void set_body(small_request& request, std::span<const std::byte> bytes) const;
  fault refused(const small_response& response) const;
  void check_absent(const std::stop_token& stop) const;

  // ---- Only in the thread of the target ----

  void add(waiting_write write);
  // Copies all waiting writes whose part has memory.
  void copy_waiting();
  part* find_part(std::uint32_t number);
  result<void> begin_upload();
  void upload(std::uint32_t number);
  void end_upload(std::uint32_t number, const result<small_response>& response);
  void upload_last();
  void fail(const fault& failure);
  void end_if_drained();

  // ---- Only in the thread of the caller, and, except drain() itself, only after drain() ----

  // Runs `work` in the thread of the target, and waits until no upload is in flight.
  void drain(const std::function<void()>& work);
  void put();
  void complete();
  // Returns true if the object on the server has this ETag, so that it is the object of this
  // target. Returns false if `expected_etag` is empty.
  bool is_published(const std::optional<std::string>& expected_etag) const;
  // Returns true if the server may have refused to replace the object that an earlier copy of the
  // same request has published.
  bool may_have_refused_own_object(const small_response& response) const noexcept;
  // Returns true if the server has confirmed that the upload no longer exists.
  bool abort_upload() noexcept;

  const std::shared_ptr<http_client> client_;
  const s3_access access_;
  const std::string shown_;
  const http_url url_;
  const part_layout layout_;
  const std::uint64_t bytes_;  // 0 if the size is not known.
  const bool replaces_;

  std::map<std::uint32_t, part> parts_;  // Buffered parts, by number from 0.
  std::uint64_t buffered_bytes_ = 0;
  std::deque<waiting_write> waiting_;
  std::string upload_id_;  // Empty before the first part is complete.
  part_etags etags_;
  std::uint64_t bytes_taken_ = 0;
  std::uint32_t in_flight_ = 0;
  fault failure_;
  std::stop_source stop_;
  std::promise<void>* drained_ = nullptr;
  bool published_ = false;

  // Locked by a network thread that calls post(). The destructor waits for these threads.
  std::mutex posting_;
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  threads thread_{1};  // Must be the last member.
};

// Throws if the object must not be replaced and exists, or if the server cannot be asked.
std::shared_ptr<byte_target> make_s3_target(std::shared_ptr<http_client> client, s3_access access,
                                            const s3_address& object,
                                            const target_request& request);

}  // namespace ringload::inline v0::remote_http
