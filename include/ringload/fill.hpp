// SPDX-License-Identifier: Apache-2.0
#pragma once

// A fill loads a checkpoint into memory that the caller has already allocated, such as the
// parameters of an inference engine. Therefore the model is in memory only once.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringload/detail/list_argument.hpp>
#include <ringload/device.hpp>
#include <ringload/dlpack.hpp>
#include <ringload/dtype.hpp>
#include <ringload/error.hpp>
#include <ringload/export.hpp>
#include <ringload/options.hpp>
#include <ringload/stats.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

/// Memory of the caller for one tensor.
struct RINGLOAD_EXPORT destination {
  destination() {}
  /// Describes row-major, dense memory of `device`.
  destination(std::string name, void* data, ringload::dtype dtype,
              detail::list_argument<std::uint64_t> shape, ringload::device device = host());

  std::string name;                   // The name of the tensor that the memory receives.
  void* data = nullptr;               // The element whose index is 0 in every dimension.
  ringload::dtype dtype = dtype::u8;  // The type of the elements in memory.
  std::vector<std::uint64_t> shape;   // The sizes of the dimensions, outermost first.
  /// The strides in elements, one for each dimension. A stride may be negative. Empty means
  /// row-major without gaps. A tensor with elements of less than 8 bits must be row-major without
  /// gaps.
  std::vector<std::int64_t> strides;
  /// The size of the memory. If the shape and the strides need more bytes, the fill fails. 0 means
  /// no check.
  std::uint64_t bytes = 0;
  /// The device of the memory.
  ringload::device device = host();
  /// An object that the fill keeps alive until completion. If null, the caller must keep `data`
  /// valid.
  std::shared_ptr<void> owner;
};

/// Returns a destination for the memory of the DLPack tensor `managed`. The `deleter` of `managed`
/// is called when the last copy of the destination is destroyed, and also if this function throws.
/// All work that uses the DLPack tensor must have completed before the call. For a tensor in CUDA
/// memory, the caller must pass the device as `cuda`. For a tensor in host memory, `cuda` is
/// ignored.
///
/// Throws `errc::unsupported_dtype` if the type is not supported. Throws `errc::device_unavailable`
/// if the memory is neither host memory nor memory of the device `cuda`. Throws
/// `errc::invalid_destination` if the memory is read-only.
RINGLOAD_EXPORT destination destination_of(std::string name,
                                           dlpack::managed_tensor_versioned* managed,
                                           device cuda = host());
/// Returns a destination for a tensor of DLPack 0.x.
RINGLOAD_EXPORT destination destination_of(std::string name, dlpack::managed_tensor* managed,
                                           device cuda = host());

/// Options of a fill. Most options decide what happens if the checkpoint and the destinations
/// differ.
struct fill_options {
  /// The actions for a destination without a tensor.
  enum class on_missing : std::uint8_t { error, report };
  /// The actions for a tensor without a destination.
  enum class on_unexpected : std::uint8_t { ignore, report, error };
  /// The actions for different element types.
  enum class on_dtype : std::uint8_t { exact, convert };
  /// The actions for different shapes.
  enum class on_shape : std::uint8_t { exact, broadcast };

  RINGLOAD_OPTION_STRUCT(fill_options)

  /// The action for a destination without a tensor in the checkpoint. `error`: the fill fails with
  /// `errc::no_such_tensor`. `report`: `fill_result::missing` lists the destination, and its memory
  /// is unchanged.
  on_missing missing = on_missing::error;
  /// The action for a tensor without a destination. `ignore`: the tensor is not loaded. `report`:
  /// the tensor is not loaded, and `fill_result::unexpected` lists the tensor. `error`: the fill
  /// fails with `errc::unexpected_tensor`.
  on_unexpected unexpected = on_unexpected::ignore;
  /// The action if a tensor and its destination have different element types. `exact`: the fill
  /// fails with `errc::wrong_dtype`. `convert`: the elements are converted.
  ///
  /// The conversion supports bool, integers of 8 to 64 bits, f16, bf16, f32, f64, f8_e4m3fn and
  /// f8_e5m2. A conversion to a floating-point type rounds once, to the nearest value, ties to
  /// even. A conversion to an integer truncates. In a conversion to bool, 0 becomes false, and
  /// every other value, including NaN, becomes true. Any other conversion fails with
  /// `errc::unsupported_dtype`.
  ///
  /// The results are equal to the results of copy_ in PyTorch 2.14 and later, with three
  /// differences. A number outside the range of an integer type becomes the nearest integer of the
  /// type. NaN becomes the integer 0. The bits of a NaN that becomes a floating-point number may
  /// differ.
  ///
  /// f8_e4m3fn has no infinity. In a conversion to f8_e4m3fn, infinity and numbers that are too
  /// large become 448. Older versions of PyTorch, such as 2.12, produce NaN instead.
  ///
  /// A GPU destination supports only conversions from f32, f16, bf16, f8_e4m3fn and f8_e5m2 to f32,
  /// f16 and bf16. A fill does not dequantise: the destination of a tensor of quantised blocks must
  /// have the type u8 and receives the blocks unchanged.
  on_dtype dtype = on_dtype::exact;
  /// The action if a tensor and its destination have different shapes. `exact`: the fill fails with
  /// `errc::wrong_shape`. `broadcast`: the tensor is broadcast by PyTorch's rule. The rule compares
  /// the dimensions from last to first. Each size of the tensor must be 1, or equal to the size of
  /// the destination. The tensor may have fewer dimensions than the destination.
  on_shape shape = on_shape::exact;
  /// Returns the name of the tensor for the name of a destination. If no function is set, the names
  /// of the tensor and of its destination are equal. Called once for each destination, in a thread
  /// of the library.
  std::function<std::string(std::string_view)> rename = {};
  /// The selection, and other options of the load. `load.dtype` must be empty, because each
  /// destination has a type. `load.memory` must be `owned`. A fill with a checksum list fails with
  /// `errc::digest_unavailable`. A selection that chooses devices fails with
  /// `errc::invalid_selection`, because each destination has a device.
  load_options load = {};
};

/// The result of a fill. All destinations are complete, except for the destinations in `missing`.
struct fill_result {
  std::vector<std::string> missing;     // Destinations without a tensor, in input order.
  std::vector<std::string> unexpected;  // Tensors without a destination, in catalog order.
  load_stats stats;                     // The statistics of the load.
  /// The statistics of each file, in the order of `catalog::files`.
  std::vector<file_stats> stats_of_files;
};

/// Thrown by a fill that failed after the first byte was written.
class RINGLOAD_EXPORT fill_error : public error {
 public:
  /// Adds the names of the destinations `whole` and `torn` to the error `cause`.
  fill_error(const error& cause, std::vector<std::string> whole, std::vector<std::string> torn);
  ~fill_error() override;

  /// Returns the names of the destinations that are complete.
  std::span<const std::string> whole() const noexcept { return *whole_; }
  /// Returns the names of the destinations that may contain old bytes, new bytes, or both.
  std::span<const std::string> torn() const noexcept { return *torn_; }

 private:
  // The copies of an exception share the names, because the copy constructor must not throw.
  std::shared_ptr<const std::vector<std::string>> whole_;
  std::shared_ptr<const std::vector<std::string>> torn_;
};

}  // namespace ringload::inline v0
