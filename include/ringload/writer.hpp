// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes one file, tensor by tensor, in bounded memory. The file is a .zt 1.2 file or a
// safetensors file. The writer supports all features of .zt 1.2. To save all tensors in one call,
// use `loader::save_async`.
//
//   ringload::writer out("model.zt");
//   co_await out.add_async(tensor, options);
//   ringload::write_result done = co_await out.finish_async();
//
// The file becomes visible at its path when finish_async completes. Before this time, and if the
// writer fails, an existing file at this path is unchanged. However, if only the last flush of the
// folder fails (`writer_options::sync`), the new file is already visible.

#include <boost/asio/any_io_executor.hpp>
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
#include <ringload/extension.hpp>
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

/// Storage options of one object in a .zt file. In a safetensors file, all options must have their
/// default values. Otherwise add_async fails with `errc::unsupported_feature`.
struct object_options {
  RINGLOAD_OPTION_STRUCT(object_options)

  int zstd_level = 0;  // The level of the zstd compression, 1 to 22. 0 means no compression.
  /// The algorithm of the digest that the file stores for the object. The digest covers the stored
  /// bytes.
  std::optional<digest_algorithm> digest = {};
  /// The logical type of the elements, in addition to the dtype. If empty, the dtype determines the
  /// type. If .zt lacks the dtype, the object always gets a logical type. For example, f8_e4m3fn is
  /// stored as u8 with the type "f8_e4m3fn".
  std::string type = {};
  /// The attributes of the object. A repeated key fails with `errc::invalid_saving`.
  ringload::attributes attributes = {};
};

/// An object that consists of several components, such as a sparse matrix or a quantised group.
struct RINGLOAD_EXPORT object_info {
  object_info() {}

  std::string name;  // The name of the object.
  /// "sparse_csr", "sparse_coo", "quantized_group", or any other name except "dense".
  std::string layout;
  std::vector<std::uint64_t> shape;  // The shape of the object.
  /// The attributes of the object. A repeated key fails with `errc::invalid_saving`.
  ringload::attributes attributes;
};

/// Options for copying objects from another .zt file.
struct copy_options {
  /// The level of the zstd compression, 1 to 22. 0 means no compression. If empty, the stored bytes
  /// are copied unchanged.
  std::optional<int> zstd_level = std::nullopt;
  /// The algorithm of the new digest. If empty, each digest keeps its algorithm, and an object
  /// without a digest stays without a digest.
  std::optional<digest_algorithm> digest = std::nullopt;
};

/// The description of a tensor that will be added to a safetensors file.
struct planned_tensor {
  std::string name;                   // The name of the tensor in the file.
  ringload::dtype dtype = dtype::u8;  // The type of the elements in the file.
  std::vector<std::uint64_t> shape;   // The sizes of the dimensions, outermost first.
};

/// Returns the name, the dtype and the shape that `tensor` has after a load with `options`. Ignores
/// `options.select`.
RINGLOAD_EXPORT planned_tensor planned(const tensor_info& tensor, const load_options& options);

/// Options of a writer.
struct writer_options {
  RINGLOAD_OPTION_STRUCT(writer_options)

  /// The alignment of tensors in the file: 0, or a power of two from 64 to 2 MiB. In .zt, 0 means
  /// 64. In safetensors, the alignment applies to the first tensor only, and 0 means 8. With an
  /// alignment of 4,096, a load can read tensors directly into their final memory.
  std::uint32_t alignment = 0;
  /// The number of compression threads, at most 16. 0 means the number of processors, up to 16.
  std::uint32_t zstd_threads = 0;
  /// Creates a hasher for SHA-256, as `checksum_list::sha256` does. Required for SHA-256 digests.
  std::function<hasher()> sha256 = {};
  /// If set, `write_result::digests` receives a digest of each tensor, for a checksum list. The
  /// digest covers the bytes of the tensor before compression.
  std::optional<digest_algorithm> result_digest = {};

  /// If false, an existing file is not replaced, and the writer fails with `EEXIST`.
  bool replace = true;
  bool sync = true;  // If true, the file and its folder are flushed to the drive before completion.
  /// The stores for names with "://", such as "s3://bucket/model.zt". S3 requires remote(). A
  /// writer to a store refuses replace_async.
  std::vector<extension> extensions = {};

  /// The executor of handlers without an associated executor. If empty,
  /// `boost::asio::system_executor` is used.
  boost::asio::any_io_executor executor = {};
};

