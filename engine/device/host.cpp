// SPDX-License-Identifier: Apache-2.0

// The host as a device: most reads go straight into its arena, the others are copied from slots by
// memcpy, converted, or put in another order.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <mutex>
#include <ringload/device.hpp>
#include <string>
#include <vector>

#include "core/checked.hpp"
#include "core/free_list.hpp"
#include "core/mapping.hpp"
#include "core/retry_allocation.hpp"
#include "device/available.hpp"
#include "device/backend.hpp"
#include "device/block_arena.hpp"
#include "device/host_copies.hpp"

namespace ringload::inline v0 {

namespace {

// Up to here a copy in the engine thread costs no more than posting it to another.
constexpr std::uint64_t copied_at_once_max = 64 * 1024;

class host_backend final : public backend {
 public:
  layout_rules rules() const noexcept override {
    layout_rules rules;
    rules.straight = true;
    return rules;
  }

  void keep(std::uint64_t bytes_max) override {
    kept_ = std::make_shared<free_list<mapping>>(bytes_max, huge_page_bytes);
  }

  result<void> check_room(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    return room_for(bytes, kept_ ? kept_->bytes() : 0);
  }

  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (kept_) {
      // Rounded to whole huge pages, as allocations are.
      auto memory = kept_->take(round_up(bytes, huge_page_bytes));
      if (memory) return own(std::move(*memory), true);
    }
    auto room = room_for(bytes, 0);
    if (!room && kept_) {
      kept_->clear();
      room = room_for(bytes, 0);
    }
    if (!room) return room.error();
    // On whole huge pages from one on, so that what is kept fits more than one load.
    const std::uint64_t whole = bytes < huge_page_bytes ? bytes : round_up(bytes, huge_page_bytes);
    auto memory = mapping::make(whole, pages_);
    if (!memory) return memory.error();
    return own(std::move(*memory), false);
  }

  // Reserved pages are for slots alone: a pool seldom has enough for tensors.
  void use_pages(huge_pages pages) override {
    pages_ = pages == huge_pages::none ? page_kind::small : page_kind::transparent;
  }

  result<void> attach(boost::asio::io_context& loop, slot_region) override {
    loop_ = &loop;
    return {};
  }

  bool copy_now(const copy_operation& op) noexcept override {
    run_copies(op);
    return true;
  }

  void start(copy_operation& op) noexcept override {
    // Loads with conversions or misaligned tensors copy everything here.
    if (op.converts() || op.bytes() > copied_at_once_max) {
      retry_allocation([&] {
        boost::asio::post(op.threads, [&op, loop = loop_] {
          run_copies(op);
          retry_allocation([&] { boost::asio::post(*loop, [&op] { op.done(op, {}); }); });
        });
      });
      return;
    }
    run_copies(op);
    retry_allocation([&] { boost::asio::post(*loop_, [&op] { op.done(op, {}); }); });
  }

  void detach() noexcept override { loop_ = nullptr; }

 private:
  using host_arena = block_arena<mapping>;

  // Pages are allocated when first written, so memory that other loads have allocated and not yet
  // filled is still counted as available. It is subtracted here.
  result<void> room_for(std::uint64_t bytes, std::uint64_t kept_bytes) {
    const auto available = available_bytes();
    if (!available) return {};
    std::uint64_t promised = 0;
    std::erase_if(allocated_, [&](const std::weak_ptr<host_arena>& one) {
      const auto living = one.lock();
      if (living) promised += absent_bytes(living->block().span());
      return !living;
    });
    if (bytes <= std::max(*available, promised) - promised + kept_bytes) return {};
    std::string cause = "the tensors need " + grouped(bytes) + " bytes, the host has " +
                        grouped(*available) + " available";
    if (promised > 0) cause += ", of which other loads are to fill " + grouped(promised);
    return fault{errc::memory_exceeded, "", std::move(cause)};
  }

  std::shared_ptr<arena> own(mapping memory, bool was_kept) {
    // A cancelled load may have populated only a part.
    const bool populated = was_kept && absent_bytes(memory.span()) == 0;
    auto made = std::make_shared<host_arena>(std::move(memory), was_kept, populated, kept_);
    allocated_.push_back(made);
    return made;
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<host_arena>> allocated_;  // Guarded by the mutex.
  std::shared_ptr<free_list<mapping>> kept_;          // Null: nothing is kept.
  page_kind pages_ = page_kind::transparent;
  boost::asio::io_context* loop_ = nullptr;
};

}  // namespace

std::string device::name() const {
  switch (kind_) {
    case device_kind::host: return "host";
    case device_kind::cuda: return "cuda:" + std::to_string(index_);
  }
  return "host";
}

device host() noexcept {
  return {device_kind::host, 0,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<host_backend>(); }};
}

}  // namespace ringload::inline v0
