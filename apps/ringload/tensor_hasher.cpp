// SPDX-License-Identifier: Apache-2.0
#include "tensor_hasher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "device.hpp"
#include "openssl_hasher.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

// Number of bytes that are hashed between two checks for cancellation, in a few milliseconds.
constexpr std::uint64_t step_bytes = std::uint64_t{4} << 20;

hasher begin_crc32c() {
  const auto crc = std::make_shared<std::uint32_t>(0);
  hasher one;
  one.update = [crc](std::span<const std::byte> bytes) { *crc = crc32c(bytes, *crc); };
  one.finish = [crc] {
    std::vector<std::byte> digest;
    for (int shift = 24; shift >= 0; shift -= 8) {
      digest.push_back(static_cast<std::byte>(*crc >> shift));
    }
    return digest;
  };
  return one;
}

}  // namespace

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

tensor_hasher::tensor_hasher(asio::io_context& context)
    : context_(context),
      all_hashed_(context, asio::steady_timer::time_point::max()),
      next_hashed_(context, asio::steady_timer::time_point::max()),
      workers_(std::thread::hardware_concurrency()) {}

tensor_hasher::~tensor_hasher() {
  stop_ = true;
  workers_.stop();
}

void tensor_hasher::add(tensor loaded, digest_algorithm algorithm) {
  tensor_digest& to = sums_.emplace_back();
  to.name = loaded.name();
  to.algorithm = algorithm;
  ++left_;
  asio::post(workers_.get_executor(), [this, &to, loaded = std::move(loaded)]() mutable {
    std::exception_ptr failure;
    try {
      hash(loaded, to);
    } catch (...) {
      failure = std::current_exception();
    }
    // The tensor is released before on_hashed() completes waiting operations, which may need its
    // memory.
    loaded = tensor();
    asio::post(context_, [this, failure = std::move(failure)] { on_hashed(failure); });
  });
}

asio::awaitable<void> tensor_hasher::finish_async() {
  boost::system::error_code cancelled_when_done;
  while (left_ > 0) {
    co_await all_hashed_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled_when_done));
  }
  if (failure_) std::rethrow_exception(failure_);
}

asio::awaitable<void> tensor_hasher::next_hashed_async() {
  boost::system::error_code cancelled_when_done;
  co_await next_hashed_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled_when_done));
}

void tensor_hasher::hash(const tensor& loaded, tensor_digest& to) {
  const hasher pass =
      to.algorithm == digest_algorithm::crc32c ? begin_crc32c() : openssl_hasher(::EVP_sha256());
  std::vector<std::byte> buffer;
  for (std::uint64_t offset = 0; offset < loaded.size_bytes();) {
    if (stop_) return;
    const std::uint64_t step = std::min(loaded.size_bytes() - offset, step_bytes);
    const void* bytes = host_address_of(loaded, offset, step, buffer);
    pass.update({static_cast<const std::byte*>(bytes), static_cast<std::size_t>(step)});
    offset += step;
    bytes_hashed_ += step;
  }
  to.bytes = pass.finish();
}

void tensor_hasher::on_hashed(const std::exception_ptr& failure) {
  if (failure && !failure_) failure_ = failure;
  if (--left_ == 0) all_hashed_.cancel();
  next_hashed_.cancel();
}

}  // namespace ringload::tool
