// SPDX-License-Identifier: Apache-2.0
#include "c/structs.hpp"

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

// The C types have the same order as the C++ types, after RINGLOAD_AS_STORED.
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

destination plain(const ringload_destination& from, const device& on) {
  destination tensor(from.name, from.data, dtype_of(from.dtype), shape_of(from.shape, from.rank),
                     from.on_device != 0 ? on : host());
  if (from.strides) tensor.strides.assign(from.strides, from.strides + from.rank);
  tensor.bytes = from.bytes;
  return tensor;
}

tensor_ref plain(const ringload_saved_tensor& from, const device& on) {
  if (from.loaded) {
    return {from.name ? std::string(from.name) : from.loaded->name, from.loaded->value};
  }
  required(from.name, "a tensor's name is null");
  tensor_ref tensor(from.name, from.data, dtype_of(from.dtype), shape_of(from.shape, from.rank),
                    from.on_device != 0 ? on : host());
  if (from.strides) tensor.strides.assign(from.strides, from.strides + from.rank);
  tensor.bytes = from.bytes;
  return tensor;
}

// Converts the array's elements to `T`: with `describe` if the element has a DLPack tensor,
// otherwise with plain(). Takes ownership of all DLPack tensors, even if the call throws.
template <class T, class From, class Describe>
std::vector<T> all_of(const From* from, std::size_t count, const device& on, Describe describe) {
  if (count > 0) required(from, "the array of tensors is null");
  std::vector<T> tensors;
  std::exception_ptr failure;
  const auto* first = reinterpret_cast<const char*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    dlpack::managed_tensor_versioned* exported = nullptr;
    try {
      // The caller's struct size is the distance between elements.
      const From element = received(reinterpret_cast<const From*>(first + i * from->struct_bytes));
      exported = reinterpret_cast<dlpack::managed_tensor_versioned*>(element.from_dlpack);
      if (!failure) {
        if (exported) {
          required(element.name, "a tensor's name is null");
          tensors.push_back(describe(element.name, std::exchange(exported, nullptr)));
        } else {
          tensors.push_back(plain(element, on));
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

loader_options loader_options_of(const ringload_loader_options* from) {
  const ringload_loader_options given = received(from);
  loader_options within;
  within.slots = given.slots;
  if (given.slot_bytes != 0) within.slot_bytes = given.slot_bytes;
  within.bytes_in_flight = given.bytes_in_flight;
  if (given.arena_bytes_max != 0) within.arena_bytes_max = given.arena_bytes_max;
  within.cached_bytes = given.cached_bytes;
  within.copy_threads = given.copy_threads;
  if (given.reader_threads != 0) within.reader_threads = given.reader_threads;
  within.engine = engine_of(given.engine);
  within.huge_pages = pages_of(given.pages);
  return within;
}

open_options options_of(const ringload_open_options* from) {
  const ringload_open_options given = received(from);
  open_options options;
  options.strictness = given.as_reference != 0 ? strictness::reference : strictness::strict;
  options.independent_files = given.independent_files != 0;
  return options;
}

std::function<hasher()> hashers_of(const ringload_sha256* from) {
  if (!from) return {};
  const ringload_sha256 functions = received(from);
  if (!functions.begin || !functions.update || !functions.finish || !functions.release) {
    throw invalid_argument("a function of the ringload_sha256 is null");
  }
  return [functions] {
    void* const begun = functions.begin(functions.context);
    if (!begun) throw std::bad_alloc();
    const std::shared_ptr<void> state(begun, functions.release);
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
  const ringload_load_options given = received(from);
  load_options options;
  options.window_bytes = given.window_bytes;
  if (given.dtype != RINGLOAD_AS_STORED) options.dtype = dtype_of(given.dtype);
  options.route = route_of(given.route);
  options.allocation = allocation_of(given.allocation);
  if (given.mapped != 0) options.memory = tensor_memory::mapped;
  if (given.load_unmappable != 0) options.unmappable = on_unmappable::copy;
  load_settings settings;
  if (given.manifest) settings.listed = given.manifest->value;
  options.verify.checksums = settings.listed.get();
  options.verify.stored = embedded_digests_of(given.embedded_digests);
  settings.options = options;
  return settings;
}

fill_options fill_options_of(const ringload_fill_options* from) {
  const ringload_fill_options given = received(from);
  fill_options options;
  if (given.allow_missing != 0) options.missing = fill_options::on_missing::report;
  options.unexpected = given.refuse_unexpected != 0 ? fill_options::on_unexpected::error
                                                    : fill_options::on_unexpected::report;
  if (given.convert != 0) options.dtype = fill_options::on_dtype::convert;
  if (given.broadcast != 0) options.shape = fill_options::on_shape::broadcast;
  return options;
}

std::vector<destination> destinations_of(const ringload_destination* from, std::size_t count,
                                         const device& on) {
  return all_of<destination>(from, count, on, [&](const char* name, auto* exported) {
    return destination_of(name, exported, on);
  });
}

std::vector<tensor_ref> refs_of(const ringload_saved_tensor* from, std::size_t count,
                                const device& on) {
  return all_of<tensor_ref>(from, count, on, [&](const char* name, auto* exported) {
    return view_of(name, exported, on);
  });
}

save_options save_options_of(const ringload_save_options* from) {
  const ringload_save_options given = received(from);
  save_options options;
  if (given.metadata_count > 0) required(given.metadata, "the metadata is null");
  for (std::size_t i = 0; i < given.metadata_count; ++i) {
    options.metadata.emplace_back(&required(given.metadata[2 * i], "a key is null"),
                                  &required(given.metadata[2 * i + 1], "a value is null"));
  }
  options.shard_bytes = given.shard_bytes;
  options.shard_count = given.shard_count;
  if (given.alignment != 0) options.alignment = given.alignment;
  if (given.dtype != RINGLOAD_AS_STORED) options.dtype = dtype_of(given.dtype);
  if (given.in_given_order != 0) options.order = tensor_order::given;
  options.replace = given.keep_existing == 0;
  options.sync = given.no_sync == 0;
  options.read_back = given.read_back != 0;
  options.digest = digest_of(given.digest);
  options.sha256 = hashers_of(given.sha256);
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
  return s;
}

ringload_file_stats stats_of(const file_stats& from, const file_info& file) noexcept {
  ringload_file_stats s = {};
  s.path = file.path.c_str();
  s.bytes = file.bytes;
  s.bytes_read = from.bytes_read;
  s.seconds_to_first_read = from.seconds_to_first_read;
  s.seconds_reading = from.seconds_reading;
  return s;
}

}  // namespace ringload::c

const char* ringload_dtype_name(ringload_dtype type) {
  // Every name is a literal, so it ends with a 0 byte.
  return type < RINGLOAD_BOOL || type > RINGLOAD_C128
             ? ""
             : ringload::name(ringload::c::dtype_of(type)).data();
}

uint32_t ringload_dtype_bits(ringload_dtype type) {
  return type < RINGLOAD_BOOL || type > RINGLOAD_C128 ? 0
                                                      : ringload::bits(ringload::c::dtype_of(type));
}
