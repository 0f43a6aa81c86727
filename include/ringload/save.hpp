// SPDX-License-Identifier: Apache-2.0
#pragma once

// Saves tensors as a checkpoint: the arguments and the result of `loader::save_async`.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/device.hpp>
#include <ringload/dlpack.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <ringload/model.hpp>
#include <ringload/tensor.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// A tensor in memory, to be saved under a name. The memory is only read. The caller must not
/// change the memory until the save has completed.
struct RINGLOAD_EXPORT tensor_ref {
  tensor_ref();
  /// Row-major and dense, in the memory of `on`.
  tensor_ref(std::string name, const void* data, ringload::dtype dtype,
             std::vector<std::uint64_t> shape, ringload::device on = host());
  /// A loaded tensor, under its own name or a new name. The tensor_ref keeps the tensor alive.
  tensor_ref(const tensor& source);  // Implicit on purpose.
  tensor_ref(std::string name, const tensor& source);
  tensor_ref(const tensor_ref& source);
  tensor_ref(tensor_ref&& source) noexcept;
  tensor_ref& operator=(const tensor_ref& source);
  tensor_ref& operator=(tensor_ref&& source) noexcept;
  ~tensor_ref();

  std::string name;
  const void* data = nullptr;  // The element at index 0 in every dimension.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  /// The strides in elements, by dimension; may be 0 or negative. Empty: row-major without gaps.
  /// Types of less than a byte must be row-major without gaps.
  std::vector<std::int64_t> strides;
  std::uint64_t bytes = 0;  // The size of the memory for a check; 0: unchecked.
  ringload::device on = host();
  /// Kept alive until the save has completed. If null, the caller must keep `data` valid.
  std::shared_ptr<const void> owner;
};

/// Returns a DLPack tensor as a tensor_ref `name`. Its `deleter` is called when the last copy of
/// the tensor_ref is destroyed, and also if this function throws. Throws `errc::unsupported_dtype`
/// for a type that is not supported. Throws `errc::device_unavailable` if the memory is neither
/// host memory nor memory of `cuda`, the device for CUDA memory.
///
/// All work of the producer's streams on the tensor must have completed.
RINGLOAD_EXPORT tensor_ref view_of(std::string name, dlpack::managed_tensor_versioned* from,
                                   device cuda = host());
RINGLOAD_EXPORT tensor_ref view_of(std::string name, dlpack::managed_tensor* from,
                                   device cuda = host());

/// Returns all tensors of a model, under their own names.
RINGLOAD_EXPORT std::vector<tensor_ref> refs_of(const model& source);

/// The format and the layout of the output.
enum class save_format : std::uint8_t {
  /// Chosen by the path: "x.safetensors" is one file, "x.zt" is one .zt file. A path that ends with
  /// '/', names a folder, or has no '.' in its last part is a folder of safetensors files.
  by_name,
  safetensors,  // One file if the path ends with ".safetensors", else a folder of files.
  /// One .zt file, stored raw in input order. Tensors with the same memory, type and number of
  /// elements are written once, and each further tensor becomes a second name for the same bytes.
  /// (safetensors has no second names, so such tensors are written several times.) `writer`
  /// supports compression, digests in the file, and sparse objects.
  zt,
};

/// The order of tensors in a safetensors file.
enum class tensor_order : std::uint8_t {
  reference,  // As the safetensors package: by alignment of the type, descending, then name.
  given,
};

/// The progress of a save. Any thread may read it.
class save_progress {
 public:
  /// Bytes written so far, and the size of all files, which is 0 until the layout is known.
  std::uint64_t bytes() const noexcept { return bytes_.load(); }
  std::uint64_t bytes_total() const noexcept { return bytes_total_.load(); }

  // For use by the library.
  void add(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  void set_total(std::uint64_t bytes) noexcept { bytes_total_ = bytes; }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> bytes_total_ = 0;
};

/// The options of a save.
struct RINGLOAD_EXPORT save_options {
  save_options();
  save_options(const save_options& source);
  save_options(save_options&& source) noexcept;
  save_options& operator=(const save_options& source);
  save_options& operator=(save_options&& source) noexcept;
  ~save_options();

  save_format format = save_format::by_name;
  /// Entries of `__metadata__` in this order, in each shard. In .zt they are attributes of the
  /// file. Keys must be unique.
  std::vector<std::pair<std::string, std::string>> metadata;
  tensor_order order = tensor_order::reference;

  /// The alignment of the first tensor in its file: 8, as in the reference, or a larger power of
  /// two up to 2 MiB. If the alignment is 4,096 or more, and `order` is `reference`, tensors whose
  /// size is a multiple of 4,096 bytes come first. All these tensors then begin at a multiple of
  /// 4,096, so loads read them directly into their final memory. The format allows no gaps, so
  /// every other tensor begins at the end of the previous tensor. Those offsets are aligned for the
  /// type only in the reference order. In .zt all tensors begin at multiples of the alignment, and
  /// at least of 64.
  std::uint32_t alignment = 8;

  /// Shards in a folder, named as in transformers: model-00001-of-00003.safetensors and
  /// model.safetensors.index.json. `shard_bytes` limits the tensor bytes of a shard, except for a
  /// single tensor that is larger, and the number of shards is minimal. `shards` is the number of
  /// shards. Tensors are distributed evenly, the largest first. If both are 0, or one shard is
  /// enough, one file is written. At most one of both may be set.
  std::uint64_t shard_bytes = 0;
  std::uint32_t shard_count = 0;

  /// Converts elements to this type, which must be one of the types below. Without `converts`,
  /// tensors of f64, f32, f16, bf16, f8_e4m3fn and f8_e5m2 are converted. The rounding is described
  /// at `fill_options::dtype`.
  std::optional<ringload::dtype> dtype;
  /// Selects the tensors to convert. A selected tensor must be of bool, an integer type of 8 to 64
  /// bits, or a type above, else `errc::unsupported_dtype`. Called in a thread of the library.
  std::function<bool(const tensor_ref&)> converts;

  /// Whether an existing target is replaced; otherwise `EEXIST`. A file is replaced only by a file.
  /// A folder is replaced only by a folder, if the existing folder is empty or holds nothing but a
  /// checkpoint.
  bool replace = true;
  /// Flushes files and folder to the drive before completion. Without the flush, a power failure
  /// may leave less data than before the save. A killed process cannot cause this.
  bool sync = true;
  /// Reads the written bytes back and compares them. Bytes that were written past the page cache
  /// are read past the page cache. A difference is `errc::read_back_differs`.
  bool read_back = false;

  /// Computes the digests of all saved tensors in `save_result::digests`, for a manifest.
  std::optional<digest_algorithm> digest;
  /// Creates a SHA-256 hasher, as `manifest::sha256` does.
  std::function<hasher()> sha256;

  std::shared_ptr<save_progress> progress;  // Updated during the save; may be null.
};

/// The result of a save.
struct save_result {
  std::vector<std::string> files;      // Paths in order; an index is the last.
  std::uint64_t bytes = 0;             // Size of all files.
  std::vector<tensor_digest> digests;  // In input order.

  std::uint64_t bytes_direct = 0;  // Written with O_DIRECT. All other bytes use the page cache.
  /// Part of `bytes_direct` that was written from tensor memory without a copy.
  std::uint64_t bytes_straight = 0;
  std::uint64_t writes = 0;
  double seconds = 0;        // From the call to the end.
  std::string route_reason;  // Reason why no write was direct; else empty.
};

}  // namespace ringload::inline v0
