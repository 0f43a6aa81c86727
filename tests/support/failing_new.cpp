// SPDX-License-Identifier: Apache-2.0
#include "support/failing_new.hpp"

#include <cstdlib>
#include <new>

#include "support/has_feature.hpp"

namespace {

bool fails_now() noexcept {
  using namespace ringload::testing;
  if (certain_memory_depth > 0) return false;
  ++allocations;
  if (until_failure.load() < 0) return false;
  if (until_failure.fetch_sub(1) != 0) return false;
  has_failed = true;
  return true;
}

}  // namespace

// Not inlined, because g++ would warn about malloc with delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (fails_now()) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// The version of a sanitizer would not call the function above.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return fails_now() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !RINGLOAD_HAS_FEATURE(address_sanitizer) && !RINGLOAD_HAS_FEATURE(thread_sanitizer)
// Asio allocates coroutine frames and posted handlers with this function. A sanitizer has its own
// version.
extern "C" [[gnu::noinline]] void* aligned_alloc(std::size_t alignment,
                                                 std::size_t bytes) noexcept {
  void* memory = nullptr;
  if (fails_now() || ::posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
  return memory;
}
#endif
