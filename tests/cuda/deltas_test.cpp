// SPDX-License-Identifier: Apache-2.0

// Deltas of tensors in GPU memory. Runs on the stand-in, and on a GPU if the machine has one.

#include <doctest/doctest.h>

#include <ringload/delta.hpp>
#include <string>

#include "cuda/any_runtime.hpp"
#include "cuda/trained_versions.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("cuda: a delta makes the next version in GPU memory, and the base stays") {
  using namespace ringload::testing::delta_tests;
  if (!has_pageable_device()) return;
  {
    const trained_versions trained;
    loader gpu_loader(last_cuda_device(), small_options());
    const model base = gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
    for (const allocation chosen : {allocation::per_tensor, allocation::per_load}) {
      apply_options options;
      options.allocation = chosen;
      const model next = apply_async(gpu_loader, base, trained.delta(1), options, future).get();
      CHECK(version_on_device(next) == trained.versions[1]);
      CHECK(version_on_device(base) == trained.versions[0]);
      CHECK(next.at("unchanged").data() == base.at("unchanged").data());
      CHECK(next.at("sparse").data() != base.at("sparse").data());
      const model last = apply_async(gpu_loader, next, trained.delta(2), options, future).get();
      CHECK(version_on_device(last) == trained.versions[2]);
    }
    const model chained = load_version_async(gpu_loader, trained.at.path("v"), future).get();
    CHECK(version_on_device(chained) == trained.versions[2]);
  }
  end_well();
}

TEST_CASE("cuda: an update in place changes GPU memory, or restores the old bytes") {
  using namespace ringload::testing::delta_tests;
  if (!has_pageable_device()) return;
  {
    const trained_versions trained;
    loader gpu_loader(last_cuda_device(), small_options());
    const model memory = gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
    const auto update = [&](unsigned v) {
      return update_async(gpu_loader, destinations_of(memory), trained.delta(v), future).get();
    };
    CHECK(code_of([&] { update(2); }) == errc::wrong_digest);  // The base has version 0.
    CHECK(version_on_device(memory) == trained.versions[0]);
    const update_result done = update(1);
    CHECK(done.tensors_changed == 3);
    CHECK(version_on_device(memory) == trained.versions[1]);
    CHECK(code_of([&] { update(1); }) == errc::wrong_digest);
    CHECK(version_on_device(memory) == trained.versions[1]);
    update(2);
    CHECK(version_on_device(memory) == trained.versions[2]);
  }
  end_well();
}

TEST_CASE("cuda: a delta with an index changes GPU memory") {
  using namespace ringload::testing::delta_tests;
  if (!has_pageable_device()) return;
  for (const auto encoding : {delta_encoding::exclusive_or, delta_encoding::overwrite}) {
    const trained_versions trained;
    delta_options options;
    options.sync = false;
    options.indexed.emplace();
    options.indexed->encoding = encoding;
    loader gpu_loader(last_cuda_device(), small_options());
    // The loader for a GPU makes deltas too.
    const std::string folder = trained.at.path("weight_v000001");
    save_delta_async(gpu_loader, folder, trained.at.path("v/v0.safetensors"),
                     trained.at.path(trained_versions::full(1)), options, future)
        .get();
    const model memory = gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
    const model next = apply_async(gpu_loader, memory, folder, future).get();
    CHECK(version_on_device(next) == trained.versions[1]);
    update_async(gpu_loader, destinations_of(memory), folder, future).get();
    CHECK(version_on_device(memory) == trained.versions[1]);
    // The positions and values of `overwrite` give the same result again.
    const auto again =
        code_of([&] { update_async(gpu_loader, destinations_of(memory), folder, future).get(); });
    CHECK(static_cast<bool>(again) == (encoding == delta_encoding::exclusive_or));
    CHECK(version_on_device(memory) == trained.versions[1]);
  }
  end_well();
}

TEST_CASE("cuda: a delta is refused if the tensors are not on the loader's device") {
  using namespace ringload::testing::delta_tests;
  if (!has_pageable_device()) return;
  {
    trained_versions trained;
    loader gpu_loader(last_cuda_device(), small_options());
    const model on_host = trained.at.load("v/v0.safetensors");
    const model on_device =
        gpu_loader.load_async(trained.at.path("v/v0.safetensors"), future).get();
    CHECK(code_of([&] { apply_async(gpu_loader, on_host, trained.delta(1), future).get(); }) ==
          errc::device_unavailable);
    CHECK(code_of([&] {
            apply_async(trained.at.host_loader, on_device, trained.delta(1), future).get();
          }) == errc::device_unavailable);
    CHECK(code_of([&] {
            update_async(gpu_loader, destinations_of(on_host), trained.delta(1), future).get();
          }) == errc::invalid_destination);
    CHECK(tensors_of(on_host) == trained.versions[0]);
  }
  end_well();
}
