// SPDX-License-Identifier: Apache-2.0
#pragma once

// The limits of a loader and the options of a load. Trivially destructible on purpose: g++ 12
// destroys other aggregates twice when they are named inside a co_await expression.

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

/// What reads the files.
enum class read_engine : std::uint8_t {
  automatic,  // io_uring where it works, else threads. `load_stats` says which, and why.
  ring,       // io_uring, or the loader's constructor throws `errc::engine_unavailable`.
  threads,    // A pool of threads that call pread.
};

/// Whether reads use the page cache.
enum class read_route : std::uint8_t {
  automatic,  // Read by read: buffered where the page cache has the bytes already, else direct.
  direct,     // O_DIRECT for every byte, or the load fails with `errc::direct_unavailable`.
  buffered,   // Through the page cache.
};

/// The pages that memory of the host lies on. Those that an administrator has reserved
/// (`vm.nr_hugepages`) were meant for somebody, a database or DPDK, so they are taken only if asked
/// for.
enum class huge_pages : std::uint8_t {
  transparent,  // Huge ones where the kernel has some; never reserved ones.
  reserved,     // Slots on reserved ones of 2 MiB, else as `transparent`; `load_stats` says why.
                // Tensors as `transparent`, but for those of `shared_host()`.
  none,         // Small ones only.
};

/// Which tensors of a load share an allocation. It goes back as a whole, with the last of them.
enum class allocation : std::uint8_t {
  per_load,
  per_file,
  per_tensor,
};

/// Where tensors lie.
enum class tensor_memory : std::uint8_t {
  owned,   // In memory that the load takes, and reads them into.
  mapped,  // In their files, mapped: see load_options::memory.
};

enum class mapped_access : std::uint8_t {
  read_only,      // Writing to a tensor is an access violation.
  copy_on_write,  // Pages that are written to are copied then: the file does not change.
};

enum class on_unmappable : std::uint8_t {
  refuse,  // errc::not_mappable, with the tensor and the reason.
  copy,    // It is loaded into memory, as `owned` ones are.
};

/// The initial number of bytes in flight, where `loader_options::bytes_in_flight` is 0.
inline constexpr std::uint64_t bytes_in_flight_at_first = std::uint64_t{32} << 20;

/// What a loader may use at any one time, however large the checkpoints are.
struct loader_options {
  /// Pinned buffers, each owned by one worker, and so the most reads in flight: 1 to 1,024. A
  /// slot's memory is taken when it is first needed, and kept until the loader goes. 0: 16, or 32
  /// for a GPU, whose copies hold a slot as long again as its read does.
  std::uint32_t slots = 0;
  /// The size of one slot, and so of the largest read: a power of two, 64 KiB to 64 MiB.
  /// `slots * slot_bytes` is all the memory that a loader pins, but for 2 MiB on a GPU for each
  /// thread that copies tensors back to the host at the same time, as checks do.
  std::uint64_t slot_bytes = std::uint64_t{4} << 20;
  /// The queue depth in bytes: direct reads by io_uring that are in flight, of all loads from one
  /// drive together.
  /// Buffered reads, and those by threads, are bounded by `copy_threads` and `reader_threads`
  /// instead. More than the drive needs costs latency, and on some drives throughput. One read is
  /// always allowed. 0: tuned while loading, between two slots and all of them: raised while that
  /// raises throughput, lowered while that costs none.
  std::uint64_t bytes_in_flight = 0;
  /// The largest memory that the tensors of one load may take on the device, in all allocations
  /// together, and on all devices. What is mapped from files does not count.
  std::uint64_t arena_bytes_max = std::numeric_limits<std::uint64_t>::max();
  /// Bytes of freed tensor memory that each device keeps in a free list for the next loads. A load
  /// reuses a block that is at most a quarter too large. Reused memory is not zeroed, so padding
  /// between tensors may hold bytes of an earlier load. Reuse saves time: the kernel zeroes new
  /// pages. A GPU's memory is kept only after release() or release_after() of `ringload/cuda.hpp`,
  /// since work on the GPU may still use it. 0: memory is freed at once.
  std::uint64_t cached_bytes = 0;
  /// Threads that copy from the page cache and populate host memory: 1 to 64. More than two are
  /// worth it even on two processors. As many others decode what is compressed, but no more than
  /// there are processors. 0: 3, or for a GPU half of the processors, 3 to 8: its link carries what
  /// that many threads copy.
  std::uint32_t copy_threads = 0;
  /// Threads that read where io_uring is not available: 1 to 64.
  std::uint32_t reader_threads = 8;
  read_engine engine = read_engine::automatic;
  ringload::huge_pages huge_pages = ringload::huge_pages::transparent;
};

/// The limits that a loader for such a device works with: `within`, where a 0 in `slots` and
/// `copy_threads` is replaced by what is chosen for it.
RINGLOAD_EXPORT loader_options chosen_options(const loader_options& within,
                                              device_kind on) noexcept;

/// The options of one load.
struct load_options {
  ringload::strictness strictness = ringload::strictness::strict;
  unnamed_dtypes nameless = {};
  read_route route = read_route::automatic;

