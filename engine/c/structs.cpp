// SPDX-License-Identifier: Apache-2.0

#include "c/structs.hpp"

#include <chrono>
#include <limits>
#include <new>
#include <optional>
#include <ringload/dlpack.hpp>
#include <span>
#include <string>
#include <utility>

#include "c/handles.hpp"

namespace ringload::c {

namespace {

// The C enumerators have the same order as the C++ enumerators, after RINGLOAD_AS_STORED.
static_assert(static_cast<int>(dtype::boolean) + 1 == RINGLOAD_BOOL);
static_assert(static_cast<int>(dtype::f8_e8m0) + 1 == RINGLOAD_F8_E8M0);
static_assert(static_cast<int>(dtype::bf16) + 1 == RINGLOAD_BF16);
static_assert(static_cast<int>(dtype::c128) + 1 == RINGLOAD_C128);
static_assert(dtype_count == RINGLOAD_C128);

read_engine engine_of(ringload_engine from) {
  switch (from) {
    case RINGLOAD_ENGINE_AUTOMATIC: return read_engine::automatic;
    case RINGLOAD_ENGINE_RING: return read_engine::ring;
    case RINGLOAD_ENGINE_THREADS: return read_engine::threads;
  }
  throw invalid_argument("no such ringload_engine");
}

huge_pages pages_of(ringload_pages from) {
  switch (from) {
    case RINGLOAD_PAGES_TRANSPARENT: return huge_pages::transparent;
    case RINGLOAD_PAGES_RESERVED: return huge_pages::reserved;
    case RINGLOAD_PAGES_NONE: return huge_pages::none;
  }
  throw invalid_argument("no such ringload_pages");
}

gpu_direct gpu_direct_of(ringload_gpu_direct from) {
  switch (from) {
    case RINGLOAD_GPU_DIRECT_OFF: return gpu_direct::off;
    case RINGLOAD_GPU_DIRECT_AUTOMATIC: return gpu_direct::automatic;
    case RINGLOAD_GPU_DIRECT_REQUIRED: return gpu_direct::required;
  }
  throw invalid_argument("no such ringload_gpu_direct");
}

read_route route_of(ringload_route from) {
  switch (from) {
    case RINGLOAD_ROUTE_AUTOMATIC: return read_route::automatic;
    case RINGLOAD_ROUTE_DIRECT: return read_route::direct;
    case RINGLOAD_ROUTE_BUFFERED: return read_route::buffered;
  }
  throw invalid_argument("no such ringload_route");
}

allocation allocation_of(ringload_allocation from) {
  switch (from) {
    case RINGLOAD_PER_LOAD: return allocation::per_load;
    case RINGLOAD_PER_FILE: return allocation::per_file;
    case RINGLOAD_PER_TENSOR: return allocation::per_tensor;
  }
  throw invalid_argument("no such ringload_allocation");
}

embedded_digests embedded_digests_of(ringload_embedded_digests from) {
  switch (from) {
    case RINGLOAD_DIGESTS_IGNORED: return embedded_digests::none;
    case RINGLOAD_DIGESTS_IF_PRESENT: return embedded_digests::if_present;
    case RINGLOAD_DIGESTS_REQUIRED: return embedded_digests::require;
  }
  throw invalid_argument("no such ringload_embedded_digests");
}

// Returns the device of a tensor that has no DLPack description.
template <class T>
device device_of(const T& from, const device& first) {
  if (from.device) return from.device->value;
  return from.on_device != 0 ? first : host();
}

destination convert_fields(const ringload_destination& from, const device& on) {
  destination tensor(&required(from.name, "a destination's name is null"), from.data,
                     dtype_of(from.dtype), shape_of(from.shape, from.rank), device_of(from, on));
  if (from.strides) tensor.strides.assign(from.strides, from.strides + from.rank);
  tensor.bytes = from.bytes;
  return tensor;
}

tensor_ref convert_fields(const ringload_saved_tensor& from, const device& on) {
  if (from.loaded) {
    return {from.name ? std::string(from.name) : from.loaded->name, from.loaded->value};
  }
  required(from.name, "a tensor's name is null");
  tensor_ref tensor(from.name, from.data, dtype_of(from.dtype), shape_of(from.shape, from.rank),
                    device_of(from, on));
  if (from.strides) tensor.strides.assign(from.strides, from.strides + from.rank);
  tensor.bytes = from.bytes;
  return tensor;
}

// Converts the elements of an array to type `T`. An element with a DLPack tensor is converted by
// `describe`. Any other element is converted by convert_fields(). Takes ownership of the DLPack
// tensors, even if the call throws. If `struct_bytes` is too small, the function cannot read the
// DLPack tensors, and the caller keeps the ownership.
template <class T, class From, class Describe>
std::vector<T> all_of(const From* from, std::size_t count, const device& on, Describe describe) {
  if (count > 0) required(from, "the array of tensors is null");
  std::vector<T> tensors;
  std::exception_ptr failure;
  const auto* first = reinterpret_cast<const char*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    dlpack::managed_tensor_versioned* exported = nullptr;
    try {
      // Consecutive elements are `struct_bytes` bytes apart, because the caller's version of the
      // struct may have another size.
      const From element =
          read_struct(reinterpret_cast<const From*>(first + i * from->struct_bytes));
      exported = reinterpret_cast<dlpack::managed_tensor_versioned*>(element.from_dlpack);
      if (!failure) {
        if (exported) {
          required(element.name, "a tensor's name is null");
          const device gpu = element.device ? element.device->value : on;
          tensors.push_back(describe(element.name, std::exchange(exported, nullptr), gpu));
        } else {
          tensors.push_back(convert_fields(element, on));
        }
      }
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    if (exported && exported->deleter) exported->deleter(exported);
  }
  if (failure) std::rethrow_exception(failure);
  return tensors;
}

}  // namespace

std::optional<digest_algorithm> digest_of(ringload_digest from) {
  switch (from) {
    case RINGLOAD_DIGEST_NONE: return std::nullopt;
    case RINGLOAD_DIGEST_CRC32C: return digest_algorithm::crc32c;
    case RINGLOAD_DIGEST_SHA256: return digest_algorithm::sha256;
  }
  throw invalid_argument("no such ringload_digest");
}

std::vector<std::uint64_t> shape_of(const std::uint64_t* shape, std::size_t rank) {
  if (rank > 0) required(shape, "a shape is null");
  return {shape, shape + rank};
}

ringload_dtype dtype_of(dtype type) noexcept {
  return static_cast<ringload_dtype>(static_cast<int>(type) + 1);
}

dtype dtype_of(ringload_dtype type) {
  if (type < RINGLOAD_BOOL || type > RINGLOAD_C128)
    throw invalid_argument("no such ringload_dtype");
  return static_cast<dtype>(type - 1);
}

ringload_tensor_info info_of(const tensor_info& tensor, const char* file) noexcept {
  const std::vector<std::uint64_t>& original =
      tensor.original_shape.empty() ? tensor.shape : tensor.original_shape;
  ringload_tensor_info info = {};
  info.struct_bytes = sizeof info;
  info.name = tensor.name.c_str();
  info.shape = tensor.shape.data();
  info.rank = tensor.shape.size();
  info.bytes = tensor.bytes;
  info.file = file;
  info.type = tensor.type.c_str();
  info.dtype = dtype_of(tensor.dtype);
  info.file_position = tensor.file;
  info.offset = tensor.offset;
  info.stored_bytes = tensor.stored_bytes;
  info.encoding = tensor.encoding.c_str();
  info.digest = tensor.digest.c_str();
  info.original_shape = original.data();
  info.original_rank = original.size();
  return info;
}

loader_options loader_options_of(const ringload_loader_options* from) {
  const ringload_loader_options c_options = read_struct(from);
  loader_options options;
  options.slots = c_options.slots;
  if (c_options.slot_bytes != 0) options.slot_bytes = c_options.slot_bytes;
  options.bytes_in_flight = c_options.bytes_in_flight;
  if (c_options.arena_bytes_max != 0) options.arena_bytes_max = c_options.arena_bytes_max;
  options.cached_bytes = c_options.cached_bytes;
  options.copy_threads = c_options.copy_threads;
  if (c_options.reader_threads != 0) options.reader_threads = c_options.reader_threads;
  options.engine = engine_of(c_options.engine);
  options.huge_pages = pages_of(c_options.pages);
  options.gpu_direct = gpu_direct_of(c_options.gpu_direct);
  options.peer_copies = c_options.no_peer_copies == 0;
  options.bytes_per_second_max = c_options.bytes_per_second_max;
  if (c_options.stop_milliseconds_max != 0) {
    options.stop_time_max = std::chrono::milliseconds(c_options.stop_milliseconds_max);
  }
  return options;
}

open_options options_of(const ringload_open_options* from) {
  const ringload_open_options c_options = read_struct(from);
  open_options options;
  options.strictness = c_options.as_reference != 0 ? strictness::reference : strictness::strict;
  options.independent_files = c_options.independent_files != 0;
  if (c_options.unnamed_one_byte != RINGLOAD_AS_STORED) {
    options.nameless.one_byte = dtype_of(c_options.unnamed_one_byte);
  }
  if (c_options.unnamed_two_bytes != RINGLOAD_AS_STORED) {
    options.nameless.two_bytes = dtype_of(c_options.unnamed_two_bytes);
  }
  return options;
}

std::function<hasher()> hashers_of(const ringload_sha256* from) {
  if (!from) return {};
  const ringload_sha256 functions = read_struct(from);
  if (!functions.begin || !functions.update || !functions.finish || !functions.release) {
    throw invalid_argument("a function of the ringload_sha256 is null");
  }
  return [functions] {
    void* const new_state = functions.begin(functions.context);
    if (!new_state) throw std::bad_alloc();
    const std::shared_ptr<void> state(new_state, functions.release);
    hasher created;
    created.update = [functions, state](std::span<const std::byte> bytes) {
      functions.update(state.get(), bytes.data(), bytes.size());
    };
    created.finish = [functions, state] {
      std::vector<std::byte> digest(32);
      functions.finish(state.get(), reinterpret_cast<unsigned char*>(digest.data()));
      return digest;
    };
    return created;
  };
}

load_settings options_of(const ringload_load_options* from) {
  const ringload_load_options c_options = read_struct(from);
  load_options options;
  if (c_options.dtype != RINGLOAD_AS_STORED) options.dtype = dtype_of(c_options.dtype);
  options.route = route_of(c_options.route);
  options.allocation = allocation_of(c_options.allocation);
  if (c_options.mapped != 0) options.memory = tensor_memory::mapped;
  if (c_options.load_unmappable != 0) options.unmappable = on_unmappable::copy;
  if (c_options.copy_on_write != 0) options.access = mapped_access::copy_on_write;
  options.populate = c_options.populate != 0;
  if (c_options.tensor_alignment != 0) options.tensor_alignment = c_options.tensor_alignment;
  if (c_options.converts) {
    options.converts = [call = c_options.converts,
                        context = c_options.converts_context](const tensor_info& tensor) {
      const ringload_tensor_info info = info_of(tensor, "");
      return call(context, &info) != 0;
    };
  }
  options.verify.sha256 = hashers_of(c_options.sha256);
  set_trace(options, c_options.trace);
  load_settings settings;
  if (c_options.checksums) settings.listed = c_options.checksums->value;
  options.verify.checksums = settings.listed.get();
  options.verify.stored = embedded_digests_of(c_options.embedded_digests);
  settings.options = options;
  return settings;
}

fill_options fill_options_of(const ringload_fill_options* from) {
  const ringload_fill_options c_options = read_struct(from);
  fill_options options;
  if (c_options.allow_missing != 0) options.missing = fill_options::on_missing::report;
  options.unexpected = c_options.refuse_unexpected != 0 ? fill_options::on_unexpected::error
                                                        : fill_options::on_unexpected::report;
  if (c_options.convert != 0) options.dtype = fill_options::on_dtype::convert;
  if (c_options.broadcast != 0) options.shape = fill_options::on_shape::broadcast;
  return options;
}

std::vector<destination> destinations_of(const ringload_destination* from, std::size_t count,
                                         const device& on) {
  return all_of<destination>(from, count, on,
                             [](const char* name, auto* exported, const device& gpu) {
                               return destination_of(name, exported, gpu);
                             });
}

std::vector<tensor_ref> refs_of(const ringload_saved_tensor* from, std::size_t count,
                                const device& on) {
  return all_of<tensor_ref>(from, count, on,
                            [](const char* name, auto* exported, const device& gpu) {
                              return view_of(name, exported, gpu);
                            });
}

tensor_copy_options copy_options_of(const ringload_tensor_copy_options* from) {
  const ringload_tensor_copy_options c_options = read_struct(from);
  tensor_copy_options options;
  if (c_options.device) options.device = c_options.device->value;
  if (c_options.dtype != RINGLOAD_AS_STORED) options.dtype = dtype_of(c_options.dtype);
  return options;
}

save_options save_options_of(const ringload_save_options* from) {
  const ringload_save_options c_options = read_struct(from);
  save_options options;
  if (c_options.metadata_count > 0) required(c_options.metadata, "the metadata is null");
  for (std::size_t i = 0; i < c_options.metadata_count; ++i) {
    options.metadata.emplace_back(&required(c_options.metadata[2 * i], "a key is null"),
                                  &required(c_options.metadata[2 * i + 1], "a value is null"));
  }
  options.shard_bytes = c_options.shard_bytes;
  options.shard_count = c_options.shard_count;
  if (c_options.alignment != 0) options.alignment = c_options.alignment;
  if (c_options.dtype != RINGLOAD_AS_STORED) options.dtype = dtype_of(c_options.dtype);
  if (c_options.in_given_order != 0) options.order = tensor_order::given;
  options.replace = c_options.keep_existing == 0;
  options.sync = c_options.no_sync == 0;
  options.read_back = c_options.read_back != 0;
  options.digest = digest_of(c_options.digest);
  options.sha256 = hashers_of(c_options.sha256);
  return options;
}

ringload_stats stats_of(const load_stats& from) noexcept {
  ringload_stats s = {};
  s.bytes = from.bytes;
  s.bytes_total = from.bytes_total;
  s.tensors = from.tensors;
  s.tensors_total = from.tensors_total;
  s.bytes_arrived = from.bytes_arrived();
  s.bytes_direct = from.bytes_direct;
  s.bytes_buffered = from.bytes_buffered;
  s.reads = from.reads;
  s.pinned_bytes_peak = from.pinned_bytes_peak;
  s.seconds = from.seconds;
  s.seconds_to_first_tensor = from.seconds_to_first_tensor;
  s.seconds_opening = from.seconds_opening;
  s.engine = from.engine == read_engine::threads ? RINGLOAD_ENGINE_THREADS : RINGLOAD_ENGINE_RING;
  s.bytes_gpu_direct = from.bytes_gpu_direct;
  s.header_bytes = from.header_bytes;
  s.threads = from.threads;
  s.seconds_device_wait = from.seconds_device_wait;
  return s;
}

ringload_file_stats stats_of(const file_stats& from, const file_info& file) noexcept {
  ringload_file_stats s = {};
  s.path = file.path.c_str();
  s.bytes = file.bytes;
  s.bytes_read = from.bytes_read;
  s.seconds_to_first_read = from.seconds_to_first_read;
  s.seconds_reading = from.seconds_reading;
  s.seconds_device_wait = from.seconds_device_wait;
  return s;
}

}  // namespace ringload::c

