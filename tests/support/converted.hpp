// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint with every floating-point type and other types, and the expected result of a load
// with a conversion. Its bytes are random, so that NaNs, infinities, and numbers that are too large
// or too small occur.

#include <cstdint>
#include <optional>
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <string>
#include <vector>

#include "support/float_reference.hpp"
#include "support/made_checkpoint.hpp"

namespace ringload::testing {

inline constexpr dtype conversion_targets[] = {dtype::f32, dtype::f16, dtype::bf16};

inline std::vector<made_tensor> tensors_of_all_types() {
  return {
      {"f32", 4 * 70'001, "F32", 4},
      {"f16", 2 * 3, "F16", 2},
      {"bf16", 2 * 100'003, "BF16", 2},
      {"e4m3", 90'001, "F8_E4M3", 1},
      {"none", 0, "F16", 2},
      {"e5m2", 33, "F8_E5M2", 1},
      {"i32", 4 * 501, "I32", 4},
      {"f64", 8 * 9, "F64", 8},
      {"f16.large", 2 * 65'537, "F16", 2},
      {"e4m3fnuz", 77, "F8_E4M3FNUZ", 1},
      {"f32.last", 4 * 40'000, "F32", 4},
  };
}

// Without F64, which is converted only in host memory.
inline std::vector<made_tensor> tensors_for_a_gpu() {
  std::vector<made_tensor> tensors = tensors_of_all_types();
  std::erase_if(tensors, [](const made_tensor& tensor) { return tensor.name == "f64"; });
  return tensors;
}

inline load_options converting_to(dtype to) {
  load_options options;
  options.dtype = to;
  return options;
}

// Returns an empty string if `bytes` is the expected result for the options. Otherwise returns the
// name of the tensor and the difference.
inline std::string conversion_error(const tensor& t, const std::string& bytes,
                                    const tensor_info& info, const catalog& in, dtype to) {
  if (!t || t.name() != info.name) return info.name + ": another one";
  std::string wanted = file_bytes(in.files[info.file].path, info.offset, info.bytes);
  dtype type = info.dtype;
  if (convertible(type, to)) {
    wanted = reference_bytes(wanted, type, to);
    type = to;
  }
  if (t.dtype() != type) return info.name + ": another dtype";
  if (t.size_bytes() != wanted.size()) return info.name + ": another size";
  if (reinterpret_cast<std::uintptr_t>(t.data()) % alignment(type) != 0) {
    return info.name + ": misaligned";
  }
  return bytes == wanted ? "" : info.name + ": other bytes";
}

}  // namespace ringload::testing
