// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hashes tensors as they are loaded, with one thread for each processor.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <exception>
#include <ringload/tensor.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>

#include "worker_threads.hpp"

namespace ringload::tool {

/// Returns lower-case hexadecimal digits.
std::string hex(std::span<const std::byte> bytes);

/// Must be used in the thread of `context`. The destructor drops the tensors that are not hashed
/// yet.
class hashing {
 public:
  explicit hashing(boost::asio::io_context& context);
  hashing(const hashing&) = delete;
  hashing& operator=(const hashing&) = delete;
  ~hashing();

  /// Queues a tensor. The queue has at most the tensors of a checkpoint. Their bytes are in memory
  /// anyway, and bytes on a GPU are copied piece by piece.
  void add(tensor landed, digest_algorithm algorithm);

  /// Completes when all added tensors are hashed. Rethrows exceptions of the hashing.
  boost::asio::awaitable<void> finish_async();

  /// Returns the number of added tensors that are not hashed yet. Each tensor is held until it is
  /// hashed.
  std::uint64_t left() const noexcept { return left_; }

  /// Completes when the next tensor is hashed and released.
  boost::asio::awaitable<void> one_async();

  std::uint64_t bytes_hashed() const noexcept { return bytes_hashed_.load(); }

  /// In the order of add(). Complete when `finish_async` has completed.
  const std::deque<tensor_digest>& sums() const noexcept { return sums_; }

 private:
  void hash(const tensor& landed, tensor_digest& to);
  void one_done(const std::exception_ptr& failure);

  boost::asio::io_context& context_;

  // Used in the thread of context_ only.
  boost::asio::steady_timer all_done_;     // Never expires. Cancelled when all tensors are hashed.
  boost::asio::steady_timer one_done_at_;  // Never expires. Cancelled when a tensor is hashed.
  std::uint64_t left_ = 0;
  std::exception_ptr failure_;
  // A deque, because threads of the pool write to elements while it grows.
  std::deque<tensor_digest> sums_;

  // Used in any thread.
  std::atomic<std::uint64_t> bytes_hashed_ = 0;
  std::atomic<bool> stop_ = false;

  worker_threads workers_;  // The last member, because its threads use all members above.
};

}  // namespace ringload::tool
