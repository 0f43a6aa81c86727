// SPDX-License-Identifier: Apache-2.0

// The copies of slots and of other memory, without a loader. On the stand-in only.

#include "device/cuda/copier.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <ringload/cuda.hpp>
#include <string>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "device/cuda/pinned.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/upload_rooms.hpp"
#include "device/exported_memory.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::size_t slot_bytes = 64 * 1024;

// Calls `work` in a thread whose device is 1, as threads of the library do.
template <class Work>
void in_library_thread(const Work& work) {
  std::async(std::launch::async, [&] {
    REQUIRE_FALSE(cuda::use_device(1));
    work();
  }).get();
}

// Two pinned slots with different bytes.
struct two_slots {
  mapping memory;
  std::unique_ptr<cuda::pinned> pinned;

  two_slots() {
    memory = mapping::make(2 * slot_bytes, page_kind::small).value();
    REQUIRE_FALSE(populate(memory.span()));
    pinned = std::make_unique<cuda::pinned>(slot_region{memory.span(), slot_bytes});
    for (std::size_t i = 0; i < 2; ++i) {
      REQUIRE_FALSE(pinned->pin(slot(i)));
      std::memset(slot(i).data(), static_cast<int>('a' + i), slot_bytes);
    }
  }

  std::span<std::byte> slot(std::size_t i) const {
    return memory.span().subspan(i * slot_bytes, slot_bytes);
  }
};

// Copies a slot to a destination on the device.
struct slot_copy : copy_operation {
  copy_op whole = {};
  std::byte* destination = nullptr;
  bool throws = false;
  bool has_ended = false;

  slot_copy(std::span<const std::byte> from, std::byte* to, bool throws_at_end)
      : destination(to), throws(throws_at_end) {
    slot = from.data();
    whole.bytes = static_cast<std::uint32_t>(from.size());
    copies = {&whole, 1};
    destinations = {&destination, 1};
    done = [](copy_operation& self, boost::system::error_code failed) {
      auto& copy = static_cast<slot_copy&>(self);
      CHECK_FALSE(failed);
      copy.has_ended = true;
      if (copy.throws) throw std::bad_alloc();
    };
  }
  slot_copy(const slot_copy&) = delete;
  slot_copy& operator=(const slot_copy&) = delete;
};

std::string on_host(const std::byte* from, std::size_t bytes) {
  std::string into(bytes, '-');
  cuda::read_back_pool reader;
  CHECK_FALSE(reader.copy(from, std::as_writable_bytes(std::span(into))));
  return into;
}

}  // namespace

TEST_CASE("cuda: a copy whose handler has no memory holds up no other copy") {
  const fresh_runtime around;
  in_library_thread([] {
    boost::asio::io_context loop;
    const auto stay = boost::asio::make_work_guard(loop);
    const two_slots slots;
    cuda::device_buffer target;
    REQUIRE_FALSE(target.take(2 * slot_bytes));
    {
      cuda::copier copies(loop, *slots.pinned, {});
      REQUIRE_FALSE(copies.open(1, false));
      // All copies have ended when the first handler is called.
      fake_cudart::hold();
      slot_copy first(slots.slot(0), target.data(), true);
      slot_copy second(slots.slot(1), target.data() + slot_bytes, false);
      copies.start(first);
      copies.start(second);
      fake_cudart::let_go();
      const auto until = std::chrono::steady_clock::now() + patience;
      bool has_thrown = false;
      while (!(first.has_ended && second.has_ended) && std::chrono::steady_clock::now() < until) {
        try {
          loop.run_one_until(until);
        } catch (const std::bad_alloc&) {
          has_thrown = true;
        }
      }
      CHECK(has_thrown);
      CHECK(first.has_ended);
      REQUIRE(second.has_ended);
    }
    CHECK(on_host(target.data(), 2 * slot_bytes) ==
          std::string(slot_bytes, 'a') + std::string(slot_bytes, 'b'));
  });
}

TEST_CASE("cuda: an upload that is larger than a room keeps elements at any offset whole") {
  const fresh_runtime around;
  in_library_thread([] {
    // Elements of 4 bytes that begin at every sixth byte.
    constexpr std::size_t count = 400'000;
    strided_map map;
    map.dimensions[0] = {count, 6, 4};
    map.rank = 1;
    map.element_bytes = 4;
    std::string source(map.source_bytes(), '.');
    std::string expected(4 * count, '-');
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<std::uint32_t>(i + 1);
      std::memcpy(&source[6 * i], &number, 4);
      std::memcpy(&expected[4 * i], &number, 4);
    }
    REQUIRE(source.size() > 2 * cuda::upload_rooms::room_bytes);
    cuda::device_buffer target;
    REQUIRE_FALSE(target.take(expected.size()));
    {
      cuda::upload_rooms rooms(1, {}, {});
      REQUIRE_FALSE(cuda::code_of(cuda::load_kernels()));
      REQUIRE_FALSE(rooms.open());
      copy_op whole = {};
      whole.bytes = static_cast<std::uint32_t>(source.size());
      whole.map = 0;
      std::byte* const destination = target.data();
      copy_operation op;
      op.slot = std::as_bytes(std::span(source)).data();
      op.copies = {&whole, 1};
      op.maps = {&map, 1};
      op.destinations = {&destination, 1};
      CHECK_FALSE(rooms.start(op));
      CHECK_FALSE(rooms.finish());
    }
    const bool equal = on_host(target.data(), expected.size()) == expected;
    CHECK(equal);
  });
}

TEST_CASE("cuda: an upload ends when the device has copied its bytes") {
  const fresh_runtime around;
  in_library_thread([] {
    const std::string source(1000, 'x');
    cuda::device_buffer target;
    REQUIRE_FALSE(target.take(source.size()));
    std::byte* const destination = target.data();
    {
      cuda::upload_rooms rooms(1, {}, {});
      REQUIRE_FALSE(rooms.open());
      copy_op whole = {};
      whole.bytes = static_cast<std::uint32_t>(source.size());
      copy_operation op;
      op.slot = std::as_bytes(std::span(source)).data();
      op.copies = {&whole, 1};
      op.destinations = {&destination, 1};
      fake_cudart::hold();
      CHECK_FALSE(rooms.start(op));
      auto finished = std::async(std::launch::async, [&] { return rooms.finish(); });
      CHECK(finished.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
      fake_cudart::let_go();
      CHECK_FALSE(finished.get());
    }
    CHECK(on_host(destination, source.size()) == source);
  });
}

TEST_CASE("cuda: an error about memory of another GPU shows the name of the GPU with escapes") {
  const fresh_runtime around;
  const device here = cuda_device(1);
  const auto opened = here.maker()(here.index());
  auto* const memory = dynamic_cast<memory_exchange*>(opened.get());
  REQUIRE(memory != nullptr);
  const auto refused = memory->import_memory({"\x1b[31mred\n", 1, {}}, nullptr);
  REQUIRE_FALSE(refused.has_value());
  CAPTURE(refused.error().cause());
  CHECK(holds(refused.error().cause(), "belongs to the GPU \\u001b[31mred\\u000a"));
}
