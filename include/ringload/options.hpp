// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options of a loader, and options for opening and loading a checkpoint.

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/device.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <ringload/selection.hpp>
#include <ringload/trace.hpp>
#include <ringload/verify.hpp>

namespace ringload::inline v0 {

/// How a loader reads files.
enum class read_engine : std::uint8_t {
  /// Uses io_uring if io_uring works on this system, and otherwise threads. `load_stats` contains
  /// the chosen engine and the reason.
  automatic,
  /// Uses io_uring. The loader's constructor throws `errc::engine_unavailable` if io_uring fails.
  ring,
  threads,  // Uses a pool of threads that call pread.
};

/// Whether reads use the page cache.
enum class read_route : std::uint8_t {
  /// The loader decides for each read. The read is buffered if the page cache has at least nine
  /// tenths of the bytes, has the first and the last 64 KiB, or has dirty pages in the range.
  /// Otherwise, and if the kernel does not support cachestat (Linux 6.5), the read is direct.
  automatic,
  /// Uses O_DIRECT for every read. If this is impossible, the load fails with
  /// `errc::direct_unavailable`.
  direct,
  buffered,  // Reads through the page cache.
};

/// The page size of host memory. Reserved huge pages (`vm.nr_hugepages`) are used only on request,
/// because an administrator usually reserves these pages for one program, such as a database.
enum class huge_pages : std::uint8_t {
  /// Uses transparent huge pages if the kernel provides them. Never uses reserved pages.
  transparent,
  /// Allocates slots, and tensors of `shared_host()`, in reserved 2 MiB pages. All other tensors
  /// are allocated as with `transparent`. If too few reserved pages are free, slots and tensors are
  /// allocated as with `transparent`. If `slot_bytes` is less than 2 MiB, the slots do not use
  /// reserved pages either. `load_stats::page_kind_reason` contains the reason why the slots do not
  /// use reserved pages.
  reserved,
  none,  // Uses small pages only.
};

/// The unit of allocation: tensors in the same unit share one allocation. An allocation is freed
/// when its last tensor is destroyed.
enum class allocation : std::uint8_t {
  per_load,    // One allocation for all tensors of the load.
  per_file,    // One allocation for the tensors of each file.
  per_tensor,  // One allocation for each tensor.
};

/// The memory of loaded tensors.
enum class tensor_memory : std::uint8_t {
  owned,   // The load allocates memory and reads the tensors into this memory.
  mapped,  // Tensors are mapped from their files: see `load_options::memory`.
};

/// Whether a program may write to mapped tensors.
enum class mapped_access : std::uint8_t {
  read_only,      // A write to a tensor raises SIGSEGV.
  copy_on_write,  // The first write to a page copies the page. The file does not change.
};

/// The action for a tensor that cannot be mapped.
enum class on_unmappable : std::uint8_t {
  refuse,  // The load fails with `errc::not_mappable`. The error names the tensor and the reason.
  copy,    // The tensor is loaded into memory, as with `owned`.
};

/// Whether to use GPUDirect Storage, which reads from a drive into GPU memory without host memory.
///
/// GPUDirect Storage requires the CUDA library libcufile.so.0, and a loader whose only device is a
/// GPU. The drive, the file system and the driver must support GPUDirect Storage too. The library
/// cuFile also has a compatibility mode, which reads through host memory. The loader does not use
/// the compatibility mode. A loader with `automatic` or `required` disables this mode for the whole
/// process, before the loader opens the driver of cuFile. The process must not fork afterwards.
enum class gpu_direct : std::uint8_t {
  /// Reads through host memory.
  off,
  /// Uses GPUDirect Storage for direct reads of uncompressed data, if GPUDirect Storage works on
  /// this system. Otherwise `load_stats` contains the reason.
  automatic,
  /// Uses GPUDirect Storage for all uncompressed data. A load fails with `errc::direct_unavailable`
  /// if a read of this data cannot use GPUDirect Storage. The loader's constructor throws
  /// `errc::device_unavailable` if the device or the machine does not support GPUDirect Storage.
  required,
};

/// If `loader_options::bytes_in_flight` is 0, the loader tunes the limit for the bytes in flight.
/// This constant is the first value of the limit, if the value is at least the size of two slots
/// and at most the size of all slots. For a network file system or FUSE, the limit starts with the
/// size of all slots.
inline constexpr std::uint64_t bytes_in_flight_at_first = std::uint64_t{32} << 20;

/// Limits and resources of a loader. No limit depends on the size of a checkpoint.
struct loader_options {
  /// The number of slots, 1 to 1,024. A slot is a pinned buffer. Each read in flight needs one
  /// slot, so this number also limits the reads in flight. A slot is allocated on first use and
  /// freed with the loader. If all devices are GPUs and GPUDirect Storage is not used, the first
  /// load allocates all slots.
  ///
  /// 0 means 16 slots for the host, or 32 for each GPU, but at most 128. A loader for the host uses
  /// up to 64 slots if a network file system or FUSE has a high latency. The loader uses fewer
  /// slots if little memory is available. GPUs need more slots, because a copy to a GPU occupies
  /// the slot about as long as the read.
  std::uint32_t slots = 0;
  /// The size of one slot: a power of two, 64 KiB to 64 MiB. No read is larger than a slot. The
  /// slots of a loader use at most `slots * slot_bytes` of pinned memory.
  ///
  /// A loader with a GPU pins additional memory. Each thread that copies tensors back to the host,
  /// for example to verify digests, pins 2 MiB. Each thread that decompresses pins 2 MiB.
  std::uint64_t slot_bytes = std::uint64_t{4} << 20;
  /// The limit for the bytes of direct io_uring reads in flight on one drive, over all loads. A
  /// read that is larger than the limit may run if no other read is in flight. A limit that is too
  /// high increases latency, and reduces throughput on some drives. `copy_threads` limits buffered
  /// reads. `reader_threads` limits reads by threads.
  ///
  /// If 0, the loader tunes the limit during loads. The limit is at least the size of two slots and
  /// at most the size of all slots. The loader doubles the limit if a doubled limit increases the
  /// throughput. The loader halves the limit if a halved limit does not decrease the throughput.
  std::uint64_t bytes_in_flight = 0;
  /// The limit for the bytes per second that all loads of the loader read from files and from
  /// stores. 0 means no limit. After the start of a read, the next read waits for a time: the
  /// bytes of the read, divided by this limit. So smaller slots make the rate more even. Headers,
  /// mapped files and `loader::copy_async` do not count. The pages that `load_options::populate`
  /// reads do not count either.
  std::uint64_t bytes_per_second_max = 0;
  /// The limit for the memory that one load allocates for its tensors, in host and GPU memory
  /// together. Mapped files do not count.
  std::uint64_t arena_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// The maximum number of bytes of freed tensor memory that each device keeps in a free list, for
  /// later loads. If 0, memory is freed at once. Host allocations of less than 2 MiB, and memory of
  /// `shared_host()` and `shared_cuda_device()`, are always freed at once. Reuse saves the time in
  /// which the kernel zeroes new pages.
  ///
  /// A load can reuse an allocation that is at most a quarter larger than needed. Reused memory is
  /// not zeroed, so the padding between tensors may contain bytes of an earlier load. GPU memory is
  /// kept only if the program has called release() or release_after() of `ringload/cuda.hpp`.
  /// Without this call, work on the GPU may still use the memory. If work that was declared with
  /// release_after() still uses kept memory, a load allocates new memory instead of waiting. If the
  /// device has no free memory, the load waits for at most 5 seconds, and then fails with
  /// `memory_exceeded`.
  std::uint64_t cached_bytes = 0;
  /// The number of threads that copy from the page cache and populate host memory, 1 to 64. The
  /// loader creates the same number of threads for decompression, but at most one for each
  /// processor.
  ///
  /// 0 means 3 threads for the host, because three threads are faster than two even on two
  /// processors. For GPUs, 0 means half of the processors, but at least 3 threads, at most 8 for
  /// each GPU, and at most 32 in total. Eight threads saturate the link to one GPU. With one GPU,
  /// the threads run on the GPU's NUMA node if the node has at least one processor for each thread.
  std::uint32_t copy_threads = 0;
  /// The number of threads that read files if io_uring is not used, 1 to 64. If io_uring is not
  /// used, these threads also copy and populate memory, and the loader creates no copy threads.
  std::uint32_t reader_threads = 8;
  read_engine engine = read_engine::automatic;  // How the loader reads files.
  /// The page size of host memory.
  ringload::huge_pages huge_pages = ringload::huge_pages::transparent;
  /// With `automatic` or `required`, the loader allocates `slots * slot_bytes` of GPU memory in
  /// addition to the pinned host memory. The default is `off`, because GPUDirect Storage has not
  /// been tested with ringload on a GPU yet.
  ringload::gpu_direct gpu_direct = ringload::gpu_direct::off;
  /// If true, a GPU may copy a replicated tensor from another GPU of the loader. If false, or if
  /// the machine does not connect the two GPUs, each GPU copies the tensor from host memory. Before
  /// the first copy between two GPUs, the loader sends 64 KiB from one GPU to the other and
  /// compares the bytes. If the bytes differ, the loader copies from host memory. The comparison is
  /// necessary because, on some machines with an IOMMU, copies between GPUs deliver wrong bytes
  /// without an error.
  bool peer_copies = true;
  /// The time for which a cancelled or failed load waits for its reads in flight. On a mount that
  /// does not answer, a read may never end. Therefore the operations of the load complete after
  /// this time. The memory and the files of the load are released when the last read ends.
  ///
  /// A fill also waits until no read, copy or check uses a destination, because the destinations
  /// are memory of the caller. Reads from a network file system or FUSE do not write to the
  /// destinations of a fill directly, so after this time a fill does not wait for these reads. A
  /// fill that still opens its source waits without a limit, because the thread that opens the
  /// source may write to the destinations. A cancelled or failed `loader::copy_async` always waits
  /// until its accesses to the tensor end.
  std::chrono::milliseconds stop_time_max = std::chrono::seconds(5);
};

/// Returns a copy of `limits`. If `slots` or `copy_threads` is 0, the copy has the default value
/// for `devices` devices of the kind `kind`.
RINGLOAD_EXPORT loader_options chosen_options(const loader_options& limits, device_kind kind,
                                              std::uint32_t devices = 1) noexcept;

/// Options for opening a checkpoint.
struct open_options {
  /// How strictly files are validated.
  ringload::strictness strictness = ringload::strictness::strict;
  /// If true, each checkpoint file in a folder, under an S3 prefix or in a Hugging Face model is
  /// opened as an independent file. Index files, and the numbers of split checkpoints
  /// (-00001-of-00002), are ignored. Sub-folders are searched, except for hidden folders (".git")
  /// and symlinks to folders. Opening fails with `errc::duplicate_tensor` if two files have a
  /// tensor of the same name. Opening fails with ENOTDIR if the source is a single file.
  bool independent_files = false;
  /// The dtypes to use for NumPy arrays whose type states only the width of an element, such as
  /// "V2".
  unnamed_dtypes nameless = {};
};

/// The options of one load. A selection converts implicitly to load_options. Designated
/// initialisers require clang, or g++ 14 or later (see RINGLOAD_OPTION_STRUCT).
struct load_options {
  RINGLOAD_OPTION_STRUCT(load_options)

