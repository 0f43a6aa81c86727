// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arguments and the result of `loader::save_async`, which saves tensors as a checkpoint. The
// path may be the name of one object of a store, such as "s3://bucket/model.safetensors", if the
// loader has an extension for the store: see <ringload/remote.hpp>.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/detail/list_argument.hpp>
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

/// A tensor in memory that will be saved under a name. The save only reads the memory. The caller
/// must not change the memory until the save completes.
struct RINGLOAD_EXPORT tensor_ref {
  tensor_ref() {}
  /// Describes a row-major, dense tensor in the memory of `device`.
  tensor_ref(std::string name, const void* data, ringload::dtype dtype,
             detail::list_argument<std::uint64_t> shape, ringload::device device = host());
  /// Refers to a loaded tensor under its own name. The tensor_ref keeps the tensor alive.
  tensor_ref(const tensor& source);  // Implicit, so that a tensor can be passed as a tensor_ref.
  /// Refers to a loaded tensor under another name. The tensor_ref keeps the tensor alive.
  tensor_ref(std::string name, const tensor& source);

  std::string name;                   // The name of the tensor in the checkpoint.
  const void* data = nullptr;         // The element whose index is 0 in every dimension.
  ringload::dtype dtype = dtype::u8;  // The type of the elements in memory.
  std::vector<std::uint64_t> shape;   // The sizes of the dimensions, outermost first.
  /// The strides in elements, one for each dimension. A stride may be 0 or negative. Empty means
  /// row-major without gaps. A tensor with elements of less than 8 bits must be row-major without
  /// gaps.
  std::vector<std::int64_t> strides;
  /// The size of the memory. If the shape and the strides need more bytes, the save fails. 0 means
  /// no check.
  std::uint64_t bytes = 0;
  /// The device of the memory.
  ringload::device device = host();
  /// An object that the save keeps alive until completion. If null, the caller must keep `data`
  /// valid.
  std::shared_ptr<const void> owner;
};

/// Returns a tensor_ref for the memory of the DLPack tensor `from`. The `deleter` of `from` is
/// called when the last copy of the tensor_ref is destroyed, and also if this function throws. All
/// work that writes to the tensor must have completed before the call. For a tensor in CUDA memory,
/// the caller must pass the device as `cuda`. For a tensor in host memory, `cuda` is ignored.
///
/// Throws `errc::unsupported_dtype` if the type is not supported. Throws `errc::device_unavailable`
/// if the memory is neither host memory nor memory of the device `cuda`.
RINGLOAD_EXPORT tensor_ref view_of(std::string name, dlpack::managed_tensor_versioned* from,
                                   device cuda = host());
/// Returns a tensor_ref for a tensor of DLPack 0.x.
RINGLOAD_EXPORT tensor_ref view_of(std::string name, dlpack::managed_tensor* from,
                                   device cuda = host());

/// Returns a tensor_ref for each tensor of a model, under the tensor's own name.
///
/// A tensor_ref has no logical type. Therefore a save of these tensors stores quantised blocks as
/// bytes, without `tensor_info::type` and `original_shape`, and stores no composites and
/// attributes. To keep the types, composites and attributes, write a .zt file with `writer`: see
/// object_options::attributes and declare_async().
RINGLOAD_EXPORT std::vector<tensor_ref> refs_of(const model& source);

/// The format of the output.
enum class save_format : std::uint8_t {
  /// The path determines the format. "x.safetensors" is one safetensors file. "x.zt" is one .zt
  /// file. The output is a folder of safetensors files if the path ends with '/', names an existing
  /// folder, or has no '.' in its last part. For any other path, the save fails with
  /// `errc::invalid_saving`.
  by_name,
  safetensors,  // One file if the path ends with ".safetensors", else a folder of files.
  /// One .zt file without compression, in input order. Several dense tensors with the same memory,
  /// type and number of elements are written once. Each further tensor is a second name for the
  /// same bytes. safetensors does not support second names, so a safetensors file stores the bytes
  /// once for each name. Use `writer` for compression, digests in the file and sparse objects.
  zt,
};

/// The order of tensors in a safetensors file.
enum class tensor_order : std::uint8_t {
  /// The order of the safetensors package: sorted by descending alignment of the type. Tensors of
  /// the same alignment are sorted by name.
  reference,
  /// The order in which the caller lists the tensors.
  given,
};

/// The progress of a save. Thread-safe.
class save_progress {
 public:
  /// Returns the number of bytes written so far.
  std::uint64_t bytes() const noexcept { return bytes_.load(); }
  /// Returns the total size of all files. The total is 0 until the sizes are known.
  std::uint64_t bytes_total() const noexcept { return bytes_total_.load(); }

