// SPDX-License-Identifier: Apache-2.0

#include <ringload/c.h>

#include <cstddef>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/loader.hpp>
#include <utility>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

struct owned_memory {
  void (*release)(void*);
  void* context;
  owned_memory(void (*function)(void*), void* argument) noexcept
      : release(function), context(argument) {}
  owned_memory(const owned_memory&) = delete;
  owned_memory& operator=(const owned_memory&) = delete;
  ~owned_memory() {
    if (release) release(context);
  }
};

}  // namespace

ringload_status ringload_open_memory_begin(ringload_loader* loader, const void* bytes, size_t count,
                                           const char* name, void (*release)(void* context),
                                           void* context, const ringload_open_options* options,
                                           ringload_operation** operation) {
  return guarded(operation, [&] {
    // `memory` must be created before the checks, because this function takes ownership of the
    // caller's memory even if a check fails.
    owned_memory memory(release, context);
    auto owner = std::make_shared<owned_memory>(nullptr, context);
    std::swap(owner->release, memory.release);
    const ringload_loader& handle = required(loader, "the loader is null");
    const auto* const first = static_cast<const std::byte*>(bytes);
    if (count > 0) required(first, "the bytes are null");
    auto source = ringload::from_memory({first, count}, &required(name, "the name is null"),
                                        std::move(owner));
    return begin_operation<ringload::checkpoint>(
        handle.thread, operation,
        [shared = handle.value, source = std::move(source),
         converted = options_of(options)](auto handler) mutable {
          shared->open_async(std::move(source), converted, std::move(handler));
        });
  });
}

ringload_status ringload_open_memory(ringload_loader* loader, const void* bytes, size_t count,
                                     const char* name, void (*release)(void* context),
                                     void* context, const ringload_open_options* options,
                                     ringload_checkpoint** opened) {
  return begin_and_wait(
      [&](ringload_operation** operation) {
        return ringload_open_memory_begin(loader, bytes, count, name, release, context, options,
                                          operation);
      },
      ringload_operation_checkpoint, opened);
}
