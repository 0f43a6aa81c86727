// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hashes tensors as they are loaded, on as many threads as the machine has.

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

/// Lower-case digits.
std::string hex(std::span<const std::byte> bytes);

/// Used on the thread of `context`. Its destructor abandons what is not hashed yet.
class hashing {
 public:
  explicit hashing(boost::asio::io_context& context);
  hashing(const hashing&) = delete;
  hashing& operator=(const hashing&) = delete;
  ~hashing();

  /// Queues a tensor. There are as many in the queue as a checkpoint has,
  /// at most; their bytes are in memory anyway, and those of a GPU are copied piece by piece.
  void add(tensor landed, digest_algorithm algorithm);

  /// Completes when all added tensors are hashed. Rethrows what hashing threw.
  boost::asio::awaitable<void> finish_async();

  /// Tensors that are added and not hashed yet; each is held until it is.
  std::uint64_t left() const noexcept { return left_; }

  /// Completes when the next of them is hashed, and let go of.
  boost::asio::awaitable<void> one_async();

  std::uint64_t bytes_hashed() const noexcept { return bytes_hashed_.load(); }

  /// In the order of adding; complete when `finish_async` is.
  const std::deque<tensor_digest>& sums() const noexcept { return sums_; }

 private:
  void hash(const tensor& landed, tensor_digest& to);
  void one_done(const std::exception_ptr& failure);

  boost::asio::io_context& context_;

  // Touched by the thread of context_ only.
  boost::asio::steady_timer all_done_;     // Expires never; cancelled when none is left.
  boost::asio::steady_timer one_done_at_;  // The same; cancelled with each.
  std::uint64_t left_ = 0;
  std::exception_ptr failure_;
  std::deque<tensor_digest> sums_;  // A deque: the pool's threads write to elements while it grows.

  // Touched by any thread.
  std::atomic<std::uint64_t> bytes_hashed_ = 0;
  std::atomic<bool> stop_ = false;

  worker_threads workers_;  // Last: its threads use all of the above.
};

}  // namespace ringload::tool
