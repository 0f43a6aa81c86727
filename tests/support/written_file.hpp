// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors to write, and the expected content of the file.

#include <boost/asio/use_future.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <ringload/ringload.hpp>
#include <string>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

// A tensor with random elements, which the tensor_ref owns.
inline tensor_ref noise_view(std::string name, dtype type, std::vector<std::uint64_t> shape,
                             std::uint64_t seed = 1) {
  std::uint64_t bytes = bits(type) / 8;
  for (const std::uint64_t size : shape) bytes *= size;
  const auto memory = std::make_shared<std::string>(noise(bytes, seed));
  tensor_ref out(std::move(name), memory->data(), type, std::move(shape));
  out.owner = memory;
  return out;
}

inline std::string text_of(const tensor_ref& of) {
  std::uint64_t bytes = bits(of.dtype) / 8;
  for (const std::uint64_t size : of.shape) bytes *= size;
  return {static_cast<const char*>(of.data), bytes};
}

// The bytes of all tensors, by name.
inline std::map<std::string, std::string> loaded_bytes(const std::string& path) {
  loader with(host(), small_options());
  const model all = get(with.load_async(path, use_future));
  std::map<std::string, std::string> out;
  for (const tensor t : all) {
    out.emplace(t.name(), std::string(static_cast<const char*>(t.data()), t.size_bytes()));
  }
  return out;
}

inline std::uint64_t add(writer& to, tensor_ref what, object_options how = {}) {
  return get(to.add_async(std::move(what), std::move(how), use_future));
}
inline write_result finish(writer& to) { return get(to.finish_async(use_future)); }

inline object_options packed(int level, std::optional<digest_algorithm> digest = {}) {
  object_options how;
  how.zstd_level = level;
  how.digest = digest;
  return how;
}

// The error of a call, or 0.
template <class Call>
boost::system::error_code code_of_call(Call&& call) {
  try {
    call();
  } catch (const error& e) {
    return e.code();
  }
  return {};
}

}  // namespace ringload::testing
