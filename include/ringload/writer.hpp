// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes one file tensor by tensor, in bounded memory: .zt 1.2 with all features of the format, or
// one safetensors file. `loader::save_async` saves all tensors at once.
//
//   ringload::writer out("model.zt");
//   co_await out.add_async(tensor, options);
//   ringload::write_result done = co_await out.finish_async();
//
// The file appears under its name when finish_async completes. Until then an existing file is
// unchanged, even if the writer fails.

#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/attribute.hpp>
#include <ringload/catalog.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/dtype.hpp>
#include <ringload/export.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// Storage options of one object. Only .zt has them; safetensors ignores them.
struct RINGLOAD_EXPORT object_options {
  object_options();
  object_options(const object_options& source);
  object_options(object_options&& source) noexcept;
  object_options& operator=(const object_options& source);
  object_options& operator=(object_options&& source) noexcept;
  ~object_options();

  int zstd_level = 0;  // 1 to 22; 0: raw.
  /// The kind of digest of the stored bytes, kept in the file.
  std::optional<digest_algorithm> digest;
  /// A logical type of the elements, in addition to their dtype; empty: derived from the dtype.
  /// Types that .zt lacks always get a logical type: f8_e4m3fn is u8 with the type "f8_e4m3fn".
  std::string type;
  ringload::attributes attributes;  // Keys must be unique.
};

/// An object that has several components: a sparse matrix, a quantised group.
struct RINGLOAD_EXPORT object_info {
  object_info();
  object_info(const object_info& source);
  object_info(object_info&& source) noexcept;
  object_info& operator=(const object_info& source);
  object_info& operator=(object_info&& source) noexcept;
  ~object_info();

  std::string name;
  std::string layout;  // "sparse_csr", "sparse_coo", "quantized_group", or any other.
  std::vector<std::uint64_t> shape;
  ringload::attributes attributes;
};

/// Options for copying objects from another .zt file.
struct copy_options {
  std::optional<int> zstd_level = std::nullopt;  // 0: raw. Empty: the stored bytes are copied.
  /// The kind of the new digest. Empty: the kind of the existing digest, if there is one.
  std::optional<digest_algorithm> digest = std::nullopt;
};

/// The description of a tensor in a safetensors file.
struct planned_tensor {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
};

/// Returns the tensor that a load with these options produces.
RINGLOAD_EXPORT planned_tensor planned(const tensor_info& tensor, const load_options& options);

/// The options of a writer.
struct RINGLOAD_EXPORT writer_options {
  writer_options();
  writer_options(const writer_options& source);
  writer_options(writer_options&& source) noexcept;
  writer_options& operator=(const writer_options& source);
  writer_options& operator=(writer_options&& source) noexcept;
  ~writer_options();

  /// The alignment of tensors in the file: a power of two up to 2 MiB. 0: 64. For safetensors, only
  /// the first tensor can be aligned, and 0 means 8. With 4,096, loads read tensors directly into
  /// their final memory.
  std::uint32_t alignment = 0;
  std::uint32_t zstd_threads = 0;  // At most 16; 0: the number of processors.
  /// Creates a SHA-256 hasher, as `manifest::sha256` does.
  std::function<hasher()> sha256;
  /// Computes the digests of the bytes of all tensors in `write_result::digests`, for a manifest.
  std::optional<digest_algorithm> manifest_digest;

  bool replace = true;  // Whether an existing file is replaced; else `EEXIST`.
  bool sync = true;     // Flushes file and folder to the drive before completion.
};

/// The result of a writer.
struct write_result {
  std::uint64_t bytes = 0;             // Size of the file.
  std::uint64_t bytes_direct = 0;      // Written past the page cache.
  std::uint64_t writes = 0;            // Number of written blocks.
  double seconds = 0;                  // From the construction of the writer to the end.
  std::vector<tensor_digest> digests;  // In the order of adding; parts are named "object/part".
  /// Notes about lost information, one sentence each: a digest of an unknown kind for bytes that
  /// were encoded again.
  std::vector<std::string> notes;
  std::vector<std::byte> file;  // The file of `writer::in_memory`.
};