/// The result of a writer.
struct write_result {
  std::uint64_t bytes = 0;         // The size of the file.
  std::uint64_t bytes_direct = 0;  // The number of bytes that were written with O_DIRECT.
  std::uint64_t writes = 0;        // The number of write operations.
  double seconds = 0;              // The time from the construction of the writer to completion.
  /// The digests, in the order in which the tensors were added. The name of a component is
  /// "object/part".
  std::vector<tensor_digest> digests;
  /// Warnings about information that was lost, one sentence each. Example: a digest of an unknown
  /// algorithm was dropped because its bytes were compressed again.
  std::vector<std::string> notes;
  /// The contents of the file, if `writer::in_memory` created the writer.
  std::vector<std::byte> file;
};

namespace detail {

class writer_state;

// One step of a writer. The writer's thread runs the step. The operation completes with the current
// size of the file.
using writer_step = std::function<void(writer_state&)>;

RINGLOAD_EXPORT void begin_step(const std::shared_ptr<writer_state>& state, writer_step step,
                                std::unique_ptr<operation<std::uint64_t>> waiting);
RINGLOAD_EXPORT void begin_finish(const std::shared_ptr<writer_state>& state,
                                  std::unique_ptr<operation<write_result>> waiting);

}  // namespace detail

/// Finds duplicates. Returns one position for each tensor: the position of the first tensor with
/// the same memory, type, shape and strides. If no earlier tensor is equal in all four properties,
/// the result is the position of the tensor itself.
///
/// Use the result for `writer::add_alias_async`. A writer cannot find duplicates, because the
/// caller may reuse the memory of a tensor after its step.
RINGLOAD_EXPORT std::vector<std::size_t> first_of_same(std::span<const tensor_ref> tensors);

/// Writes one file. The destructor removes the file if the file is unfinished. In this case, an
/// existing file at the path is unchanged.
///
/// The `_async` functions accept any completion token, as the functions of `loader` do. Each call
/// adds a step. The steps run in the order of the calls, in a thread of the writer. A step
/// completes when its arguments are no longer used. The result of a step is the current size of the
/// file.
///
/// If a step is refused because of its name, options or shape, the file is unchanged, and later
/// steps may succeed. If a step fails while the file is written, all later steps fail. The
/// cancellation of a step also cancels every other step that has not ended, and all later steps
/// fail. Each error names the file and the tensor. Terminal and partial cancellation cancel a step.
/// Total cancellation is ignored.
///
/// Thread-safe, except for moving and destroying the writer.
class RINGLOAD_EXPORT writer {
 public:
  /// The type of the writer's executor.
  using executor_type = boost::asio::any_io_executor;

  /// Creates an empty handle. An empty handle may only be assigned to or destroyed.
  writer() noexcept = default;
  /// Creates a .zt file. Blocks during file system operations. Throws `ringload::error`.
  explicit writer(std::string path, writer_options options = {});
  /// Creates a safetensors file. The caller passes the descriptions of all tensors in advance,
  /// because the header precedes the data in the file. The tensors must be added in the order of
  /// `tensors`.
  writer(std::string path, std::vector<planned_tensor> tensors,
         std::vector<std::pair<std::string, std::string>> metadata, writer_options options = {});
  /// Returns a writer that adds objects to the .zt file `path`. The writer changes a copy of the
  /// file in the same folder. The copy is a clone if the file system supports clones. finish_async
  /// replaces the file `path` by the copy. If `path` is not a .zt file of version 1.1 or 1.2, all
  /// steps fail.
  static writer append(std::string path, writer_options options = {});
  /// Returns a writer of a .zt file in memory. `write_result::file` receives the file.
  static writer in_memory(writer_options options = {});
  /// Returns a writer of a safetensors file in memory. `write_result::file` receives the file.
  static writer in_memory(std::vector<planned_tensor> tensors,
                          std::vector<std::pair<std::string, std::string>> metadata,
                          writer_options options = {});

  /// Takes over the file of `source`. Afterwards, `source` is an empty handle.
  writer(writer&& source) noexcept = default;
  /// Removes the file of this writer if the file is unfinished. Then takes over the file of
  /// `source`.
  writer& operator=(writer&& source) noexcept;
  ~writer();

  /// Returns the executor of handlers that have no associated executor.
  executor_type get_executor() const noexcept { return executor_; }

