// SPDX-License-Identifier: Apache-2.0
#pragma once

// The limits of a loader and the options of a load. The structs are trivially destructible on
// purpose: g++ 12 destroys other aggregates twice if they are named inside a co_await expression.

#include <cstdint>
#include <limits>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <ringload/trace.hpp>
#include <ringload/verify.hpp>

namespace ringload::inline v0 {

/// The mechanism that reads the files.
enum class read_engine : std::uint8_t {
  automatic,  // io_uring if it works, else threads. `load_stats` has the choice and its reason.
  ring,       // io_uring. If it does not work, the constructor throws `errc::engine_unavailable`.
  threads,    // A pool of threads that call pread.
};

/// The route of reads: through the page cache, or past it.
enum class read_route : std::uint8_t {
  automatic,  // Per read: buffered if the page cache has the bytes already, else direct.
  direct,     // O_DIRECT for every byte, or the load fails with `errc::direct_unavailable`.
  buffered,   // Through the page cache.
};

/// The page size of host memory. An administrator reserves huge pages (`vm.nr_hugepages`) for a
/// particular program, such as a database or DPDK. Therefore reserved pages are used only on
/// request.
enum class huge_pages : std::uint8_t {
  transparent,  // Huge pages if the kernel has some, but never reserved pages.
  reserved,     // Slots use reserved 2 MiB pages, else `transparent`; `load_stats` has the reason.
                // Tensors use `transparent`, except tensors of `shared_host()`.
  none,         // Small pages only.
};

/// Which tensors of a load share an allocation. An allocation is freed as a whole, with its last
/// tensor.
enum class allocation : std::uint8_t {
  per_load,
  per_file,
  per_tensor,
};

/// The memory of tensors.
enum class tensor_memory : std::uint8_t {
  owned,   // The load allocates memory and reads the tensors into it.
  mapped,  // Tensors are mapped from their files: see load_options::memory.
};

enum class mapped_access : std::uint8_t {
  read_only,      // Writing to a tensor is an access violation.
  copy_on_write,  // A page is copied on the first write. The file does not change.
};

enum class on_unmappable : std::uint8_t {
  refuse,  // The load fails with errc::not_mappable, which names the tensor and the reason.
  copy,    // The tensor is loaded into memory, as with `owned`.
};

/// The initial number of bytes in flight if `loader_options::bytes_in_flight` is 0.
inline constexpr std::uint64_t bytes_in_flight_at_first = std::uint64_t{32} << 20;

/// The limits of a loader, for checkpoints of any size.
struct loader_options {
  /// The number of pinned buffers, 1 to 1,024. Each read in flight needs a slot, so this is also
  /// the maximum number of reads in flight. The memory of a slot is allocated on first use and
  /// freed with the loader. 0: 16, or 32 for a GPU, because a copy to the GPU holds the slot about
  /// as long as the read.
  std::uint32_t slots = 0;
  /// The size of one slot, and so of the largest read: a power of two, 64 KiB to 64 MiB. A loader
  /// pins at most `slots * slot_bytes`. On a GPU, each thread that copies tensors back to the host,
  /// as checks do, pins 2 MiB more.
  std::uint64_t slot_bytes = std::uint64_t{4} << 20;
  /// The queue depth in bytes: the limit of direct io_uring reads in flight per drive, for all
  /// loads together. Buffered reads are limited by `copy_threads`, and reads by threads by
  /// `reader_threads`. A higher limit than the drive needs costs latency, and on some drives
  /// throughput. One read is always allowed. 0: the loader tunes the limit while loading, between
  /// two slots and all slots. It raises the limit while throughput increases, and lowers the limit
  /// while throughput does not decrease.
  std::uint64_t bytes_in_flight = 0;
  /// The limit of device memory for the tensors of one load, over all allocations and all devices.
  /// Mapped files do not count.
  std::uint64_t arena_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// Bytes of freed tensor memory that each device keeps in a free list for the next loads. A load
  /// reuses an allocation that is at most a quarter too large. Reused memory is not zeroed, so
  /// padding between tensors may contain bytes of an earlier load. Reuse saves the time in which
  /// the kernel zeroes new pages. GPU memory is kept only after release() or release_after() of
  /// `ringload/cuda.hpp`, because work on the GPU may still use it. 0: memory is freed at once.
  std::uint64_t cached_bytes = 0;
  /// The number of threads that copy from the page cache and populate host memory: 1 to 64. More
  /// than two threads help even on two processors. The loader uses as many additional threads for
  /// decompression, but at most as many as there are processors. 0: 3, or for a GPU half of the
  /// processors, 3 to 8: as many threads saturate the link to the GPU.
  std::uint32_t copy_threads = 0;
  /// The number of threads that read if io_uring is not available: 1 to 64.
  std::uint32_t reader_threads = 8;
  read_engine engine = read_engine::automatic;
  ringload::huge_pages huge_pages = ringload::huge_pages::transparent;
};

/// Returns the limits of a loader for a device of this kind: `limits`, with each 0 in `slots` and
/// `copy_threads` replaced by the default for this device.
RINGLOAD_EXPORT loader_options chosen_options(const loader_options& limits,
                                              device_kind kind) noexcept;

/// The options of one load.
struct load_options {
  ringload::strictness strictness = ringload::strictness::strict;
  unnamed_dtypes nameless = {};
  read_route route = read_route::automatic;

