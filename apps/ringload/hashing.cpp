// SPDX-License-Identifier: Apache-2.0
#include "hashing.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "device.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

// Hashed between two looks at whether we should stop: a few milliseconds.
constexpr std::uint64_t step_bytes = std::uint64_t{4} << 20;

struct free_digest {
  void operator()(EVP_MD_CTX* context) const noexcept { ::EVP_MD_CTX_free(context); }
};

void require(bool done) {
  if (!done) throw std::runtime_error("SHA-256 cannot be had from this libcrypto");
}

}  // namespace

std::string tensor_sum::hex() const { return fmt::format("{:02x}", fmt::join(digest, "")); }

hashing::hashing(asio::io_context& context)
    : context_(context),
      all_done_(context, asio::steady_timer::time_point::max()),
      pool_(std::max(1U, std::thread::hardware_concurrency())) {}

hashing::~hashing() {
  stop_ = true;
  pool_.stop();
  pool_.join();
}

void hashing::add(tensor landed) {
  tensor_sum& to = sums_.emplace_back();
  to.name = landed.name();
  ++left_;
  asio::post(pool_, [this, &to, landed = std::move(landed)] {
    std::exception_ptr failure;
    try {
      hash(landed, to);
    } catch (...) {
      failure = std::current_exception();
    }
    asio::post(context_, [this, failure = std::move(failure)] { one_done(failure); });
  });
}

asio::awaitable<void> hashing::finish_async() {
  boost::system::error_code cancelled_when_done;
  while (left_ > 0) {
    co_await all_done_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled_when_done));
  }
  if (failure_) std::rethrow_exception(failure_);
}

void hashing::hash(const tensor& landed, tensor_sum& to) {
  const std::unique_ptr<EVP_MD_CTX, free_digest> digest(::EVP_MD_CTX_new());
  require(digest && ::EVP_DigestInit_ex(digest.get(), ::EVP_sha256(), nullptr) == 1);
  std::vector<std::byte> room;
  for (std::uint64_t at = 0; at < landed.bytes();) {
    if (stop_) return;
    const std::uint64_t step = std::min(landed.bytes() - at, step_bytes);
    const void* bytes = readable(landed, at, step, room);
    require(::EVP_DigestUpdate(digest.get(), bytes, static_cast<std::size_t>(step)) == 1);
    at += step;
    bytes_hashed_ += step;
  }
  require(::EVP_DigestFinal_ex(digest.get(), to.digest.data(), nullptr) == 1);
}

void hashing::one_done(const std::exception_ptr& failure) {
  if (failure && !failure_) failure_ = failure;
  if (--left_ == 0) all_done_.cancel();
}

}  // namespace ringload::tool