  /// Adds a dense tensor in host memory, or on the device `tensor_ref::device`. Fails with
  /// `errc::duplicate_tensor` if the name exists already. In .zt, fails with
  /// `errc::unsupported_dtype` if an element has less than 8 bits. In safetensors, fails with
  /// `errc::unsupported_dtype` for c128.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto add_async(tensor_ref tensor, CompletionToken&& token = {}) {
    return add_async(std::move(tensor), object_options(), std::forward<CompletionToken>(token));
  }
  /// Adds a dense tensor with options.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto add_async(tensor_ref tensor, object_options options, CompletionToken&& token = {}) {
    return step(add_step(std::move(tensor), std::move(options)),
                std::forward<CompletionToken>(token));
  }

  /// Declares an object that consists of several components. Afterwards, add the components in any
  /// order with add_part_async.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto declare_async(object_info object, CompletionToken&& token = {}) {
    return step(declare_step(std::move(object)), std::forward<CompletionToken>(token));
  }
  /// Adds a component to a declared object. `part.name` is the name of the component.
  /// `object_options::attributes` must be empty. finish_async checks sparse_csr and sparse_coo
  /// objects. finish_async fails if a component is missing, or if the dtypes or sizes of the
  /// components do not match the object.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto add_part_async(std::string object, tensor_ref part, object_options options,
                      CompletionToken&& token = {}) {
    return step(part_step(std::move(object), std::move(part), std::move(options)),
                std::forward<CompletionToken>(token));
  }

  /// Adds a second name for an existing object. The bytes of the object are not written again.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto add_alias_async(std::string name, std::string target, CompletionToken&& token = {}) {
    return step(alias_step(std::move(name), std::move(target)),
                std::forward<CompletionToken>(token));
  }

  /// Adds objects of another .zt file, with their types and attributes. The file may have any
  /// supported version. `selects` returns true for the name of each object to add. If `selects` is
  /// empty, all objects are added. The attributes of the file are added too, except for keys that
  /// exist already.
  ///
  /// The stored bytes are copied, or encoded again if `options` requires another compression or if
  /// the bytes are big-endian. If bytes are only copied and `copy_options::digest` is empty, their
  /// digest is copied and not verified. Otherwise an existing digest is verified. A wrong digest
  /// fails with `errc::wrong_digest`.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto copy_async(std::string file, std::function<bool(std::string_view)> selects,
                  copy_options options, CompletionToken&& token = {}) {
    return step(copy_step(std::move(file), std::move(selects), options),
                std::forward<CompletionToken>(token));
  }

  /// Replaces the elements of a dense tensor that is stored without compression. Fails with
  /// `errc::wrong_dtype` or `errc::wrong_shape` if the dtype or the shape differs. Fails with
  /// `errc::unsupported_feature` if the tensor has an alias, or if another tensor shares its bytes.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto replace_async(tensor_ref tensor, CompletionToken&& token = {}) {
    return step(replace_step(std::move(tensor)), std::forward<CompletionToken>(token));
  }

  /// Sets an attribute of the file.
  template <token_for<std::uint64_t> CompletionToken = default_token>
  auto set_attribute_async(std::string key, attribute value, CompletionToken&& token = {}) {
    return step(attribute_step(std::move(key), std::move(value)),
                std::forward<CompletionToken>(token));
  }

  /// Writes the pending data and the end of the file, and then makes the file visible at its path.
  template <token_for<write_result> CompletionToken = default_token>
  auto finish_async(CompletionToken&& token = {}) {
    return detail::initiate<write_result, &detail::begin_finish, detail::cancel_with_effects>(
        std::forward<CompletionToken>(token), executor_, job_);
  }

  /// Returns the number of bytes of tensors that the writer has processed so far. The call is
  /// cheap.
  std::uint64_t bytes_taken() const noexcept;

 private:
  template <class CompletionToken>
  auto step(detail::writer_step action, CompletionToken&& token) {
    return detail::initiate<std::uint64_t, &detail::begin_step, detail::cancel_with_effects>(
        std::forward<CompletionToken>(token), executor_, job_, std::move(action));
  }
  static detail::writer_step add_step(tensor_ref tensor, object_options options);
  static detail::writer_step declare_step(object_info object);
  static detail::writer_step part_step(std::string object, tensor_ref part, object_options options);
  static detail::writer_step alias_step(std::string name, std::string target);
  static detail::writer_step copy_step(std::string file,
                                       std::function<bool(std::string_view)> selects,
                                       copy_options options);
  static detail::writer_step replace_step(tensor_ref tensor);
  static detail::writer_step attribute_step(std::string key, attribute value);

  boost::asio::any_io_executor executor_;
  std::shared_ptr<detail::writer_state> job_;
};

}  // namespace ringload::inline v0
