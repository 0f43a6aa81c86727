// SPDX-License-Identifier: Apache-2.0
#pragma once

// Saves tensors as a checkpoint: what `loader::save_async` takes and gives.

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

/// A tensor in memory, to be saved under a name. The memory is only read. It must not change until
/// the save is over.
struct RINGLOAD_EXPORT tensor_ref {
  tensor_ref();
  /// Row-major and dense, in the memory of `on`.
  tensor_ref(std::string name, const void* data, ringload::dtype dtype,
             std::vector<std::uint64_t> shape, ringload::device on = host());
  /// A loaded tensor, which is kept alive; under its own name, or another.
  tensor_ref(const tensor& of);  // Not explicit: a tensor is one to be saved as it is.
  tensor_ref(std::string name, const tensor& of);
  tensor_ref(const tensor_ref& other);
  tensor_ref(tensor_ref&& other) noexcept;
  tensor_ref& operator=(const tensor_ref& other);
  tensor_ref& operator=(tensor_ref&& other) noexcept;
  ~tensor_ref();

  std::string name;
  const void* data = nullptr;  // Of the element at index 0 in every dimension.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  /// In elements, by dimension; may be 0 or negative. Empty: row-major without gaps, which types of
  /// less than a byte always are.
  std::vector<std::int64_t> strides;
  std::uint64_t bytes = 0;  // The size of the memory, to be checked; 0: unchecked.
  ringload::device on = host();
  /// Kept alive until the save is over; if null, the caller must keep `data` valid.
  std::shared_ptr<const void> owner;
};

/// The tensor that DLPack describes, under that name. Its `deleter` is called when the last copy of
/// the view is gone, also when this throws: `errc::unsupported_dtype` for a type that is not
/// supported, `errc::device_unavailable` if the memory is neither the host's nor that of `cuda`,
/// the device for CUDA memory.
///
/// All work of the producer's streams on the tensor must have completed.
RINGLOAD_EXPORT tensor_ref view_of(std::string name, dlpack::managed_tensor_versioned* from,
                                   device cuda = host());
RINGLOAD_EXPORT tensor_ref view_of(std::string name, dlpack::managed_tensor* from,
                                   device cuda = host());

/// All tensors of a model, under their own names.
RINGLOAD_EXPORT std::vector<tensor_ref> refs_of(const model& all);

/// What is written.
enum class save_format : std::uint8_t {
  by_name,      // By the path: "x.safetensors" is one such file, and "x.zt" one of .zt. A path that
                // ends with '/', is a folder, or has no '.' in its last part is a folder of
                // safetensors.
  safetensors,  // One file, if the path ends with ".safetensors"; else a folder of them.
  /// One .zt file, stored raw and in the order given. Tensors that are the same memory, of the same
  /// type and as many elements, are written once: each other one is a second name for those bytes.
  /// (safetensors has no second names: it gets them as often as they are given.) For compression,
  /// digests in the file, and sparse objects there is `writer`.
  zt,
};

/// The order of tensors in a file.
enum class tensor_order : std::uint8_t {  // Of safetensors.
  reference,  // As the safetensors package writes: by alignment of the type, descending, then name.
  given,
};

/// How far a save has come. Any thread may ask.
class save_progress {
 public:
  /// That are in the files already, and of all files; the latter is 0 until the layout is made.
  std::uint64_t bytes() const noexcept { return bytes_.load(); }
  std::uint64_t bytes_total() const noexcept { return bytes_total_.load(); }

  // For the library.
  void add(std::uint64_t bytes) noexcept { bytes_ += bytes; }
  void set_total(std::uint64_t bytes) noexcept { bytes_total_ = bytes; }

 private:
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> bytes_total_ = 0;
};

/// How tensors are saved.
struct RINGLOAD_EXPORT save_options {
  save_options();
  save_options(const save_options& other);
  save_options(save_options&& other) noexcept;
  save_options& operator=(const save_options& other);
  save_options& operator=(save_options&& other) noexcept;
  ~save_options();

  save_format format = save_format::by_name;
  /// Text for `__metadata__`, in this order; in each shard. In .zt, attributes of the file. No key
  /// twice.
  std::vector<std::pair<std::string, std::string>> metadata;
  tensor_order order = tensor_order::reference;

  /// Of the first tensor in its file: 8, as the reference has it, or a larger power of two up to
  /// 2 MiB. With one of 4,096 or more, and `order` as the reference's, tensors that are a multiple
  /// of 4,096 bytes long come first. These then all begin at a multiple of 4,096, so loads read
  /// them straight to where they go. (The format allows no gaps, so the others begin where the one
  /// before ends; by a type's size they are aligned in the reference's order only.) In .zt all
  /// tensors begin at multiples of it, and at least of 64.
  std::uint32_t alignment = 8;

  /// Shards, in a folder, as transformers names them: model-00001-of-00003.safetensors and
  /// model.safetensors.index.json. As few as hold at most so many bytes of tensors each, but for
  /// one tensor that is larger; or so many. Tensors are spread evenly, the largest first. 0 and 0,
  /// or only one shard: one file. Not both.
  std::uint64_t shard_bytes = 0;
  std::uint32_t shard_count = 0;

  /// Converts elements to this type, which must be one of those below. Without `converts`: tensors
  /// of f64, f32, f16, bf16, f8_e4m3fn and f8_e5m2. Rounded as `fill_options::dtype` says.
  std::optional<ringload::dtype> dtype;
  /// Selects which tensors are converted; `errc::unsupported_dtype` for one that is not of bool, an
  /// integer type of 8 to 64 bits, or those above. Called in a thread of the library.
  std::function<bool(const tensor_ref&)> converts;

  /// Whether what is there under that path is replaced; else `EEXIST`. A file only by a file; a
  /// folder by a folder, and only if it is empty or holds nothing but a checkpoint.
  bool replace = true;
  /// Flushes files and folder to the drive before it completes. Without it a power failure may
  /// leave less than was there before; a killed process does not.
  bool sync = true;
  /// Reads what was written back, past the page cache where it was written so, and compares it;
  /// `errc::read_back_differs`.
  bool read_back = false;

  /// The digests of all tensors, as saved, in `save_result::digests`: for a manifest.
  std::optional<digest_algorithm> digest;
  /// Makes a SHA-256 hasher, as in `manifest::sha256`.
  std::function<hasher()> sha256;

  std::shared_ptr<save_progress> progress;  // To be kept up to date; null: nobody asks.
};

/// The result of a save.
struct save_result {
  std::vector<std::string> files;      // Their paths, in order; an index is the last.
  std::uint64_t bytes = 0;             // Of all files.
  std::vector<tensor_digest> digests;  // In the order given.

  std::uint64_t bytes_direct = 0;    // Written with O_DIRECT; the others through the page cache.
  std::uint64_t bytes_straight = 0;  // Of these, written from the tensors' memory without a copy.
  std::uint64_t writes = 0;
  double seconds = 0;        // From the call to the end.
  std::string route_reason;  // Why nothing was written directly; else empty.
};

}  // namespace ringload::inline v0
