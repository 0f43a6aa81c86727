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

/// Hashes tensors in threads of its own. All functions must be called in the thread of `context`.
/// The destructor drops the tensors that are not hashed yet.
class tensor_hasher {
 public:
  explicit tensor_hasher(boost::asio::io_context& context);
  tensor_hasher(const tensor_hasher&) = delete;
  tensor_hasher& operator=(const tensor_hasher&) = delete;
  ~tensor_hasher();

  /// Queues a tensor, and keeps its memory alive until it is hashed. The queue needs no limit,
  /// because its tensors are in memory anyway. Bytes on a GPU are copied to the host in small
  /// pieces.
  void add(tensor loaded, digest_algorithm algorithm);

  /// Completes when all added tensors are hashed. Throws the first exception that a thread has
  /// caught.
  boost::asio::awaitable<void> finish_async();

  /// Returns the number of added tensors that are not hashed yet.
  std::uint64_t left() const noexcept { return left_; }

  /// Completes when the next tensor is hashed and released.
  boost::asio::awaitable<void> next_hashed_async();

  std::uint64_t bytes_hashed() const noexcept { return bytes_hashed_.load(); }

  /// Returns the digests in the order of add(). All digests are set when finish_async() has
  /// completed.
  const std::deque<tensor_digest>& sums() const noexcept { return sums_; }

 private:
  void hash(const tensor& loaded, tensor_digest& to);
  void on_hashed(const std::exception_ptr& failure);

  boost::asio::io_context& context_;

  // Used in the thread of context_ only.
  boost::asio::steady_timer all_hashed_;   // Never expires. Cancelled when all tensors are hashed.
  boost::asio::steady_timer next_hashed_;  // Never expires. Cancelled when a tensor is hashed.
  std::uint64_t left_ = 0;
  std::exception_ptr failure_;
  // A deque, because its growth does not move the elements, to which other threads write.
  std::deque<tensor_digest> sums_;

  // Used in any thread.
  std::atomic<std::uint64_t> bytes_hashed_ = 0;
  std::atomic<bool> stop_ = false;

  worker_threads workers_;  // The last member, because its threads use all members above.
};

}  // namespace ringload::tool
