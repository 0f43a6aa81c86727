// SPDX-License-Identifier: Apache-2.0

// Implements from_memory(): a folder whose only object is a file in memory.

#include <boost/asio/post.hpp>
#include <cstring>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>

#include "io/threads.hpp"

namespace ringload::inline v0 {

namespace {

// Memory bandwidth limits the speed of copies. Two threads nearly reach this limit.
constexpr std::uint32_t copying_threads = 2;

class memory_source final : public byte_source {
 public:
  memory_source(std::span<const std::byte> memory, std::shared_ptr<const void> owner) noexcept
      : memory_(memory), owner_(std::move(owner)) {}

  std::uint64_t bytes() const noexcept override { return memory_.size(); }
  std::string identity() const override { return {}; }

  void read_async(const source_read& request, read_handler done) override {
    boost::asio::post(executor(), [this, request, done = std::move(done)]() mutable {
      if (!request.into.empty()) {
        std::memcpy(request.into.data(), memory_.data() + request.offset, request.into.size());
      }
      std::move(done)(nullptr);
    });
  }

 private:
  boost::asio::io_context::executor_type executor() {
    const std::lock_guard lock(mutex_);
    if (!threads_) threads_.emplace(copying_threads);
    return threads_->get_executor();
  }

  const std::span<const std::byte> memory_;
  const std::shared_ptr<const void> owner_;
  std::mutex mutex_;
  std::optional<threads> threads_;  // Created by the first read. Guarded by the mutex.
};

class folder_of_one final : public byte_folder {
 public:
  folder_of_one(std::string name, std::shared_ptr<byte_source> source)
      : name_(std::move(name)), source_(std::move(source)) {}

  std::vector<std::string> names(const std::stop_token&) override { return {name_}; }
  std::shared_ptr<byte_source> open(const std::string& name, const std::stop_token&) override {
    if (name == name_) return source_;
    throw error(errc::source_not_found, "", "only '" + name_ + "' is in memory");
  }
  std::string path_of(const std::string& name) const override { return name; }

 private:
  const std::string name_;
  const std::shared_ptr<byte_source> source_;
};

}  // namespace

found_source from_memory(std::span<const std::byte> bytes, std::string name,
                         std::shared_ptr<const void> owner) {
  auto source = std::make_shared<memory_source>(bytes, std::move(owner));
  found_source out;
  out.file = name;
  out.folder = std::make_shared<folder_of_one>(std::move(name), std::move(source));
  return out;
}

}  // namespace ringload::inline v0
