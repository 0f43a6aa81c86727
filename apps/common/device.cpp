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

// Returns N of "cuda:N", and 0 for "cuda". Returns empty for any other name.
std::optional<int> cuda_index(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  const auto index = parse_number(name.substr(5));
  if (!index || *index > cuda_index_max) return std::nullopt;
  return static_cast<int>(*index);
}

std::vector<std::string_view> parts_of(std::string_view names) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = names.find(',');
    parts.push_back(names.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    names.remove_prefix(comma + 1);
  }
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
#ifdef RINGLOAD_WITH_CUDA
  if (name == "auto" && cuda_device_count() > 0) return cuda_device(0);
#endif
  return host();
}

device shareable_device_named(std::string_view name) {
  [[maybe_unused]] const device target = device_named(name);
#ifdef RINGLOAD_WITH_CUDA
  if (target.kind() == device_kind::cuda) return shared_cuda_device(target.index());
#endif
  return shared_host();
}

bool are_device_names(std::string_view names) {
  for (const std::string_view name : parts_of(names)) {
    if (!is_device_name(name)) return false;
  }
  return true;
}

std::vector<device> devices_named(std::string_view names) {
  std::vector<device> out;
  for (const std::string_view name : parts_of(names)) out.push_back(device_named(name));
  return out;
}

const void* host_address_of(const tensor& source, std::uint64_t offset,
                            [[maybe_unused]] std::uint64_t bytes,
                            [[maybe_unused]] std::vector<std::byte>& buffer) {
#ifdef RINGLOAD_WITH_CUDA
  if (source.device().kind() == device_kind::cuda) {
    buffer.resize(static_cast<std::size_t>(bytes));
    copy_to_host(source, offset, buffer);
    return buffer.data();
  }
#endif
  return static_cast<const std::byte*>(source.data()) + offset;
}

void release([[maybe_unused]] const tensor& source) noexcept {
#ifdef RINGLOAD_WITH_CUDA
  if (source.device().kind() == device_kind::cuda) ringload::release(source);
#endif
}

}  // namespace ringload::tool