  /// The tensors to load, by default all tensors.
  selection select = {};
  /// Options for opening the checkpoint. If the checkpoint is already open, these options are
  /// ignored.
  open_options open = {};
  read_route route = read_route::automatic;  // Whether reads use the page cache.

  /// Converts tensors to this type while they are loaded. If the type is not f32, f16 or bf16, the
  /// load fails with `errc::unsupported_dtype`. `tensor::dtype()` returns the type after the
  /// conversion. `tensor_info::dtype` in the catalog is the type in the file.
  ///
  /// Tensors of f64, f32, f16, bf16, f8_e4m3fn and f8_e5m2 are converted. f64 can be converted in
  /// host memory only. On a GPU, f64 fails with `errc::unsupported_dtype`.
  ///
  /// GGUF tensors with the block types q4_0 to q8_k, iq4_nl, iq4_xs and mxfp4 are dequantised. A
  /// dequantised tensor has the shape `tensor_info::original_shape`. The results are equal to the
  /// results of the Python package `gguf`. Tensors of u8 with another block type or with a packed
  /// element type in `tensor_info::type`, such as int4 of ONNX, fail with
  /// `errc::unsupported_dtype`.
  ///
  /// All other tensors, such as tensors of integers and of `dtype::f4`, are loaded unchanged. A
  /// note in `catalog::notes` of the model states the number of these tensors.
  ///
  /// Each number is rounded once, to the nearest value, ties to even. Subnormal numbers are rounded
  /// in the same way. A number that exceeds the largest finite number by at least half a step
  /// becomes infinity. For example, 65,520 becomes infinity in f16. Infinities and the sign of 0
  /// are kept.
  ///
  /// A NaN becomes the quiet NaN with the same sign and without payload: 0x7FC00000 in f32, 0x7E00
  /// in f16, 0x7FC0 in bf16. Dequantisation to f32 is different: a NaN has the bits that the Python
  /// package `gguf` produces on x86-64. Every device produces the same bits.
  std::optional<ringload::dtype> dtype = std::nullopt;

