// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads a checkpoint into memory that the caller has already allocated, such as an inference
// engine's parameters, so that no second copy of the model is needed.

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

/// Memory of the caller for one tensor.
struct RINGLOAD_EXPORT destination {
  destination();
  /// Row-major and dense, in the memory of `on`.
  destination(std::string name, void* data, ringload::dtype dtype, std::vector<std::uint64_t> shape,
              ringload::device on = host());
  destination(const destination& other);
  destination(destination&& other) noexcept;
  destination& operator=(const destination& other);
  destination& operator=(destination&& other) noexcept;
  ~destination();

  std::string name;
  void* data = nullptr;  // Of the element at index 0 in every dimension.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  /// In elements, by dimension; may be negative. Empty: row-major without gaps, which types of less
  /// than a byte always are.
  std::vector<std::int64_t> strides;
  std::uint64_t bytes = 0;  // The size of the memory, to be checked; 0: unchecked.
  ringload::device on = host();
  /// Kept alive until the fill is over; if null, the caller must keep `data` valid.
  std::shared_ptr<void> owner;
};

/// The memory that a DLPack tensor describes, under that name. Its `deleter` is called when the
/// last copy of the destination is gone, also when this throws: `errc::unsupported_dtype` for a
/// type that is not supported, `errc::device_unavailable` if the memory is neither the host's nor
/// that of `cuda`, the device for CUDA memory.
///
/// All work of the producer's streams on the tensor must have completed.
RINGLOAD_EXPORT destination destination_of(std::string name, dlpack::managed_tensor_versioned* from,
                                           device cuda = host());
RINGLOAD_EXPORT destination destination_of(std::string name, dlpack::managed_tensor* from,
                                           device cuda = host());

/// What a fill does where checkpoint and destinations differ.
struct RINGLOAD_EXPORT fill_options {
  enum class on_missing : std::uint8_t { error, report };
  enum class on_unexpected : std::uint8_t { ignore, report, error };
  enum class on_dtype : std::uint8_t { exact, convert };
  enum class on_shape : std::uint8_t { exact, broadcast };

  fill_options();
  fill_options(const fill_options& other);
  fill_options(fill_options&& other) noexcept;
  fill_options& operator=(const fill_options& other);
  fill_options& operator=(fill_options&& other) noexcept;
  ~fill_options();

  /// A destination that the checkpoint has no tensor for: `errc::no_such_tensor`, or `missing` of
  /// the result lists it and its memory stays as it is.
  on_missing missing = on_missing::error;
  /// A tensor without a destination: ignored, listed in `unexpected` of the result, or
  /// `errc::unexpected_tensor`.
  on_unexpected unexpected = on_unexpected::ignore;
  /// Another element type: `errc::wrong_dtype`, or converted as PyTorch's copy_ does between bool,
  /// integers of 8 to 64 bits, f16, bf16, f32, f64, f8_e4m3fn and f8_e5m2: to a floating type
  /// rounded once, to nearest, ties to even; to an integer truncated. Unlike there, integers
  /// saturate, and NaN becomes 0. Too large for f8_e4m3fn, which has no infinity, becomes 448, and
  /// so does infinity, as in PyTorch from 2.12 on; older ones make it NaN. To bool, 0 is false and
  /// everything else, NaN too, true. A destination on a GPU is only converted from f32, f16, bf16,
  /// f8_e4m3fn and f8_e5m2, to f32, f16 and bf16; any other pair is `errc::unsupported_dtype`.
  on_dtype dtype = on_dtype::exact;
  /// Another shape: `errc::wrong_shape`, or the tensor is broadcast by PyTorch's rule: from the
  /// last dimension on, each size is the destination's, or 1, or missing.
  on_shape shape = on_shape::exact;
  /// Maps a destination's name to its tensor's name in the checkpoint. Empty: they are the same.
  /// Called in a thread of the library, once for each destination.
  std::function<std::string(std::string_view)> rename;
};

/// The result of a fill. All destinations but those in `missing` are complete.
struct fill_result {
  std::vector<std::string> missing;     // Destinations without a tensor, in the order given.
  std::vector<std::string> unexpected;  // Tensors without a destination, in the catalog's order.
  load_stats stats;
  std::vector<file_stats> stats_of_files;  // By position in the catalog's `files`.
};

/// Thrown by a fill that failed after the first byte was written.
class RINGLOAD_EXPORT fill_error : public error {
 public:
  fill_error(const error& why, std::vector<std::string> whole, std::vector<std::string> torn);
  ~fill_error() override;

  /// Names of destinations: those that are complete, and those that may hold old bytes, new ones,
  /// or both.
  std::span<const std::string> whole() const noexcept { return *whole_; }
  std::span<const std::string> torn() const noexcept { return *torn_; }

 private:
  // Shared, because an exception is copied and must not throw then.
  std::shared_ptr<const std::vector<std::string>> whole_;
  std::shared_ptr<const std::vector<std::string>> torn_;
};

}  // namespace ringload::inline v0
