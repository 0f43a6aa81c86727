// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads a checkpoint into memory that the caller has already allocated, such as the parameters of
// an inference engine. So no second copy of the model is needed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringload/device.hpp>
#include <ringload/dlpack.hpp>
#include <ringload/dtype.hpp>
#include <ringload/error.hpp>
#include <ringload/export.hpp>
#include <ringload/stats.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

/// Caller memory for one tensor.
struct RINGLOAD_EXPORT destination {
  destination();
  /// Row-major and dense, in the memory of `on`.
  destination(std::string name, void* data, ringload::dtype dtype, std::vector<std::uint64_t> shape,
              ringload::device on = host());
  destination(const destination& source);
  destination(destination&& source) noexcept;
  destination& operator=(const destination& source);
  destination& operator=(destination&& source) noexcept;
  ~destination();

  std::string name;
  void* data = nullptr;  // The element at index 0 in every dimension.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  /// The strides in elements, by dimension; may be negative. Empty: row-major without gaps. Types
  /// of less than a byte must be row-major without gaps.
  std::vector<std::int64_t> strides;
  std::uint64_t bytes = 0;  // The size of the memory for a check; 0: unchecked.
  ringload::device on = host();
  /// Kept alive until the fill has completed. If null, the caller must keep `data` valid.
  std::shared_ptr<void> owner;
};

/// Returns the memory of a DLPack tensor as the destination `name`. Its `deleter` is called when
/// the last copy of the destination is destroyed, and also if this function throws. Throws
/// `errc::unsupported_dtype` for a type that is not supported. Throws `errc::device_unavailable` if
/// the memory is neither host memory nor memory of `cuda`, the device for CUDA memory.
///
/// All work of the producer's streams on the tensor must have completed.
RINGLOAD_EXPORT destination destination_of(std::string name, dlpack::managed_tensor_versioned* from,
                                           device cuda = host());
RINGLOAD_EXPORT destination destination_of(std::string name, dlpack::managed_tensor* from,
                                           device cuda = host());

/// Rules for differences between checkpoint and destinations.
struct RINGLOAD_EXPORT fill_options {
  enum class on_missing : std::uint8_t { error, report };
  enum class on_unexpected : std::uint8_t { ignore, report, error };
  enum class on_dtype : std::uint8_t { exact, convert };
  enum class on_shape : std::uint8_t { exact, broadcast };

  fill_options();
  fill_options(const fill_options& source);
  fill_options(fill_options&& source) noexcept;
  fill_options& operator=(const fill_options& source);
  fill_options& operator=(fill_options&& source) noexcept;
  ~fill_options();

  /// A destination without a tensor in the checkpoint: `errc::no_such_tensor`, or the destination
  /// is listed in `missing` of the result and its memory is unchanged.
  on_missing missing = on_missing::error;
  /// A tensor without a destination: ignored, listed in `unexpected` of the result, or
  /// `errc::unexpected_tensor`.
  on_unexpected unexpected = on_unexpected::ignore;
  /// A different element type: `errc::wrong_dtype`, or a conversion as in PyTorch's copy_. The
  /// conversion supports bool, integers of 8 to 64 bits, f16, bf16, f32, f64, f8_e4m3fn and
  /// f8_e5m2. Conversions to a floating type round once, to nearest, ties to even. Conversions to
  /// an integer truncate. Unlike in PyTorch, integers saturate, and NaN becomes 0. In f8_e4m3fn,
  /// which has no infinity, infinity and numbers that are too large become 448, as in PyTorch since
  /// 2.12. Older versions make them NaN. In a conversion to bool, 0 becomes false, and everything
  /// else, including NaN, becomes true. A GPU destination supports only conversions from f32, f16,
  /// bf16, f8_e4m3fn and f8_e5m2 to f32, f16 and bf16. Every other pair is
  /// `errc::unsupported_dtype`.
  on_dtype dtype = on_dtype::exact;
  /// A different shape: `errc::wrong_shape`, or the tensor is broadcast with PyTorch's rule. From
  /// the last dimension on, each size equals the destination's size, is 1, or is missing.
  on_shape shape = on_shape::exact;
  /// Maps the name of a destination to the name of its tensor in the checkpoint. Empty: the names
  /// are equal. The function is called in a thread of the library, once for each destination.
  std::function<std::string(std::string_view)> rename;
};

/// The result of a fill. All destinations but those in `missing` are complete.
struct fill_result {
  std::vector<std::string> missing;     // Destinations without a tensor, in input order.
  std::vector<std::string> unexpected;  // Tensors without a destination, in catalog order.
  load_stats stats;
  std::vector<file_stats> stats_of_files;  // By position in the catalog's `files`.
};

/// Thrown by a fill that failed after the first byte was written.
class RINGLOAD_EXPORT fill_error : public error {
 public:
  fill_error(const error& cause, std::vector<std::string> whole, std::vector<std::string> torn);
  ~fill_error() override;

  /// Names of destinations: `whole` are complete, `torn` may contain old bytes, new bytes, or both.
  std::span<const std::string> whole() const noexcept { return *whole_; }
  std::span<const std::string> torn() const noexcept { return *torn_; }

 private:
  // Shared, because copying an exception must not throw.
  std::shared_ptr<const std::vector<std::string>> whole_;
  std::shared_ptr<const std::vector<std::string>> torn_;
};

}  // namespace ringload::inline v0
