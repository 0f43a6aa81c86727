// SPDX-License-Identifier: Apache-2.0
#pragma once

// Versions of a checkpoint for the tests of deltas.

#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <ringload/as_exception.hpp>
#include <ringload/delta.hpp>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <ringload/save.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"

namespace ringload::testing::delta_tests {

namespace asio = boost::asio;

struct version_tensor {
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  std::string bytes;

  friend bool operator==(const version_tensor&, const version_tensor&) = default;
};

using version = std::map<std::string, version_tensor>;

inline constexpr auto future = as_exception(asio::use_future);

struct place {
  temporary_folder folder;
  loader host_loader{host(), small_options()};

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }

  // Saves a version and returns its path.
  std::string save(const std::string& name, const version& tensors) {
    std::vector<tensor_ref> refs;
    for (const auto& [tensor_name, tensor] : tensors) {
      refs.emplace_back(tensor_name, tensor.bytes.data(), tensor.dtype, tensor.shape);
    }
    save_options options;
    options.metadata = {{"format", name}};
    options.sync = false;
    host_loader.save_async(path(name), refs, options, future).get();
    return path(name);
  }

  delta_result make(const std::string& name, const std::string& base, const std::string& next,
                    delta_options options = {}) {
    options.sync = false;
    return save_delta_async(host_loader, path(name), base, next, options, future).get();
  }

  model load(const std::string& name) { return host_loader.load_async(path(name), future).get(); }

  model apply(const model& base, const std::string& name, apply_options options = {}) {
    return apply_async(host_loader, base, path(name), options, future).get();
  }
};

inline version tensors_of(const model& source) {
  version tensors;
  for (const tensor& each : source) {
    const auto bytes = each.as<const std::byte>();
    version_tensor& out = tensors[std::string(each.name())];
    out.dtype = each.dtype();
    out.shape.assign(each.shape().begin(), each.shape().end());
    out.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return tensors;
}

inline version_tensor random_version_tensor(std::mt19937_64& random) {
  const dtype types[] = {dtype::u8,  dtype::bf16, dtype::f32,       dtype::f64,
                         dtype::i64, dtype::f16,  dtype::f8_e4m3fn, dtype::boolean};
  version_tensor out;
  out.dtype = types[random() % std::size(types)];
  const std::uint64_t sizes[] = {0, 1, 5, 300, 40'000};
  out.shape = {sizes[random() % std::size(sizes)], 1 + random() % 3};
  if (random() % 5 == 0) out.shape = {};
  std::uint64_t elements = 1;
  for (const std::uint64_t size : out.shape) elements *= size;
  out.bytes = noise(elements * bits(out.dtype) / 8, random());
  return out;
}

// Changes about `permille` of the elements, by their low bits.
inline void train(version_tensor& tensor, unsigned permille, std::mt19937_64& random) {
  const std::size_t width = bits(tensor.dtype) / 8;
  for (std::size_t offset = 0; offset < tensor.bytes.size(); offset += width) {
    if (random() % 1000 >= permille) continue;
    tensor.bytes[offset] =
        static_cast<char>(tensor.bytes[offset] ^ static_cast<char>(1 + random() % 3));
  }
}

// Changes the tensor "sparse" in few elements, "dense" in most, and "whole" in all.
inline void train_each_form(version& next, unsigned number, std::mt19937_64& random) {
  train(next["sparse"], 20, random);
  train(next["dense"], 900, random);
  next["whole"].bytes = noise(5'000, 10 + number);
}

inline version next_version(const version& base, std::mt19937_64& random) {
  version next = base;
  const unsigned permille[] = {0, 1, 20, 20, 20, 300, 1000};
  for (auto& [name, tensor] : next) {
    train(tensor, permille[random() % std::size(permille)], random);
  }
  return next;
}

inline version random_version(std::mt19937_64& random, unsigned count) {
  version tensors;
  for (unsigned i = 0; i < count; ++i) {
    tensors["layer." + std::to_string(i) + "/w"] = random_version_tensor(random);
  }
  return tensors;
}

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Memory of the caller that has a version.
struct owned_version {
  explicit owned_version(version source) : tensors(std::move(source)) {}

  std::vector<destination> destinations() {
    std::vector<destination> all;
    for (auto& [name, tensor] : tensors) {
      all.emplace_back(name, tensor.bytes.data(), tensor.dtype, tensor.shape);
    }
    return all;
  }

  version tensors;
};

template <class Work>
boost::system::error_code code_of(const Work& work) {
  try {
    work();
    return {};
  } catch (const error& e) {
    return e.code();
  }
}

}  // namespace ringload::testing::delta_tests
