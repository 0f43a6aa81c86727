// SPDX-License-Identifier: Apache-2.0

// Fills of the caller's device memory. Runs on the stand-in, and on a GPU if the machine has one.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <ringload/fill.hpp>
#include <span>
#include <string>
#include <vector>

#include "cuda/any_runtime.hpp"
#include "cuda/on_device.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/runtime.hpp"
#include "support/float_reference.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Other tests rely on the device that a thread begins with.
struct last_device_in_use {
  last_device_in_use() { REQUIRE_FALSE(cuda::use_device(last_cuda_device().index())); }
  last_device_in_use(const last_device_in_use&) = delete;
  last_device_in_use& operator=(const last_device_in_use&) = delete;
  ~last_device_in_use() { CHECK_FALSE(cuda::use_device(0)); }
};

// Memory of the current device with a guard at each end, filled with one byte value.
class guarded_device_memory {
 public:
  static constexpr std::size_t guard = 256;

  explicit guarded_device_memory(std::size_t bytes) : expected_(bytes + 2 * guard, '\x5A') {
    REQUIRE_FALSE(stream_.open());
    REQUIRE_FALSE(memory_.take(expected_.size()));
    REQUIRE_FALSE(cuda::code_of(cudaMemcpyAsync(memory_.data(), expected_.data(), expected_.size(),
                                                cudaMemcpyHostToDevice, stream_.get())));
    REQUIRE_FALSE(cuda::code_of(cudaStreamSynchronize(stream_.get())));
  }

  guarded_device_memory(const guarded_device_memory&) = delete;
  guarded_device_memory& operator=(const guarded_device_memory&) = delete;

  std::byte* data() const noexcept { return memory_.data() + guard; }
  void expect(std::size_t offset, const std::string& bytes) {
    expected_.replace(guard + offset, bytes.size(), bytes);
  }
  bool as_expected() {
    std::string found(expected_.size(), '\0');
    REQUIRE_FALSE(readers_.copy(memory_.data(), std::as_writable_bytes(std::span(found))));
    return found == expected_;
  }

 private:
  std::string expected_;
  cuda::stream stream_;
  cuda::device_buffer memory_;
  cuda::read_back_pool readers_;
};

std::string stored_bytes(const checkpoint& opened, const std::string& name) {
  const tensor_info& info = opened.at(name);
  return file_bytes(opened.catalog().files[info.file].path, info.offset, info.bytes);
}

}  // namespace

TEST_CASE("cuda: a fill writes to the device and to the host, and nothing around it") {
  if (!has_pageable_device()) return;
  {
    const last_device_in_use selected;
    const made_file file(
        {f32("large", 70'001), {"odd", 777}, {"none", 0}, {"here", 100'003}, f32("rows", 300)}, 1);
    loader with(last_cuda_device(), small_options());
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    std::deque<guarded_device_memory> memory;
    std::vector<destination> into;
    for (const std::string name : {"large", "odd", "none"}) {
      const tensor_info& info = opened.at(name);
      guarded_device_memory& one = memory.emplace_back(info.bytes);
      one.expect(0, stored_bytes(opened, name));
      into.push_back({name, one.data(), info.dtype, info.shape, last_cuda_device()});
    }
    std::string here(100'003, '\0');
    into.push_back({"here", here.data(), dtype::u8, {here.size()}});
    // Rows of one element at every third position.
    guarded_device_memory& strided = memory.emplace_back(300 * 3 * 4);
    const std::string rows = stored_bytes(opened, "rows");
    for (std::size_t i = 0; i < 300; ++i) strided.expect(i * 12, rows.substr(i * 4, 4));
    into.push_back({"rows", strided.data(), dtype::f32, {300}, last_cuda_device()});
    into.back().strides = {3};
    get(with.fill_async(opened, into, use_future));
    for (guarded_device_memory& one : memory) CHECK(one.as_expected());
    CHECK((here == stored_bytes(opened, "here")));
  }
  end_well();
}

TEST_CASE("cuda: a fill converts as a load does, and refuses what is converted on the host only") {
  if (!has_pageable_device()) return;
  {
    const last_device_in_use selected;
    const made_file file({f32("a", 50'000), {"b", 20'002, "BF16", 2}, {"i", 400, "I32", 4}}, 1);
    loader with(last_cuda_device(), small_options());
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    fill_options rules;
    rules.dtype = fill_options::on_dtype::convert;
    guarded_device_memory narrow(50'000 * 2);
    narrow.expect(0, reference_bytes(stored_bytes(opened, "a"), dtype::f32, dtype::bf16));
    guarded_device_memory wide(10'001 * 4);
    wide.expect(0, reference_bytes(stored_bytes(opened, "b"), dtype::bf16, dtype::f32));
    const device on = last_cuda_device();
    get(with.fill_async(opened,
                        {{"a", narrow.data(), dtype::bf16, {50'000}, on},
                         {"b", wide.data(), dtype::f32, {10'001}, on}},
                        rules, use_future));
    CHECK(narrow.as_expected());
    CHECK(wide.as_expected());
    guarded_device_memory untouched(50'000 * 8);
    for (const destination& each : {destination("a", untouched.data(), dtype::f64, {50'000}, on),
                                    destination("a", untouched.data(), dtype::i32, {50'000}, on),
                                    destination("i", untouched.data(), dtype::f32, {100}, on)}) {
      const auto refused = failure_of(with.fill_async(opened, {each}, rules, use_future));
      REQUIRE(refused);
      CHECK(refused->code() == errc::unsupported_dtype);
      CHECK(holds(refused->what(), "destination '" + each.name + "'"));
    }
    CHECK(untouched.as_expected());
  }
  end_well();
}

TEST_CASE("cuda: a fill converts to addresses that are no multiples of the size of an element") {
  if (!has_pageable_device()) return;
  {
    const last_device_in_use selected;
    const made_file file({f32("a", 50'000), {"b", 20'002, "BF16", 2}}, 1);
    loader with(last_cuda_device(), small_options());
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    fill_options rules;
    rules.dtype = fill_options::on_dtype::convert;
    guarded_device_memory narrow(1 + 50'000 * 2);
    narrow.expect(1, reference_bytes(stored_bytes(opened, "a"), dtype::f32, dtype::bf16));
    guarded_device_memory wide(2 + 10'001 * 4);
    wide.expect(2, reference_bytes(stored_bytes(opened, "b"), dtype::bf16, dtype::f32));
    const device on = last_cuda_device();
    get(with.fill_async(opened,
                        {{"a", narrow.data() + 1, dtype::bf16, {50'000}, on},
                         {"b", wide.data() + 2, dtype::f32, {10'001}, on}},
                        rules, use_future));
    CHECK(narrow.as_expected());
    CHECK(wide.as_expected());
  }
  end_well();
}

TEST_CASE("cuda: memory of a device that the loader does not have is not filled") {
  if (!has_pageable_device()) return;
  {
    const last_device_in_use selected;
    const made_file file({f32("a", 100)});
    loader with(last_cuda_device(), small_options());
    const checkpoint opened = get(with.open_async(file.name(), use_future));
    guarded_device_memory memory(400);
    const device other = cuda_device(last_cuda_device().index() + 1);
    const auto refused = failure_of(
        with.fill_async(opened, {{"a", memory.data(), dtype::f32, {100}, other}}, use_future));
    REQUIRE(refused);
    CHECK(refused->code() == errc::device_unavailable);
    CHECK(holds(refused->what(), "destination 'a': its memory is on " + other.name()));
    CHECK(memory.as_expected());
  }
  end_well();
}
