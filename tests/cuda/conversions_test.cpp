// SPDX-License-Identifier: Apache-2.0

// Tensors that are converted during a load have the same bits on the device as on the host. Runs on
// the stand-in, and on a GPU if the machine has one. On a GPU, this tests the kernels.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <string>
#include <vector>

#include "cuda/any_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::string first_error(const model& loaded, dtype to) {
  const catalog& in = loaded.catalog();
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const tensor t = loaded[i];
    std::string wrong = conversion_error(t, bytes_on_device(t), in.tensors[i], in, to);
    if (!wrong.empty()) return wrong;
    if (reinterpret_cast<std::uintptr_t>(t.data()) % 256 != 0 && t.size_bytes() > 0) {
      return in.tensors[i].name + ": not at a multiple of 256";
    }
  }
  return {};
}

// A checkpoint of one tensor with every word of the type.
std::string every_word_checkpoint(const std::string& type, unsigned bits_of_one) {
  const std::uint64_t count = std::uint64_t{1} << bits_of_one;
  const std::uint64_t bytes = count * bits_of_one / 8;
  std::string body;
  for (std::uint64_t i = 0; i < count; ++i) {
    body += static_cast<char>(i & 0xFFU);
    if (bits_of_one == 16) body += static_cast<char>(i >> 8U);
  }
  return safetensors_text("{" + tensor_text("all", type, std::to_string(count), 0, bytes) + "}",
                          body);
}

}  // namespace

TEST_CASE("cuda: floating tensors are converted as they land, wherever they lie in the file") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options());
  for (const std::size_t spaces : {0U, 1U, 2U, 4093U}) {
    const made_file file(tensors_for_a_gpu(), spaces);
    for (const dtype to : conversion_targets) {
      const model loaded = get(with.load_async(file.name(), converting_to(to), use_future));
      CHECK(first_error(loaded, to) == "");
    }
  }
}

TEST_CASE("cuda: every f16, bf16 and fp8 number becomes what it becomes on the host") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options());
  loader beside(host(), small_options());
  for (const std::string type : {"F16", "BF16", "F8_E4M3", "F8_E5M2"}) {
    const made_file file(made_file::as_it_is::text,
                         every_word_checkpoint(type, bits(*dtype_named(type))));
    for (const dtype to : conversion_targets) {
      const model there = get(with.load_async(file.name(), converting_to(to), use_future));
      const model here = get(beside.load_async(file.name(), converting_to(to), use_future));
      CHECK(bytes_on_device(there.at("all")) == bytes_of(here.at("all")));
    }
  }
}

TEST_CASE("cuda: hundreds of small tensors share kernels, and those that stay as they are, calls") {
  if (!has_device()) return;
  std::vector<made_tensor> all;
  for (unsigned i = 0; i < 700; ++i) {
    const std::string name = "t" + std::to_string(i);
    if (i % 7 == 3) {
      all.push_back({name, 2 * (1 + i % 50), "BF16", 2});
    } else if (i % 7 == 5) {
      all.push_back({name, 1 + i % 90});
    } else {
      all.push_back(f32(name, 1 + i % 40));
    }
  }
  loader with(last_cuda_device(), small_options());
  const made_file file(all);
  for (const dtype to : conversion_targets) {
    const model loaded = get(with.load_async(file.name(), converting_to(to), use_future));
    CHECK(first_error(loaded, to) == "");
  }
}

TEST_CASE("cuda: F64 that is to be converted is refused with its name, and loads unconverted") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options());
  const made_file file(tensors_of_all_types());
  try {
    (void)get(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
    FAIL("it was loaded");
  } catch (const error& failure) {
    CHECK(failure.code() == errc::unsupported_dtype);
    CHECK(std::string(failure.what()).find("tensor 'f64'") != std::string::npos);
  }
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("cuda: loads with and without conversion side by side") {
  if (!has_device()) return;
  loader with(last_cuda_device(), small_options(3));
  const made_file file(tensors_for_a_gpu());
  std::vector<std::future<model>> converted;
  std::vector<std::future<model>> plain;
  for (int i = 0; i < 3; ++i) {
    converted.push_back(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
    plain.push_back(with.load_async(file.name(), use_future));
  }
  for (auto& each : converted) CHECK(first_error(get(std::move(each)), dtype::bf16) == "");
  for (auto& each : plain) CHECK(first_difference_on_device(get(std::move(each))) == "");
}

TEST_CASE("cuda: a tensor that grows is counted as what it becomes") {
  if (!has_device()) return;
  loader_options within = small_options();
  within.arena_bytes_max = 3000;
  loader with(last_cuda_device(), within);
  const made_file file(std::vector<made_tensor>{{"a", 2000, "F8_E4M3", 1}});
  const auto failed =
      failure_of(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::memory_exceeded);
  CHECK(holds(failed->what(), "need 4,096 bytes, arena_bytes_max is 3,000"));
}