  /// Decides whether a tensor is converted. If empty, all convertible tensors are converted. The
  /// function is called in a thread of the library, before the first read of the tensor, and may be
  /// called several times for one tensor. If the function throws an exception, the load fails.
  std::function<bool(const tensor_info& tensor)> converts = nullptr;

  /// The unit of allocation. With `per_file`, a fused tensor is in the allocation of the file that
  /// has the first of the joined tensors. With `per_tensor`, the host allocates whole pages for
  /// each tensor of 64 KiB or more. On a GPU, each tensor is allocated by one cudaMalloc, which
  /// uses at least 2 MiB of device memory. Therefore a load of many tensors needs more time to
  /// allocate and free memory.
  ringload::allocation allocation = ringload::allocation::per_load;
  /// The minimum alignment of the address of each tensor: a power of two up to 4,096. Elements can
  /// require a larger alignment. A GPU aligns tensors to 256 bytes, and a load to a GPU refuses a
  /// larger value. A host tensor that is not aligned in its file cannot be mapped, and may need an
  /// additional copy. Fills and group loads do not support this option, and fail with
  /// `errc::invalid_options`.
  std::uint32_t tensor_alignment = 1;

  /// Whether tensors are read into new memory (`owned`) or mapped from their files (`mapped`). A
  /// load maps files only if the host is the only device of the loader. For other loaders,
  /// `on_unmappable::copy` reads all tensors into memory, and `on_unmappable::refuse` fails with
  /// `errc::device_unavailable`. The load itself reads no bytes of a mapped tensor, unless `verify`
  /// or `populate` is set. The kernel reads each page when the program first uses the page.
  ///
  /// A tensor cannot be mapped in these cases:
  ///
  ///   - The load must convert, decompress, byte-swap, fuse or transpose the tensor.
  ///   - The elements are stored in several pieces, or a dimension other than the first is sliced.
  ///   - The offset in the file is not aligned for the element type, or for `tensor_alignment`.
  ///   - The bytes are in a store instead of a file.
  ///
  /// If a tensor cannot be mapped, `unmappable` determines whether the load fails or reads the
  /// tensor into memory.
  ///
  /// A mapped tensor depends on its file. If another program writes to the file, the tensor may
  /// change at any time, even after its digest was verified. If the file is truncated or its drive
  /// fails, an access to a missing page raises SIGBUS, which ends the process. Accesses by the
  /// library raise SIGBUS too, for example in `verify` and copy_async. Therefore, map only files
  /// that are never modified in place. A rename of another file to the path of a mapped file is
  /// safe.
  ///
  /// A load with `allocation::per_tensor` needs one mapping for each tensor. Any other load needs
  /// one mapping for each file. Linux allows a process 65,530 mappings by default
  /// (vm.max_map_count). stream_async and fill_async do not support `mapped` and fail with
  /// `errc::invalid_options`.
  tensor_memory memory = tensor_memory::owned;
  /// Whether a program may write to mapped tensors. The options `access`, `unmappable` and
  /// `populate` apply to mapped tensors only. If `memory` is `owned` and one of these three options
  /// is not the default, the load fails with `errc::invalid_options`.
  mapped_access access = mapped_access::read_only;
  /// The action for a tensor that cannot be mapped.
  on_unmappable unmappable = on_unmappable::refuse;
  /// If true, the copy threads read the pages of mapped tensors in advance, and a tensor counts as
  /// loaded when its pages are in memory. If the file is truncated during the load, the load fails
  /// with `errc::truncated_file`. Requires Linux 5.14.
  bool populate = false;

