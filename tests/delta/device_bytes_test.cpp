// SPDX-License-Identifier: Apache-2.0

#include "delta/device_bytes.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "device/backend.hpp"

using namespace ringload;

namespace {

// Has no memory for the start of the copy with the number `failing_start`, counted from 0.
class exhausted_uploader final : public uploader {
 public:
  exhausted_uploader(int failing_start, int& starts)
      : failing_start_(failing_start), starts_(starts) {}

  boost::system::error_code start(const copy_operation&) override {
    if (starts_++ == failing_start_) throw std::bad_alloc();
    is_running = true;
    return {};
  }
  boost::system::error_code finish() override {
    is_running = false;
    is_finished = true;
    return {};
  }

  bool is_running = false;
  bool is_finished = false;

 private:
  const int failing_start_;
  int& starts_;
};

class exhausted_backend final : public backend {
 public:
  explicit exhausted_backend(int failing_start) : failing_start_(failing_start) {}

  placement_rules rules() const noexcept override { return {}; }
  void keep(std::uint64_t) override {}
  result<std::shared_ptr<arena>> allocate(std::uint64_t) override {
    return fault{errc::memory_exceeded, ""};
  }
  result<void> attach(boost::asio::io_context&, slot_region) override { return {}; }
  result<std::unique_ptr<uploader>> take_uploader() override {
    return std::unique_ptr<uploader>(std::make_unique<exhausted_uploader>(failing_start_, starts));
  }
  void return_uploader(std::unique_ptr<uploader> used) noexcept override {
    const auto& returned = static_cast<exhausted_uploader&>(*used);
    returned_finished += returned.is_finished && !returned.is_running ? 1 : 0;
  }
  void start(copy_operation&) noexcept override {}
  void detach() noexcept override {}

  int starts = 0;
  int returned_finished = 0;

 private:
  const int failing_start_;
};

// Addresses of memory that the test must not access.
class address_range {
 public:
  explicit address_range(std::size_t bytes)
      : bytes_(bytes),
        memory_(
            ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  address_range(const address_range&) = delete;
  address_range& operator=(const address_range&) = delete;
  ~address_range() { ::munmap(memory_, bytes_); }

  std::span<std::byte> span() const noexcept { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  const std::size_t bytes_;
  void* const memory_;
};

}  // namespace

TEST_CASE("device_bytes: a write that lacks memory finishes its copies and can be repeated") {
  // A write of more than 1 GiB has two copies.
  const address_range memory((std::size_t{1} << 30) + 1);
  const device on(device_kind::cuda, 0, nullptr);
  for (const int failing_start : {0, 1}) {
    CAPTURE(failing_start);
    exhausted_backend owner(failing_start);
    const detail::device_bytes to(owner, on);
    CHECK_THROWS_AS((void)to.write(memory.span(), memory.span()), std::bad_alloc);
    CHECK(owner.starts == failing_start + 1);
    CHECK(owner.returned_finished == 1);
    CHECK(to.write(memory.span(), memory.span()).has_value());
    CHECK(owner.starts == failing_start + 3);
    CHECK(owner.returned_finished == 2);
  }
}