const char* ringload_dtype_name(ringload_dtype type) {
  // The names are string literals, which end with a 0 byte.
  return type < RINGLOAD_BOOL || type > RINGLOAD_C128
             ? ""
             : ringload::name(ringload::c::dtype_of(type)).data();
}

uint32_t ringload_dtype_bits(ringload_dtype type) {
  return type < RINGLOAD_BOOL || type > RINGLOAD_C128 ? 0
                                                      : ringload::bits(ringload::c::dtype_of(type));
}

uint32_t ringload_dtype_alignment(ringload_dtype type) {
  return type < RINGLOAD_BOOL || type > RINGLOAD_C128
             ? 0
             : ringload::alignment(ringload::c::dtype_of(type));
}

ringload_dtype ringload_dtype_named(const char* name) {
  const auto found = name ? ringload::dtype_named(name) : std::nullopt;
  return found ? ringload::c::dtype_of(*found) : RINGLOAD_AS_STORED;
}

int ringload_dtype_is_convertible(ringload_dtype from, ringload_dtype to) {
  for (const ringload_dtype type : {from, to}) {
    if (type < RINGLOAD_BOOL || type > RINGLOAD_C128) return 0;
  }
  return ringload::convertible(ringload::c::dtype_of(from), ringload::c::dtype_of(to)) ? 1 : 0;
}
