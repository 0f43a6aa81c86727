// SPDX-License-Identifier: Apache-2.0

// Ranks that load into the memory of GPUs through the C interface.

#include <doctest/doctest.h>
#include <ringload/c_cuda.h>
#include <ringload/c_devices.h>
#include <ringload/c_ranks.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "support/made_checkpoint.hpp"

using namespace ringload::testing;

namespace {

template <auto Release>
struct releasing {
  template <class T>
  void operator()(T* handle) const noexcept {
    Release(handle);
  }
};
template <class T, auto Release>
using handle = std::unique_ptr<T, releasing<Release>>;

void require(ringload_status status) {
  if (status != RINGLOAD_OK) throw std::runtime_error(ringload_last_error());
}

// Makes the calls of one rank on its device. Returns the bytes of the tensor `a`, or an error text.
std::string load_rank(ringload_group* hosts, const std::string& source, const char* library) {
  const handle<ringload_group, ringload_group_release> host_group(hosts);
  try {
    const int index = static_cast<int>(ringload_group_rank(hosts));
    ringload_group* out_group = nullptr;
    require(ringload_nccl_group(hosts, index, nullptr, library, 60'000, &out_group));
    const handle<ringload_group, ringload_group_release> ranks(out_group);
    ringload_device* out_device = nullptr;
    require(ringload_cuda_device(index, &out_device));
    const handle<ringload_device, ringload_device_release> device(out_device);
    ringload_loader* out_loader = nullptr;
    require(ringload_loader_create(device.get(), nullptr, &out_loader));
    const handle<ringload_loader, ringload_loader_release> loader(out_loader);
    ringload_group_loading* out_loading = nullptr;
    require(ringload_group_load(loader.get(), ranks.get(), source.c_str(), RINGLOAD_READING_DIVIDED,
                                nullptr, &out_loading));
    const handle<ringload_group_loading, ringload_group_loading_release> loading(out_loading);
    ringload_tensor* out_tensor = nullptr;
    require(ringload_group_loading_tensor(loading.get(), "a", &out_tensor));
    const handle<ringload_tensor, ringload_tensor_release> tensor(out_tensor);
    ringload_tensor* out_copy = nullptr;
    ringload_tensor_copy_options options = RINGLOAD_STRUCT(ringload_tensor_copy_options);
    ringload_device* out_host = nullptr;
    require(ringload_host_device(&out_host));
    const handle<ringload_device, ringload_device_release> host(out_host);
    options.device = host.get();
    require(ringload_tensor_copy(loader.get(), tensor.get(), &options, &out_copy));
    const handle<ringload_tensor, ringload_tensor_release> copy(out_copy);
    ringload_tensor_view view = RINGLOAD_STRUCT(ringload_tensor_view);
    require(ringload_tensor_look(copy.get(), &view));
    return {static_cast<const char*>(view.data), view.bytes};
  } catch (const std::exception& failed) {
    return failed.what();
  }
}

}  // namespace

TEST_CASE("c: ranks load a tensor with NCCL") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const made_file file({{"a", 1'000}, {"b", 1'000}});
  std::vector<ringload_group*> groups(2);
  REQUIRE(ringload_thread_groups(2, 60'000, groups.data()) == RINGLOAD_OK);
  auto second = std::async(std::launch::async, load_rank, groups[1], file.name(), FAKE_NCCL);
  auto first = std::async(std::launch::async, load_rank, groups[0], file.name(), FAKE_NCCL);
  const std::string expected = noise(2'000, 1).substr(0, 1'000);
  CHECK(first.get() == expected);
  CHECK(second.get() == expected);
}

TEST_CASE("c: a library that is not NCCL, and null handles, are refused with a text") {
  const fresh_runtime now;
  ringload_group* group = nullptr;
  REQUIRE(ringload_thread_groups(1, 60'000, &group) == RINGLOAD_OK);
  CHECK(load_rank(group, "", "libc.so.6").find("ncclGetUniqueId") != std::string::npos);
  ringload_group* ranks = nullptr;
  CHECK(ringload_nccl_group(nullptr, 0, nullptr, nullptr, 0, &ranks) == RINGLOAD_INVALID_ARGUMENT);
  CHECK(std::string(ringload_last_error()) == "the handle of the group is null");
}