namespace detail {

class writer_state;

using added_signature = void(std::exception_ptr, std::uint64_t);
using write_signature = void(std::exception_ptr, write_result);

// One step of a writer, run in the writer's thread. The result is the current size of the file.
using writer_step = std::function<void(writer_state&)>;

RINGLOAD_EXPORT void begin_step(const std::shared_ptr<writer_state>& state, writer_step step,
                                std::unique_ptr<operation<std::uint64_t>> waiting);
RINGLOAD_EXPORT void begin_finish(const std::shared_ptr<writer_state>& state,
                                  std::unique_ptr<operation<write_result>> waiting);

struct initiate_step : initiation {
  std::shared_ptr<writer_state> state;
  explicit initiate_step(std::shared_ptr<writer_state> j) : state(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler, writer_step step) const {
    begin_step(state, std::move(step),
               make_operation<std::uint64_t>(std::forward<Handler>(handler)));
  }
};

struct initiate_written : initiation {
  std::shared_ptr<writer_state> state;
  explicit initiate_written(std::shared_ptr<writer_state> j) : state(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler) const {
    begin_finish(state, make_operation<write_result>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// For each tensor, returns the position of the first tensor with the same memory, type, shape and
/// strides. A tensor without an earlier equal tensor has its own position. For
/// `writer::add_alias_async`: a writer receives tensors one by one, and their memory may be reused
/// between steps, so a writer cannot find duplicates.
RINGLOAD_EXPORT std::vector<std::size_t> first_of_same(std::span<const tensor_ref> tensors);

/// A file that is being written. If the writer is destroyed before finish_async has completed,
/// no file remains.
///
/// The `_async` functions take any completion token, as those of `loader` do. The steps run in the
/// order of the calls, in a thread of the writer. Each step completes with the current size of the
/// file, when its arguments are no longer used.
///
/// If a step is refused because of its name, its options or its shape before it changes the file,
/// only this step fails, and the next step may succeed. A failure while the file is written names
/// file and tensor, and is permanent, like a cancellation: every later step fails too.
///
/// The functions may be called from any thread, but not while the writer is moved or destroyed.
class RINGLOAD_EXPORT writer {
 public:
  /// An empty handle: only assignment and destruction are allowed.
  writer() noexcept = default;
  /// Creates a .zt file. Blocks on the file system. Throws `ringload::error`.
  explicit writer(std::string path, writer_options options = {});
  /// Creates a safetensors file. Its header precedes the data, so the tensors must be known in
  /// advance, and must be added in this order.
  writer(std::string path, std::vector<planned_tensor> tensors,
         std::vector<std::pair<std::string, std::string>> metadata, writer_options options = {});
  /// Returns a writer that adds to the .zt file `path`. The writer modifies a copy next to `path`,
  /// which is a clone if the file system supports clones. The copy replaces `path` when it is
  /// complete. `path` must be a file of version 1.1 or 1.2, else the first operation fails.
  static writer append(std::string path, writer_options options = {});
  /// Returns a writer of a file in memory, .zt or safetensors. `write_result::file` is the file.
  static writer in_memory(writer_options options = {});
  static writer in_memory(std::vector<planned_tensor> tensors,
                          std::vector<std::pair<std::string, std::string>> metadata,
                          writer_options options = {});

  writer(writer&& source) noexcept = default;
  writer& operator=(writer&& source) noexcept;
  ~writer();

  /// Adds a dense tensor in host memory or on the device of its loader. Fails with
  /// `errc::duplicate_tensor` for an existing name. Fails with `errc::unsupported_dtype` for
  /// elements of less than a byte in .zt, and for c128 in safetensors.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_async(tensor_ref tensor, CompletionToken&& token = {}) {
    return add_async(std::move(tensor), object_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_async(tensor_ref tensor, object_options options, CompletionToken&& token = {}) {
    return step(add_step(std::move(tensor), std::move(options)),
                std::forward<CompletionToken>(token));
  }

  /// Declares an object of several components, which are then added in any order.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto declare_async(object_info object, CompletionToken&& token = {}) {
    return step(declare_step(std::move(object)), std::forward<CompletionToken>(token));
  }
  /// Adds a component with the name of the tensor_ref. `object_options::attributes` must be empty.
  /// finish_async checks whether the components of the object match.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_part_async(std::string object, tensor_ref part, object_options options,
                      CompletionToken&& token = {}) {
    return step(part_step(std::move(object), std::move(part), std::move(options)),
                std::forward<CompletionToken>(token));
  }

  /// Adds a second name for an existing object. Its bytes are not written again.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_alias_async(std::string name, std::string target, CompletionToken&& token = {}) {
    return step(alias_step(std::move(name), std::move(target)),
                std::forward<CompletionToken>(token));
  }

  /// Adds objects of another .zt file of any supported version, with their types and attributes.
  /// The stored bytes are copied, or encoded again as `options` requests. `chosen` selects the
  /// objects; empty: all. Attributes of that file are added too, except for existing keys.
  ///
  /// If stored bytes with a digest are encoded again, or get another kind of digest, the existing
  /// digest is checked first: `errc::wrong_digest`. Bytes that are only copied keep their digest
  /// unchecked.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto copy_async(std::string file, std::function<bool(std::string_view)> chosen,
                  copy_options options, CompletionToken&& token = {}) {
    return step(copy_step(std::move(file), std::move(chosen), options),
                std::forward<CompletionToken>(token));
  }

  /// Replaces the elements of a dense tensor that is stored raw. Dtype and shape must be equal,
  /// else `errc::wrong_dtype` or `errc::wrong_shape`.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto replace_async(tensor_ref tensor, CompletionToken&& token = {}) {
    return step(replace_step(std::move(tensor)), std::forward<CompletionToken>(token));
  }

  /// Sets an attribute of the file.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto set_attribute_async(std::string key, attribute value, CompletionToken&& token = {}) {
    return step(attribute_step(std::move(key), std::move(value)),
                std::forward<CompletionToken>(token));
  }

  /// Writes what is pending and the end of the file, and publishes it.
  template <boost::asio::completion_token_for<detail::write_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto finish_async(CompletionToken&& token = {}) {
    return boost::asio::async_initiate<CompletionToken, detail::write_signature>(
        detail::initiate_written(job_), token);
  }

  /// Returns the number of tensor bytes taken so far. Cheap.
  std::uint64_t bytes_taken() const noexcept;

 private:
  template <class CompletionToken>
  auto step(detail::writer_step action, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::added_signature>(
        detail::initiate_step(job_), token, std::move(action));
  }
  static detail::writer_step add_step(tensor_ref tensor, object_options options);
  static detail::writer_step declare_step(object_info object);
  static detail::writer_step part_step(std::string object, tensor_ref part, object_options options);
  static detail::writer_step alias_step(std::string name, std::string target);
  static detail::writer_step copy_step(std::string file,
                                       std::function<bool(std::string_view)> chosen,
                                       copy_options options);
  static detail::writer_step replace_step(tensor_ref tensor);
  static detail::writer_step attribute_step(std::string key, attribute value);

  std::shared_ptr<detail::writer_state> job_;
};

}  // namespace ringload::inline v0
