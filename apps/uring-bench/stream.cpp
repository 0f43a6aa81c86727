// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "base/mapping.hpp"
#include "device/backend.hpp"
#include "failure.hpp"
#include "interrupts.hpp"
#include "io/ring/ring.hpp"
#include "io/ring_io.hpp"
#include "io/slots.hpp"
#include "io/threads.hpp"
#include "size.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t direct_block = 4096;

struct piece {
  std::uint32_t file = 0;
  std::uint32_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t arena_offset = 0;
};

// Returns the pieces of the files, one file after another. In memory, each file begins at a huge
// page.
std::vector<piece> pieces_of(const target& source, std::uint64_t piece_bytes,
                             std::uint64_t& total) {
  std::vector<piece> pieces;
  total = 0;
  for (std::uint32_t file = 0; file < source.files().size(); ++file) {
    const std::uint64_t bytes = source.files()[file].bytes;
    for (std::uint64_t at = 0; at < bytes; at += piece_bytes) {
      const std::uint64_t here = std::min(piece_bytes, bytes - at);
      pieces.push_back({file, static_cast<std::uint32_t>(here), at, total + at});
    }
    total += round_up(bytes, huge_page_bytes);
  }
  return pieces;
}

class run_of_stream {
 public:
  run_of_stream(const target& source, const device& load_device, const loader_options& options,
                half part)
      : source_(source),
        options_(options),
        part_(part),
        target_(load_device.maker()(load_device.index())) {}

  double run() {
    auto made = slots::make(options_.slots, options_.slot_bytes, options_.huge_pages);
    if (!made) fail("memory", message_of(made.error()));
    staging_ = std::move(*made);
    target_->use_pages(options_.huge_pages);
    auto opened = target_->attach(loop_, {staging_.memory(), staging_.slot_bytes()});
    if (!opened) fail("the device", message_of(opened.error()));
    try {
      for (std::uint32_t slot = 0; slot < options_.slots; ++slot) pin(slot);
      if (part_ == half::both) open_ring();
      const double seconds = timed();
      the_ring_.reset();
      target_->detach();
      return seconds;
    } catch (...) {
      the_ring_.reset();
      target_->detach();
      throw;
    }
  }

 private:
  // A slot and its current operation.
  struct lane : io_queue::operation, copy_operation {
    run_of_stream* in = nullptr;
    std::uint32_t slot = 0;
    piece now;
    copy_op copy = {};
  };

  void pin(std::uint32_t slot) {
    if (auto there = staging_.populate(slot); !there) fail("memory", message_of(there.error()));
    if (auto pinned = target_->pin(staging_.at(slot)); !pinned) {
      fail("the device", message_of(pinned.error()));
    }
  }

  void open_ring() {
    auto made = ring::make(loop_, options_.slots);
    if (!made) fail("io_uring", message_of(made.error()));
    the_ring_ = std::move(*made);
    // If the kernel refuses registration, reads use unregistered buffers, as in the loader.
    registered_ = !the_ring_->open_buffers(options_.slots);
    for (std::uint32_t slot = 0; registered_ && slot < options_.slots; ++slot) {
      const std::span<std::byte> memory = staging_.at(slot);
      registered_ = !the_ring_->register_buffer(slot, {memory.data(), memory.size()});
    }
    reader_.emplace(*the_ring_);
  }

  double timed() {
    std::uint64_t total = 0;
    pieces_ = pieces_of(source_, options_.slot_bytes, total);
    const clock::time_point begin = clock::now();
    auto memory = target_->allocate(total);
    if (!memory) fail("the device", message_of(memory.error()));
    arena_ = std::move(*memory);
    arena_begin_ = arena_->data();
    unstaged_ = target_->rules().unstaged;
    std::vector<lane> lanes(options_.slots);
    for (std::uint32_t i = 0; i < options_.slots; ++i) {
      lanes[i].in = this;
      lanes[i].slot = i;
      ++busy_;
      boost::asio::post(loop_, [this, one = &lanes[i]] { next(*one); });
    }
    stay_.emplace(loop_.get_executor());  // Keeps the loop alive while threads work.
    loop_.run();
    const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
    helpers_.join();
    arena_.reset();
    tool::throw_if_interrupted();
    if (!problem_.empty()) fail(source_.path(), problem_);
    return seconds;
  }

