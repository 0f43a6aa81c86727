// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <cstdint>
#include <optional>
#include <ringload/error.hpp>
#include <string>

#ifdef RINGLOAD_WITH_CUDA
#include <ringload/cuda.hpp>
#endif

#include "size.hpp"

namespace ringload::tool {

namespace {

constexpr std::uint64_t cuda_index_max = 1023;

// The N of "cuda" or "cuda:N".
std::optional<int> cuda_index(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const auto index = parse_number(name.substr(5));
  if (!index || *index > cuda_index_max) return std::nullopt;
  return static_cast<int>(*index);
}

}  // namespace

bool is_device_name(std::string_view name) {
  return name == "host" || name == "auto" || cuda_index(name).has_value();
}

device device_named(std::string_view name) {
  if (const auto index = cuda_index(name)) {
#ifdef RINGLOAD_WITH_CUDA
    return cuda_device(*index);
#else
    throw error(errc::device_unavailable, "--device " + std::string(name),
                "this ringload was built without CUDA");
#endif
  }
  return host();
}

}  // namespace ringload::tool