  /// Converts tensors of f64, f32, f16, bf16, f8_e4m3fn and f8_e5m2 to this type while loading. The
  /// type must be f32, f16 or bf16, else `errc::unsupported_dtype`. f64 is converted in host memory
  /// only: on a GPU it is `errc::unsupported_dtype`. GGUF blocks from q4_0 to q8_k, iq4_nl, iq4_xs
  /// and mxfp4 are dequantised with the results of the reference library: such a tensor has
  /// `tensor_info::original_shape`. Other block types and packed element types are
  /// `errc::unsupported_dtype`. All other tensors, such as integer tensors, are loaded unchanged,
  /// and `catalog::notes` of the model has their number. `tensor::dtype` is the type after
  /// conversion. The catalog has the type in the file.
  ///
  /// A number is rounded once, to nearest, ties to even. Subnormal numbers are rounded too. A
  /// number that exceeds the largest finite number by half a step or more becomes infinity, such as
  /// 65,520 as f16. Infinities and the sign of 0 are kept. A NaN becomes the quiet NaN with the
  /// same sign and without payload: 0x7FC00000, 0x7E00 or 0x7FC0. If a block is converted to f32,
  /// the NaN is the NaN that the reference library makes on x86-64. Every device produces the same
  /// bits.
  std::optional<ringload::dtype> dtype = std::nullopt;

  /// Selects the tensors to convert; null: all. The function is called once for each convertible
  /// tensor, with `converts_with`, in a thread of the library, before the first read. If the
  /// function throws, the load fails.
  bool (*converts)(const tensor_info& tensor, void* context) = nullptr;
  void* converts_with = nullptr;  // Must live until the load has started or failed.

  /// Limits the device memory of tensors that the program holds, for a model that does not fit in
  /// the device's memory. 0: the whole model is loaded at once. A window requires
  /// `loader::start_async`. `next_async` then returns the tensors in the order of the checkpoint.
  /// When the program drops tensors, their memory is reused, and reading continues at the next
  /// call. Neighbouring tensors share memory, up to a sixteenth of the window. Whole pages count:
  /// each tensor may need 8 KiB beside its bytes. Shared memory is a multiple of 4 KiB. On a GPU,
  /// with `loader_options::cached_bytes` and on reserved pages, it is a multiple of 2 MiB. A tensor
  /// that is larger than the window is `errc::memory_exceeded`. A window that is full of held
  /// tensors is `errc::memory_exceeded` too, but then the next call may succeed. Such a load has no
  /// model, and its tensors cannot be requested by name.
  std::uint64_t window_bytes = 0;

  /// With `per_file`, a fused tensor is allocated with its first part. With `per_tensor`, the host
  /// allocates whole pages for tensors of 64 KiB and more. A GPU uses one cudaMalloc for each
  /// tensor, which takes at least 2 MiB from the device. Loads of many tensors then take longer to
  /// begin and to free.
  ringload::allocation allocation = ringload::allocation::per_load;

  /// With `mapped`, tensors are mapped from their files in host memory. Nothing is read or copied,
  /// and pages are read on first use. `unmappable` decides about tensors that cannot be mapped:
  /// tensors that are converted, compressed, byte-swapped, fused or transposed, tensors that are
  /// sliced in another than the first dimension, and tensors whose offset in the file is not
  /// aligned for their element type. No tensor can be mapped unless the only device of the loader
  /// is the host (`errc::device_unavailable`).
  ///
  /// A mapped tensor depends on its file. If the file is written to, the tensor may change, before
  /// or after a check against a manifest. If the file is truncated, or its drive fails, an access
  /// to a missing page raises SIGBUS, which ends the process. This includes accesses of the
  /// library, for `verify` and copy_async. Map only files that are never modified in place.
  /// Replacing a file by renaming another file onto it is safe.
  ///
  /// Each file needs a mapping, or each tensor with `allocation::per_tensor`. Linux allows a
  /// process 65,530 mappings (vm.max_map_count). Mapping with a window, or in a fill, is
  /// `errc::invalid_options`.
  tensor_memory memory = tensor_memory::owned;
  mapped_access access = mapped_access::read_only;
  on_unmappable unmappable = on_unmappable::refuse;
  /// For mapped tensors: the copy threads read the pages in advance, and a tensor is loaded when
  /// its pages are present. A file that is truncated meanwhile is then `errc::truncated_file`.
  /// Requires Linux 5.14.
  bool populate = false;

  /// The digests that the tensors must have: digests of a manifest (`verify = &manifest`), digests
  /// in the files (`verify = embedded_digests::if_present`), or both. By default nothing is
  /// checked. A manifest is copied when the operation is initiated, so it must live until then.
  /// With `deferred`, it must live until the deferred operation starts. A manifest has digests of
  /// the bytes in the files, so converted tensors cannot be checked against it:
  /// `errc::digest_unavailable`. Digests in the files are digests of the stored bytes, so
  /// conversions do not matter.
  verification verify = {};

  /// Called for each step of the load: see `trace_event`. Null: no tracing, and no cost.
  trace_function trace = nullptr;
  void* trace_with = nullptr;  // Must live as long as the load, at most as long as the loader.
};

}  // namespace ringload::inline v0