  /// The digests to verify, by default none. The value `&list` verifies the digests of a checksum
  /// list. The value `embedded_digests::if_present` verifies the digests that the files contain. A
  /// load can verify both kinds of digests.
  ///
  /// The operation copies the checksum list when the operation is initiated. The caller must keep
  /// the list alive until the operation is initiated. With the completion token `deferred`, an
  /// operation is initiated when the deferred operation starts.
  ///
  /// The digests in a checksum list describe the bytes of the tensor without conversion. Therefore
  /// a load that converts a listed tensor fails with `errc::digest_unavailable`. The digests in a
  /// file describe the stored bytes, so converted tensors can be verified.
  verification verify = {};

  /// Called for each step of the load: see `trace_event`. If null, the load is not traced.
  trace_function trace = nullptr;
  /// The `context` argument of `trace`. The caller must keep the object alive until the load has
  /// ended, the `load_operation` or the `tensor_stream` of the load is destroyed, and all their
  /// operations have completed. A tensor that is requested after the end of the load still reports
  /// `load_step::handed_out`. An object that outlives the loader meets this condition.
  void* trace_context = nullptr;
};

/// The options of loader::copy_async. A `device` converts implicitly to tensor_copy_options.
struct tensor_copy_options {
  tensor_copy_options() noexcept {}
  /// Options for a copy to the device `to`. If `converted` is set, the copy has this dtype.
  tensor_copy_options(ringload::device to, std::optional<ringload::dtype> converted = {}) noexcept
      : device(to), dtype(converted) {}

  /// The device of the copy. If empty, the device of the tensor is used.
  std::optional<ringload::device> device;
  /// The dtype of the copy. If empty, the elements are copied unchanged. A copy to the host
  /// converts with the rules of fill_options::dtype. A copy to a GPU converts with the rules of
  /// load_options::dtype. If these rules do not support the conversion, the copy fails with
  /// `errc::unsupported_dtype`.
  std::optional<ringload::dtype> dtype;
};

}  // namespace ringload::inline v0
