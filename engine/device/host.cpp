// SPDX-License-Identifier: Apache-2.0

// The host as a device: most reads land straight in its arena, and the others are copied by memcpy,
// or converted.

#include <boost/asio/post.hpp>
#include <cstring>
#include <fstream>
#include <ringload/device.hpp>
#include <string>

#include "core/checked.hpp"
#include "core/convert.hpp"
#include "core/mapping.hpp"
#include "core/shelf.hpp"
#include "core/surely.hpp"
#include "device/backend.hpp"
#include "device/block_arena.hpp"

namespace ringload::inline v0 {

namespace {

// What can be had without swapping. Zero where the system does not say.
std::uint64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string word; meminfo >> word;) {
    std::uint64_t kib = 0;
    if (word == "MemAvailable:" && meminfo >> kib) return kib * 1024;
  }
  return 0;
}

void carry_out(const copy_operation& op) {
  for (const copy_op& c : op.copies) {
    const std::byte* const from = op.slot + c.slot_offset;
    std::byte* const to = op.into->data() + c.arena_offset;
    if (c.as.needed()) {
      convert(from, to, c.bytes / c.as.from_bytes(), c.as);
    } else {
      std::memcpy(to, from, c.bytes);
    }
  }
}

class host_backend final : public backend {
 public:
  layout_rules rules() const noexcept override {
    layout_rules rules;
    rules.straight = true;
    return rules;
  }

  void keep(std::uint64_t bytes_max) override {
    kept_ = std::make_shared<shelf<mapping>>(bytes_max, huge_page_bytes);
  }

  result<void> check_room(std::uint64_t bytes) override {
    const std::uint64_t available = available_bytes();
    if (available > 0 && bytes > available + (kept_ ? kept_->bytes() : 0)) {
      return fault{errc::memory_exceeded, "",
                   "the tensors need " + grouped(bytes) + " bytes, the host has " +
                       grouped(available) + " available"};
    }
    return {};
  }

  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    if (kept_) {
      // In whole huge pages, as it is taken.
      auto memory = kept_->take(round_up(bytes, huge_page_bytes));
      if (memory) return own(std::move(*memory), true);
      if (bytes > available_bytes()) kept_->clear();
    }
    if (auto room = check_room(bytes); !room) return room.error();
    auto memory = mapping::make(bytes, page_kind::transparent);
    if (!memory) return memory.error();
    return own(std::move(*memory), false);
  }

  result<void> attach(boost::asio::io_context& loop, std::span<std::byte>) override {
    loop_ = &loop;
    return {};
  }

  void start(copy_operation& op) noexcept override {
    // A load that is converted comes all this way, and a thread brings a few GB a second.
    if (op.converts()) {
      surely([&] {
        boost::asio::post(op.threads, [&op, loop = loop_] {
          carry_out(op);
          surely([&] { boost::asio::post(*loop, [&op] { op.done(op, {}); }); });
        });
      });
      return;
    }
    carry_out(op);
    surely([&] { boost::asio::post(*loop_, [&op] { op.done(op, {}); }); });
  }

  void detach() noexcept override { loop_ = nullptr; }

 private:
  std::shared_ptr<arena> own(mapping memory, bool was_kept) const {
    return std::make_shared<block_arena<mapping>>(std::move(memory), was_kept, kept_);
  }

  std::shared_ptr<shelf<mapping>> kept_;  // Null: nothing is kept.
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