  /// Internal: called by the library only.
  void add(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  /// Internal: called by the library only.
  void set_total(std::uint64_t bytes) noexcept { bytes_total_ = bytes; }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> bytes_total_ = 0;
};

/// Options of a save.
struct save_options {
  RINGLOAD_OPTION_STRUCT(save_options)

  save_format format = save_format::by_name;  // The format of the output.
  /// Entries of `__metadata__` in each safetensors file, in this order. In .zt, the entries are
  /// attributes of the file. Keys must be unique.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  tensor_order order = tensor_order::reference;  // The order of tensors in safetensors files.

  /// The alignment of the first tensor in each file: 8, as in the safetensors package, or a larger
  /// power of two up to 2 MiB.
  ///
  /// With an alignment of 4,096 or more, and with the order `reference`, tensors whose size is a
  /// multiple of 4,096 bytes are stored first. Each of these tensors begins at a multiple of 4,096.
  /// Therefore a load can read these tensors directly into their final memory. safetensors allows
  /// no gaps, so every other tensor begins where the previous tensor ends. With the order `given`,
  /// the offset of a tensor may be unaligned for its type.
  ///
  /// In .zt, every tensor begins at a multiple of the alignment. In .zt, an alignment below 64
  /// means 64.
  std::uint32_t alignment = 8;

  /// Divides the output into several files (shards) in a folder. The names are the same as in the
  /// transformers package: model-00001-of-00003.safetensors, and model.safetensors.index.json.
  ///
  /// `shard_bytes` limits the bytes of the tensors in one shard. Only a shard with a single tensor
  /// may be larger. The number of shards is small, but not always the smallest possible. At most
  /// one of `shard_bytes` and `shard_count` may be set. If both options are 0, or if one shard is
  /// enough, the save writes one file.
  std::uint64_t shard_bytes = 0;
  /// The number of shards. The save writes fewer shards if a shard would be empty. The tensors are
  /// distributed evenly, largest tensor first.
  std::uint32_t shard_count = 0;

  /// Converts tensors to this type. The type must be f64, f32, f16, bf16, f8_e4m3fn or f8_e5m2. If
  /// `converts` is empty, only tensors of these six types are converted. `fill_options::dtype`
  /// describes the rounding.
  std::optional<ringload::dtype> dtype = {};
  /// Returns true if the tensor must be converted. If so, `tensor_ref::dtype` must be one of the
  /// six types, bool, or an integer type of 8 to 64 bits. Otherwise the save fails with
  /// `errc::unsupported_dtype`. Called in a thread of the library.
  std::function<bool(const tensor_ref&)> converts = {};

  /// If true, the output may replace an existing target. If false and the target exists, the save
  /// fails with `EEXIST`. A file can replace only a file. A folder can replace only a folder that
  /// is empty or contains only files with names like the outputs of a save, such as
  /// model.safetensors.
  bool replace = true;
  /// If true, the files and their folder are flushed to the drive before completion. Without the
  /// flush, a power failure may destroy the output and the previous target. A crash of the process
  /// destroys neither.
  bool sync = true;
  /// If true, the save reads the written bytes back and compares them with the original bytes.
  /// Bytes that were written with O_DIRECT are also read with O_DIRECT. If the bytes differ, the
  /// save fails with `errc::read_back_differs`. Not supported for objects of a store.
  bool read_back = false;

  /// If set, `save_result::digests` receives a digest of each saved tensor, for a checksum list.
  std::optional<digest_algorithm> digest = {};
  /// Creates a hasher for SHA-256, as `checksum_list::sha256` does. Required for SHA-256 digests.
  std::function<hasher()> sha256 = {};

  std::shared_ptr<save_progress> progress = {};  // If set, the save updates this object.
};

/// The result of a save.
struct save_result {
  std::vector<std::string> files;      // The paths of the files, in order. An index file is last.
  std::uint64_t bytes = 0;             // The total size of all files.
  std::vector<tensor_digest> digests;  // The digests of the tensors, in input order.

  /// Bytes that were written with O_DIRECT. All other bytes were written through the page cache.
  std::uint64_t bytes_direct = 0;
  /// The part of `bytes_direct` that was written from the memory of a tensor without a copy.
  std::uint64_t bytes_unstaged = 0;
  /// The number of write operations.
  std::uint64_t writes = 0;
  double seconds = 0;  // The time from the call to completion.
  /// The reason why the system refused direct writes. Empty if no direct write was refused.
  std::string route_reason;
};

}  // namespace ringload::inline v0
