// SPDX-License-Identifier: Apache-2.0

// Implements the host as a device. Most reads write directly to an arena (an allocation for
// tensors). Other reads write to a slot (an I/O buffer), from which the bytes are copied or
// converted to the arena. host() allocates private memory. shared_host() allocates memory that
// other processes can map.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <mutex>
#include <new>
#include <ringload/device.hpp>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "base/free_list.hpp"
#include "base/mapping.hpp"
#include "base/retry_allocation.hpp"
#include "device/available.hpp"
#include "device/backend.hpp"
#include "device/block_arena.hpp"
#include "device/host_copies.hpp"
#include "device/shared_arena.hpp"

namespace ringload::inline v0 {

namespace {

// A memcpy of up to this size runs in the engine thread, because it takes no longer than a post to
// another thread.
constexpr std::uint64_t inline_copy_bytes_max = 64 * 1024;

// Smaller loads do not query the available memory, because the query would take longer than the
// load.
constexpr std::uint64_t unchecked_bytes_max = std::uint64_t{1} << 20;

// Smaller arenas are allocated on the heap, because whole pages would waste memory.
constexpr std::uint64_t heap_bytes_max = 64 * 1024;
constexpr std::uint64_t heap_alignment_min = 64;  // A cache line.

class heap_arena final : public arena {
 public:
  // Returns null if no memory is left.
  static std::shared_ptr<arena> make(const arena_size& size, const allocation_log& log) {
    const auto alignment =
        std::align_val_t(std::max<std::uint64_t>(size.alignment, heap_alignment_min));
    void* const memory = ::operator new(size.bytes, alignment, std::nothrow);
    if (memory == nullptr) return nullptr;
    std::unique_ptr<std::byte, deleter> owner(static_cast<std::byte*>(memory), deleter{alignment});
    const auto new_arena = std::make_shared<heap_arena>(std::move(owner));
    new_arena->logged_ = logged_allocation(log, {"new", "delete"}, memory, size.bytes);
    return new_arena;
  }

  struct deleter {
    std::align_val_t alignment;
    void operator()(std::byte* memory) const noexcept { ::operator delete(memory, alignment); }
  };

  explicit heap_arena(std::unique_ptr<std::byte, deleter> memory) noexcept
      : memory_(std::move(memory)) {}

  std::byte* data() const noexcept override { return memory_.get(); }
  bool was_kept() const noexcept override { return false; }
  bool populated() const noexcept override { return true; }

 private:
  const std::unique_ptr<std::byte, deleter> memory_;
  logged_allocation logged_;  // Destroyed before the memory is freed.
};

class host_backend final : public backend {
 public:
  explicit host_backend(bool shared) noexcept : shared_(shared) {}

  placement_rules rules() const noexcept override {
    placement_rules rules;
    rules.unstaged = true;
    return rules;
  }

  void keep(std::uint64_t bytes_max) override {
    // Shared memory is not kept for later loads, because other processes may still use the memory.
    if (shared_) return;
    kept_ = std::make_shared<free_list<mapping>>(bytes_max, huge_page_bytes);
  }

  result<void> check_room(std::uint64_t bytes) override {
    const std::lock_guard lock(mutex_);
    return check_available(bytes, kept_ ? kept_->bytes() : 0);
  }

  result<std::shared_ptr<arena>> allocate(std::uint64_t bytes) override {
    const arena_size size = {bytes};
    auto arenas = allocate_all({&size, 1});
    if (!arenas) return arenas.error();
    return std::move(arenas->front());
  }

