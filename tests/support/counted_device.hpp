// SPDX-License-Identifier: Apache-2.0
#pragma once

// The host as a device that counts its living arenas.

#include <sched.h>

#include <atomic>
#include <memory>
#include <optional>
#include <ringload/device.hpp>
#include <span>
#include <utility>
#include <vector>

#include "device/backend.hpp"

namespace ringload::testing {

inline std::atomic<int> arenas_taken = 0;

// The processors that the device reports as near. Empty if it reports none.
inline std::optional<cpu_set_t> processors_near_counted;

class counted_arena final : public arena {
 public:
  explicit counted_arena(std::shared_ptr<arena> real) : real_(std::move(real)) { ++arenas_taken; }
  counted_arena(const counted_arena&) = delete;
  counted_arena& operator=(const counted_arena&) = delete;
  ~counted_arena() override { --arenas_taken; }

  std::byte* data() const noexcept override { return real_->data(); }
  bool was_kept() const noexcept override { return real_->was_kept(); }
  bool populated() const noexcept override { return real_->populated(); }

 private:
  const std::shared_ptr<arena> real_;
};

class counted_backend final : public backend {
 public:
  placement_rules rules() const noexcept override { return real_->rules(); }
  void keep(std::uint64_t bytes_max) override { real_->keep(bytes_max); }
  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    auto real = real_->allocate(bytes);
    if (!real) return real.error();
    return std::shared_ptr<arena>(std::make_shared<counted_arena>(std::move(*real)));
  }
  result<std::vector<std::shared_ptr<arena>>> allocate_all(
      std::span<const arena_size> sizes) override {
    auto real = real_->allocate_all(sizes);
    if (!real) return real.error();
    for (auto& each : *real) each = std::make_shared<counted_arena>(std::move(each));
    return real;
  }
  result<std::string> pin(std::span<std::byte> slot) override { return real_->pin(slot); }
  void log_to(const allocation_log& log) override { real_->log_to(log); }
  void use_pages(huge_pages pages) override { real_->use_pages(pages); }
  result<void> attach(boost::asio::io_context& loop, slot_region slots) override {
    return real_->attach(loop, slots);
  }
  std::optional<cpu_set_t> near_processors() override { return processors_near_counted; }
  void start(copy_operation& op) noexcept override { real_->start(op); }
  void detach() noexcept override { real_->detach(); }

 private:
  const std::unique_ptr<backend> real_ = host().maker()(0);
};

inline device counted_host() noexcept {
  return {device_kind::host, 0,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<counted_backend>(); }};
}

}  // namespace ringload::testing
