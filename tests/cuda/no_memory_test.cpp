// SPDX-License-Identifier: Apache-2.0

// Memory for a few bytes is missing, at each point of a small load into a device in turn: the load
// ends, with the right bytes or with an error, and nothing stays taken, on the device neither. An
// executable of its own: failing_new replaces operator new. On the stand-in only.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <memory>
#include <new>
#include <string>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/converted.hpp"
#include "support/descriptors.hpp"
#include "support/failing_new.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
using boost::asio::use_future;

namespace {

// Small pieces that are scattered, large ones, and what can be converted.
std::vector<made_tensor> tensors() {
  std::vector<made_tensor> all = equal_tensors(40, 1000);
  all.push_back({"large", 200'000});
  all.push_back(f32("converted", 20'000));
  return all;
}

}  // namespace

TEST_CASE("cuda, no memory: at each allocation of a load in turn, it ends and keeps nothing") {
  const made_file file(tensors());
  for (const bool converts : {false, true}) {
    start_afresh();
    const load_options how = converts ? converting_to(dtype::bf16) : load_options();
    auto with = std::make_unique<loader>(cuda_device(1), small_options(2));
    CHECK(first_difference_on_device(get(with->load_async(file.name(), use_future))) == "");
    const std::size_t descriptors = open_descriptors();
    std::int64_t right = 0;
    const std::int64_t points = for_every_allocation([&] {
      const bool succeeds = succeeds_or_lacks_memory([&] {
        const model loaded = get(with->load_async(file.name(), how, use_future));
        until_failure = -1;
        if (!converts) CHECK(first_difference_on_device(loaded) == "");
      });
      if (succeeds) ++right;
    });
    MESSAGE(points << " points, " << right << " of them without consequence");
    CHECK(points > 10);
    // The loader is as good as new.
    CHECK(first_difference_on_device(get(with->load_async(file.name(), use_future))) == "");
    CHECK(open_descriptors() == descriptors);
    with.reset();
    CHECK(left_over() == "");
    CHECK(misuse() == "");
  }
}

TEST_CASE("cuda, no memory: at each allocation of copies of tensors in turn, they end") {
  const made_file file(tensors());
  start_afresh();
  auto with = std::make_unique<loader>(cuda_device(1), small_options(2));
  load_options options;
  options.allocation = allocation::per_tensor;
  {
    const model loaded = get(with->load_async(file.name(), options, use_future));
    const tensor from = loaded.at("converted");
    const std::string wanted = bytes_on_device(from);
    const std::int64_t points = for_every_allocation([&] {
      succeeds_or_lacks_memory([&] {
        const tensor here = get(with->copy_async(from, host(), use_future));
        const tensor there = get(with->copy_async(here, cuda_device(1), dtype::bf16, use_future));
        const tensor beside = get(with->copy_async(from, use_future));
        until_failure = -1;
        CHECK(testing::bytes_of(here) == wanted);
        CHECK(there.dtype() == dtype::bf16);
        CHECK(bytes_on_device(beside) == wanted);
      });
    });
    CHECK(points > 30);
  }
  with.reset();
  CHECK(left_over() == "");
  CHECK(misuse() == "");
}

TEST_CASE("cuda, no memory: at each allocation of a loader's start, it starts or says why not") {
  const made_file file(tensors());
  start_afresh();
  const std::size_t descriptors = open_descriptors();
  for_every_allocation([&] {
    try {
      loader with(cuda_device(1), small_options(2));
      until_failure = -1;
      CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
    } catch (const error&) {
    } catch (const std::bad_alloc&) {
    }
    CHECK(left_over() == "");
  });
  CHECK(open_descriptors() == descriptors);
  CHECK(misuse() == "");
}
