// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <future>
#include <memory>
#include <ringload/loader.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

constexpr int number_of(std::string_view version) {  // Converts "1.2.3" to 10203.
  int number = 0;
  int part = 0;
  for (const char c : version) {
    if (c == '.') {
      number = (number + part) * 100;
      part = 0;
    } else {
      part = part * 10 + (c - '0');
    }
  }
  return number + part;
}
static_assert(number_of(RINGLOAD_VERSION) == RINGLOAD_C_VERSION,
              "ringload/c.h has the version of the project");

}  // namespace

const char* ringload_version(void) { return RINGLOAD_VERSION; }
uint32_t ringload_abi_version(void) { return RINGLOAD_C_ABI_VERSION; }

void ringload_device_release(ringload_device* device) { delete device; }

void ringload_extension_release(ringload_extension* extension) { delete extension; }

ringload_status ringload_host_device(ringload_device** device) {
  return guarded([&] {
    required(device, "the output pointer for the device is null") = nullptr;
    *device = new ringload_device{ringload::host()};
    return RINGLOAD_OK;
  });
}

ringload_status ringload_loader_create(const ringload_device* device,
                                       const ringload_loader_options* limits,
                                       ringload_loader** result) {
  return ringload_loader_create_on(&device, 1, limits, nullptr, 0, result);
}

ringload_status ringload_loader_create_with(const ringload_device* device,
                                            const ringload_loader_options* limits,
                                            const ringload_extension* const* extensions,
                                            size_t count, ringload_loader** result) {
  return ringload_loader_create_on(&device, 1, limits, extensions, count, result);
}

ringload_status ringload_loader_create_on(const ringload_device* const* devices, size_t count,
                                          const ringload_loader_options* limits,
                                          const ringload_extension* const* extensions,
                                          size_t extension_count, ringload_loader** result) {
  return guarded([&] {
    required(result, "the output pointer for the loader is null") = nullptr;
    if (count > 0) required(devices, "the devices are null");
    std::vector<ringload::device> targets;
    for (size_t i = 0; i < count; ++i) {
      targets.push_back(devices[i] ? devices[i]->value : ringload::host());
    }
    if (extension_count > 0) required(extensions, "the extensions are null");
    std::vector<ringload::extension> added;
    for (size_t i = 0; i < extension_count; ++i) {
      added.push_back(required(extensions[i], "an extension is null").value);
    }
    auto handle = std::make_unique<ringload_loader>();
    handle->value = std::make_shared<ringload::loader>(std::move(targets),
                                                       loader_options_of(limits), std::move(added));
    handle->thread = std::make_shared<completion_thread>();
    *result = handle.release();
    return RINGLOAD_OK;
  });
}

size_t ringload_loader_device_count(const ringload_loader* loader) {
  return loader ? loader->value->devices().size() : 0;
}

void ringload_loader_release(ringload_loader* loader) {
  if (!loader) return;
  const std::unique_ptr<ringload_loader> handle(loader);
  // The completion thread runs its tasks in order. Therefore all operations whose _begin function
  // was called earlier start before the loader is released.
  guarded([&] {
    std::promise<void> destroyed;
    const std::future<void> released = destroyed.get_future();
    const bool must_wait = !handle->thread->is_this();
    boost::asio::post(handle->thread->context(),
                      [value = std::move(handle->value), done = std::move(destroyed)]() mutable {
                        value.reset();
                        done.set_value();
                      });
    if (must_wait) released.wait();
    return RINGLOAD_OK;
  });
}