  /// Converts tensors of f64, f32, f16, bf16, f8_e4m3fn and f8_e5m2 to this type while loading:
  /// f32, f16 or bf16; any other is `errc::unsupported_dtype`. f64 is converted in host memory
  /// only: on a GPU it is `errc::unsupported_dtype`. So are GGUF's blocks dequantised, as its
  /// reference library does, from q4_0 to q8_k, iq4_nl, iq4_xs and mxfp4: such a tensor has
  /// `tensor_info::original_shape`. Blocks and packed elements of other types are
  /// `errc::unsupported_dtype`. All other tensors, of integers for instance, are loaded unchanged,
  /// and `catalog::notes` of the model says how many.
  /// `tensor::dtype` is the type after conversion; the catalog has the file's.
  ///
  /// Numbers are rounded once, to nearest, ties to even, subnormal numbers too. A number that
  /// exceeds the largest by half a step or more becomes infinity: 65,520 as f16. Infinities and the
  /// sign of 0 are kept. A NaN becomes the quiet NaN of its sign without payload: 0x7FC00000,
  /// 0x7E00 or 0x7FC0; of a block as f32 it is the one that the reference library makes on x86-64.
  /// Every device gives the same bits.
  std::optional<ringload::dtype> dtype = std::nullopt;

  /// Selects which of those tensors are converted; null: all. Called with `converts_with` once for
  /// each, in a thread of the library, before the first read. If it throws, the load fails.
  bool (*converts)(const tensor_info& which, void* with) = nullptr;
  void* converts_with = nullptr;  // Must live until the load has started, or failed.

  /// At most so many bytes of the device for tensors that somebody holds, for a model that does not
  /// fit as a whole; 0: all of it at once. With `loader::start_async` only. `next_async` then gives
  /// the tensors in the checkpoint's order, and their memory comes back when they are dropped:
  /// then, at the next call, reading goes on. Tensors that lie near each other share memory, up to
  /// a sixteenth of the window. Whole pages count: each tensor may need 8 KiB beside its bytes, and
  /// shared memory is a multiple of 4 KiB, or of 2 MiB on a GPU, with
  /// `loader_options::cached_bytes` and on reserved pages. A tensor that is larger than the window,
  /// or that finds it full of tensors that are still held, is `errc::memory_exceeded`; in the
  /// latter case the next call may succeed. There is no model, and no tensor by its name.
  std::uint64_t window_bytes = 0;

  /// With `per_file` a fused tensor lies with the first of its parts. With `per_tensor` the host
  /// takes whole pages for tensors of 64 KiB and more, and a GPU what its driver makes of one
  /// cudaMalloc: 2 MiB are the least that it takes from the device. A load of many tensors then
  /// takes longer to begin and to free.
  ringload::allocation allocation = ringload::allocation::per_load;

  /// `mapped`: tensors are views of their files, in memory of the host; nothing is read or copied,
  /// and pages come when they are first used. What cannot be a view, `unmappable` says what becomes
  /// of it: tensors that are converted, compressed, byte-swapped, fused, transposed or sliced in
  /// another than the first dimension, or that begin at a place in the file that their element type
  /// is not aligned at; and every tensor where the loader has another device than one host
  /// (`errc::device_unavailable`).
  ///
  /// A view is as good as its file. If that is written to, the tensor may change, before or after
  /// it was checked against a manifest. If it is truncated, or its drive fails, whoever touches a
  /// page that is gone gets SIGBUS, which ends the process: this library too, where it reads a view
  /// for `verify` or copy_async. Map only what nobody writes to in place; a file that is replaced
  /// by renaming another onto it does no harm.
  ///
  /// A mapping for each file, or with `allocation::per_tensor` for each tensor, of which Linux
  /// allows a process 65,530 (vm.max_map_count). Not with a window, nor in a fill:
  /// `errc::invalid_options`.
  tensor_memory memory = tensor_memory::owned;
  mapped_access access = mapped_access::read_only;
  on_unmappable unmappable = on_unmappable::refuse;
  /// Of mapped tensors: the copy threads bring in the pages, and a tensor is loaded when its own
  /// are there. What was truncated meanwhile is then `errc::truncated_file`. Needs Linux 5.14.
  bool populate = false;

  /// Digests that the tensors must have: those of a manifest (`verify = &manifest`), those that the
  /// files hold (`verify = embedded_digests::if_present`), or both; by default nothing is checked.
  /// A manifest is copied when the operation is initiated, so it must live until then: with
  /// `deferred`, until the deferred operation starts. Its digests are of the bytes in the files, so
  /// converted tensors cannot be checked against it: `errc::digest_unavailable`. Those of the files
  /// are of the stored bytes, whatever becomes of them.
  verification verify = {};

  /// Is told of each step of the load: see `trace_event`. Null: nobody, and it costs nothing.
  trace_function trace = nullptr;
  void* trace_with = nullptr;  // Must live as long as the load: at most as long as the loader.
};

}  // namespace ringload::inline v0