  result<std::vector<std::shared_ptr<arena>>> allocate_all(
      std::span<const arena_size> sizes) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<arena>> arenas(sizes.size());
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      arenas[i] = take_kept(sizes[i]);
      if (arenas[i]) continue;
      const auto sum = checked_add(missing, sizes[i].bytes);
      missing = sum.value_or(~std::uint64_t{0});
    }
    auto status = check_available(missing, 0);
    if (!status && kept_) {
      kept_->clear();
      status = check_available(missing, 0);
    }
    if (!status) return status.error();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (arenas[i]) continue;
      auto memory = make(sizes[i]);
      if (!memory) return memory.error();
      arenas[i] = std::move(*memory);
    }
    return arenas;
  }

  void log_to(const allocation_log& log) override { log_ = log; }

  // Private memory does not use reserved huge pages (hugetlb), because most systems have too few of
  // them. Shared memory may use reserved huge pages. For shared memory, the kernel uses transparent
  // huge pages only if an administrator has enabled them.
  void use_pages(huge_pages pages) override {
    pages_ = pages == huge_pages::none ? page_kind::small : page_kind::transparent;
    reserved_ = shared_ && pages == huge_pages::reserved;
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
    if (op.converts() || op.bytes() > inline_copy_bytes_max) {
      retry_allocation([&] {
        boost::asio::post(op.threads, [&op, loop = loop_] {
          if (op.times) op.times->record_begin();
          run_copies(op);
          if (op.times) op.times->record_end();
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

  bool is_small(const arena_size& size) const noexcept {
    return !shared_ && size.alignment < block_bytes && size.bytes < heap_bytes_max;
  }

  std::shared_ptr<arena> take_kept(const arena_size& size) {
    if (!kept_ || is_small(size)) return nullptr;
    auto memory = kept_->take(kept_bytes_of(std::max(size.bytes, huge_page_bytes)));
    return memory ? make_arena(std::move(*memory), true) : nullptr;
  }

  result<std::shared_ptr<arena>> make(const arena_size& size) {
    if (shared_) return make_shared(size.bytes);
    if (is_small(size)) {
      auto new_arena = heap_arena::make(size, log_);
      if (!new_arena) return fault{errc::memory_exceeded, {}};
      return new_arena;
    }
    auto memory = mapping::make(kept_ ? kept_bytes_of(size.bytes) : size.bytes, pages_);
    if (!memory) return memory.error();
    memory->note_in(log_);
    return make_arena(std::move(*memory), false);
  }

  result<std::shared_ptr<arena>> make_shared(std::uint64_t bytes) {
    auto memory = shared_memory::make(bytes, reserved_ ? page_kind::hugetlb : pages_);
    if (!memory && reserved_) memory = shared_memory::make(bytes, pages_);
    if (!memory) return memory.error();
    memory->note_in(log_);
    auto new_arena = std::make_shared<shared_arena>(std::move(*memory));
    allocated_.push_back({new_arena, new_arena->span()});
    return new_arena;
  }

  // Rounds large sizes up to whole huge pages, so that more loads can reuse the memory.
  static std::uint64_t kept_bytes_of(std::uint64_t bytes) noexcept {
    const bool fits = bytes >= huge_page_bytes && bytes < ~std::uint64_t{0} - huge_page_bytes;
    return fits ? round_up(bytes, huge_page_bytes) : bytes;
  }

  // Returns a fault if fewer than `bytes` bytes are available. The kernel allocates a page at the
  // first write to the page. Therefore memory that other loads have allocated but not yet written
  // is still available for the kernel. This function subtracts that memory.
  result<void> check_available(std::uint64_t bytes, std::uint64_t kept_bytes) {
    if (bytes <= unchecked_bytes_max) {
      std::erase_if(allocated_,
                    [](const allocated_memory& allocation) { return allocation.owner.expired(); });
      return {};
    }
    const auto available = available_bytes();
    if (!available) return {};
    std::uint64_t promised = 0;
    std::erase_if(allocated_, [&](const allocated_memory& allocation) {
      const auto owner = allocation.owner.lock();
      if (owner) promised += absent_bytes(allocation.memory);
      return !owner;
    });
    if (bytes <= std::max(*available, promised) - promised + kept_bytes) return {};
    std::string cause = "the tensors need " + grouped(bytes) + " bytes, the host has " +
                        grouped(*available) + " available";
    if (promised > 0) cause += ", of which other loads will fill " + grouped(promised);
    return fault{errc::memory_exceeded, "", std::move(cause)};
  }

  std::shared_ptr<arena> make_arena(mapping memory, bool was_kept) {
    // If the memory was reused, and the load that allocated it was cancelled, some pages may be
    // absent.
    const std::span<std::byte> region = memory.span();
    const bool populated = was_kept && absent_bytes(region) == 0;
    auto new_arena = std::make_shared<host_arena>(std::move(memory), was_kept, populated, kept_);
    allocated_.push_back({new_arena, region});
    return new_arena;
  }

  struct allocated_memory {
    std::weak_ptr<arena> owner;
    std::span<std::byte> memory;
  };

  const bool shared_;
  bool reserved_ = false;
  std::mutex mutex_;
  std::vector<allocated_memory> allocated_;   // Guarded by the mutex.
  std::shared_ptr<free_list<mapping>> kept_;  // Null if no memory is kept.
  page_kind pages_ = page_kind::transparent;
  allocation_log log_;
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
          [](int) -> std::unique_ptr<backend> { return std::make_unique<host_backend>(false); }};
}

device shared_host() noexcept {
  return {device_kind::host, 0,
          [](int) -> std::unique_ptr<backend> { return std::make_unique<host_backend>(true); }};
}

}  // namespace ringload::inline v0