  void next(lane& one) {
    if (tool::interrupt_signal() != 0 || next_ == pieces_.size() || !problem_.empty()) {
      if (--busy_ > 0) return;
      stay_.reset();
      if (the_ring_) the_ring_->stop();
      return;
    }
    one.now = pieces_[next_++];
    if (unstaged_) {
      make_ready(one);
    } else if (part_ == half::both) {
      enter(one);
    } else {
      copy(one);
    }
  }

  std::span<std::byte> place(const lane& one) const {
    if (!unstaged_) return staging_.at(one.slot).first(bytes_asked(one));
    return {arena_->data() + one.now.arena_offset, bytes_asked(one)};
  }

  static std::uint32_t bytes_asked(const lane& one) {
    return round_up<std::uint32_t>(one.now.bytes, direct_block);
  }

  void make_ready(lane& one) {
    boost::asio::post(helpers_.get_executor(), [this, lane_of = &one] {
      const auto failed = populate(place(*lane_of));
      boost::asio::post(loop_, [this, lane_of, failed] {
        if (failed) problem_ = failed.message();
        if (failed || part_ == half::copies) {
          next(*lane_of);
        } else {
          enter(*lane_of);
        }
      });
    });
  }

  // As in the loader, a lane waits while enough bytes are in flight on the drive.
  void enter(lane& one) {
    if (in_flight_ > 0 && in_flight_ + one.now.bytes > in_flight_max_) {
      line_.push_back(&one);
      return;
    }
    in_flight_ += one.now.bytes;
    io_queue::operation& read = one;
    read.request = {};
    read.request.fd = source_.files()[one.now.file].fd.get();
    read.request.direct = true;
    read.request.bytes = bytes_asked(one);
    read.request.file_offset = one.now.file_offset;
    read.request.memory = place(one).data();
    read.request.registered_buffer = unstaged_ || !registered_ ? -1 : static_cast<int>(one.slot);
    read.done = [](io_completion& self, int res) {
      auto& mine = static_cast<lane&>(self);
      mine.in->arrived(mine, res);
    };
    reader_->start(read);
  }

  void arrived(lane& one, int res) {
    in_flight_ -= one.now.bytes;
    if (!line_.empty()) {
      lane* const waiting = line_.front();
      line_.pop_front();
      enter(*waiting);
    }
    if (res < 0) problem_ = system_code(-res).message();
    if (res >= 0 && static_cast<std::uint32_t>(res) < one.now.bytes) {
      problem_ = "a direct read came back short at byte " +
                 tool::grouped(one.now.file_offset + static_cast<std::uint32_t>(res));
    }
    if (unstaged_ || !problem_.empty()) {
      next(one);
    } else {
      copy(one);
    }
  }

  void copy(lane& one) {
    one.copy = {one.now.arena_offset, 0, one.now.bytes};
    copy_operation& copying = one;
    copying.slot = staging_.at(one.slot).data();
    copying.copies = {&one.copy, 1};
    copying.destinations = {&arena_begin_, 1};
    copying.done = [](copy_operation& self, boost::system::error_code failed) {
      auto& mine = static_cast<lane&>(self);
      if (failed) mine.in->problem_ = failed.message();
      mine.in->next(mine);
    };
    target_->start(copying);
  }

  const target& source_;
  const loader_options& options_;
  const half part_;
  boost::asio::io_context loop_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> stay_;
  threads helpers_{options_.copy_threads};
  std::unique_ptr<backend> target_;
  slots staging_;
  std::unique_ptr<ring> the_ring_;
  std::optional<ring_io> reader_;
  bool registered_ = false;
  bool unstaged_ = false;
  std::shared_ptr<arena> arena_;
  std::byte* arena_begin_ = nullptr;
  std::vector<piece> pieces_;
  std::size_t next_ = 0;
  std::uint32_t busy_ = 0;  // Number of lanes with an operation.
  const std::uint64_t in_flight_max_ = cell_of(options_).bytes_in_flight();
  std::uint64_t in_flight_ = 0;
  std::deque<lane*> line_;
  std::string problem_;
};

}  // namespace

double stream(const target& source, const device& load_device, const loader_options& options,
              half part) {
  return run_of_stream(source, load_device, options, part).run();
}

}  // namespace ringload::bench
