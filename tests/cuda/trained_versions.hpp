// SPDX-License-Identifier: Apache-2.0
#pragma once

// Versions of a checkpoint and their deltas, for tests with tensors in GPU memory.

#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <ringload/delta.hpp>
#include <string>
#include <vector>

#include "cuda/on_device.hpp"
#include "delta/versions.hpp"
#include "support/small_options.hpp"

namespace ringload::testing::delta_tests {

inline version version_on_device(const model& source) {
  version tensors;
  for (const tensor& each : source) {
    CHECK(each.device() == last_cuda_device());
    tensors[std::string(each.name())] = {
        each.dtype(), {each.shape().begin(), each.shape().end()}, bytes_on_device(each)};
  }
  return tensors;
}

inline std::vector<destination> destinations_of(const model& source) {
  std::vector<destination> all;
  for (const tensor& each : source) {
    all.emplace_back(std::string(each.name()), each.data(), each.dtype(),
                     std::vector<std::uint64_t>(each.shape().begin(), each.shape().end()));
    all.back().device = each.device();
  }
  return all;
}

// A folder with three versions of a checkpoint and the deltas between them. A version has tensors
// of each form: unchanged, sparse, dense and whole.
struct trained_versions {
  trained_versions() {
    std::mt19937_64 random(7);
    version first = random_version(random, 4);
    first["sparse"] = {dtype::bf16, {40'000}, noise(80'000, 1)};
    first["dense"] = {dtype::f32, {9'000}, noise(36'000, 2)};
    first["whole"] = {dtype::u8, {5'000}, noise(5'000, 3)};
    first["unchanged"] = {dtype::u8, {5'000'000}, noise(5'000'000, 4)};
    versions.push_back(first);
    for (unsigned v = 1; v <= 2; ++v) {
      version next = versions.back();
      train_each_form(next, v, random);
      versions.push_back(next);
    }
    std::filesystem::create_directory(at.path("v"));
    at.save("v/v0.safetensors", versions[0]);
    for (unsigned v = 1; v <= 2; ++v) {
      at.save(full(v), versions[v]);
      at.make("v/v" + std::to_string(v) + ".delta.zt",
              at.path(v == 1 ? "v/v0.safetensors" : full(v - 1)), at.path(full(v)));
    }
  }

  static std::string full(unsigned v) { return "full" + std::to_string(v) + ".safetensors"; }
  std::string delta(unsigned v) const { return at.path("v/v" + std::to_string(v) + ".delta.zt"); }

  place at;
  std::vector<version> versions;
};

}  // namespace ringload::testing::delta_tests
