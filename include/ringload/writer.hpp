// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes one file tensor by tensor, in bounded memory: .zt 1.2 with all that the format has, or one
// safetensors file. For all tensors at once there is `loader::save_async`.
//
//   ringload::writer out("model.zt");
//   co_await out.add_async(tensor, options);
//   ringload::write_result done = co_await out.finish_async();
//
// The file appears under its name when finish_async completes. Until then, whatever happens, what
// was there before is there still.

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

/// How an object is stored. Of these, safetensors files know none.
struct RINGLOAD_EXPORT object_options {
  object_options();
  object_options(const object_options& other);
  object_options(object_options&& other) noexcept;
  object_options& operator=(const object_options& other);
  object_options& operator=(object_options&& other) noexcept;
  ~object_options();

  int zstd_level = 0;  // 1 to 22; 0: raw.
  /// Of the stored bytes, for the manifest of the file.
  std::optional<digest_algorithm> digest;
  /// A logical type of the elements beside their dtype; empty: by the dtype. Types that .zt lacks
  /// get theirs in any case: f8_e4m3fn is u8 with the type "f8_e4m3fn".
  std::string type;
  ringload::attributes attributes;  // No key twice.
};

/// An object that has several components: a sparse matrix, a quantised group.
struct RINGLOAD_EXPORT object_info {
  object_info();
  object_info(const object_info& other);
  object_info(object_info&& other) noexcept;
  object_info& operator=(const object_info& other);
  object_info& operator=(object_info&& other) noexcept;
  ~object_info();

  std::string name;
  std::string layout;  // "sparse_csr", "sparse_coo", "quantized_group", or any other.
  std::vector<std::uint64_t> shape;
  ringload::attributes attributes;
};

/// What becomes of objects that are copied from another .zt file.
struct copy_options {
  std::optional<int> zstd_level = std::nullopt;  // 0: raw. Empty: as they are stored there.
  /// Another digest; empty: of the kind they have, if they have one.
  std::optional<digest_algorithm> digest = std::nullopt;
};

/// A tensor that a safetensors file is to have.
struct planned_tensor {
  std::string name;
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
};

/// What a load with these options makes of a tensor.
RINGLOAD_EXPORT planned_tensor planned(const tensor_info& in_file, const load_options& how);

/// How a file is written.
struct RINGLOAD_EXPORT writer_options {
  writer_options();
  writer_options(const writer_options& other);
  writer_options(writer_options&& other) noexcept;
  writer_options& operator=(const writer_options& other);
  writer_options& operator=(writer_options&& other) noexcept;
  ~writer_options();

  /// Where tensors begin: multiples of this power of two, up to 2 MiB. 0: 64, and in safetensors,
  /// where only the first can be placed, 8. With 4,096 loads read them straight to where they go.
  std::uint32_t alignment = 0;
  std::uint32_t zstd_threads = 0;  // At most 16; 0: as many as there are processors.
  /// Makes a SHA-256 hasher, as in `manifest::sha256`.
  std::function<hasher()> sha256;
  /// The digests of all tensors' own bytes, in `write_result::digests`: for a manifest.
  std::optional<digest_algorithm> manifest_digest;

  bool replace = true;  // Whether a file that is there is replaced; else `EEXIST`.
  bool sync = true;     // Flushes file and folder to the drive before it completes.
};

/// The result of a writer.
struct write_result {
  std::uint64_t bytes = 0;             // Of the file.
  std::uint64_t bytes_direct = 0;      // Written past the page cache.
  std::uint64_t writes = 0;            // Blocks that were written.
  double seconds = 0;                  // From the making of the writer to the end.
  std::vector<tensor_digest> digests;  // In the order of adding; parts are named "object/part".
  /// What was lost on the way, one sentence each: a digest of a kind that is not known, of bytes
  /// that were encoded anew.
  std::vector<std::string> notes;
  std::vector<std::byte> file;  // Of `writer::in_memory`: the file itself.
};

namespace detail {

class writer_state;

using added_signature = void(std::exception_ptr, std::uint64_t);
using write_signature = void(std::exception_ptr, write_result);

// One step of a writer, in its thread; the result is where the file ends so far.
using writer_step = std::function<void(writer_state&)>;

RINGLOAD_EXPORT void begin_step(const std::shared_ptr<writer_state>& of, writer_step step,
                                std::unique_ptr<operation<std::uint64_t>> waiting);
RINGLOAD_EXPORT void begin_finish(const std::shared_ptr<writer_state>& of,
                                  std::unique_ptr<operation<write_result>> waiting);

struct initiate_step : initiation {
  std::shared_ptr<writer_state> of;
  explicit initiate_step(std::shared_ptr<writer_state> j) : of(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler, writer_step step) const {
    begin_step(of, std::move(step), make_operation<std::uint64_t>(std::forward<Handler>(handler)));
  }
};

struct initiate_written : initiation {
  std::shared_ptr<writer_state> of;
  explicit initiate_written(std::shared_ptr<writer_state> j) : of(std::move(j)) {}
  template <class Handler>
  void operator()(Handler&& handler) const {
    begin_finish(of, make_operation<write_result>(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

/// By position, the first tensor that is the same as this one: of the same memory, type, shape and
/// strides. It is its own where there is none before it. For `writer::add_alias_async`: a writer
/// is given tensors one by one, and their memory may be another's by the next, so it does not look.
RINGLOAD_EXPORT std::vector<std::size_t> first_of_same(std::span<const tensor_ref> all);

/// One file that is being written. Destroying it before finish_async has completed leaves nothing.
///
/// The `_async` functions take any completion token, as those of `loader` do, and are carried out
/// in the order in which they are called, in a thread of the writer's. Each completes with where
/// the file ends so far, when what it was given is no longer used.
///
/// A step that is refused before it has changed the file, because of its name, its settings or its
/// shape, only fails itself: the next step may succeed. A failure while the file is written, which
/// names file and tensor, and a cancellation are for good: every step after it fails too.
///
/// Its functions may be called from any thread, but not while it is moved or destroyed.
class RINGLOAD_EXPORT writer {
 public:
  /// Not a writer; only assignment and destruction are allowed.
  writer() noexcept = default;
  /// A new .zt file. Blocks on the file system. Throws `ringload::error`.
  explicit writer(std::string path, writer_options how = {});
  /// A new safetensors file: its header comes first, so its tensors must be known. They must be
  /// added in this order.
  writer(std::string path, std::vector<planned_tensor> tensors,
         std::vector<std::pair<std::string, std::string>> metadata, writer_options how = {});
  /// A .zt file that has all that `path` has, and what is added. It is written beside `path`, as a
  /// clone where the file system makes clones and as a copy elsewhere, and takes its place when it
  /// is whole. `path` must be of version 1.1 or 1.2; if it is not, or is not there, the first
  /// operation says so.
  static writer append(std::string path, writer_options how = {});
  /// A file in memory, which the result has: .zt, or safetensors.
  static writer in_memory(writer_options how = {});
  static writer in_memory(std::vector<planned_tensor> tensors,
                          std::vector<std::pair<std::string, std::string>> metadata,
                          writer_options how = {});

  writer(writer&& other) noexcept = default;
  writer& operator=(writer&& other) noexcept;
  ~writer();

  /// Adds a dense tensor: of the host, or of a device of ours that it was loaded to.
  /// `errc::duplicate_tensor` for a name that is there; `errc::unsupported_dtype` for elements of
  /// less than a byte in .zt, and c128 in safetensors.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_async(tensor_ref what, CompletionToken&& token = {}) {
    return add_async(std::move(what), object_options(), std::forward<CompletionToken>(token));
  }
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_async(tensor_ref what, object_options how, CompletionToken&& token = {}) {
    return step(add_step(std::move(what), std::move(how)), std::forward<CompletionToken>(token));
  }

  /// Announces an object of several components, which are then added in any order.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto declare_async(object_info what, CompletionToken&& token = {}) {
    return step(declare_step(std::move(what)), std::forward<CompletionToken>(token));
  }
  /// Adds a component: its name is the view's. `object_options::attributes` must be empty. Whether
  /// the object's components fit each other is checked at the end.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_part_async(std::string object, tensor_ref part, object_options how,
                      CompletionToken&& token = {}) {
    return step(part_step(std::move(object), std::move(part), std::move(how)),
                std::forward<CompletionToken>(token));
  }

  /// A second name for an object that is there: its bytes are not written again.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto add_alias_async(std::string name, std::string of, CompletionToken&& token = {}) {
    return step(alias_step(std::move(name), std::move(of)), std::forward<CompletionToken>(token));
  }

  /// Adds objects of another .zt file, of any version that is read, with their types and
  /// attributes: their stored bytes as they are, or encoded as `how` says. `chosen` says which;
  /// empty: all. Attributes of that file are added too, but for keys that are there.
  ///
  /// If the stored bytes have a digest and are encoded anew, or get another digest, they are
  /// compared with it: `errc::wrong_digest`. Bytes that are only copied keep their digest, of
  /// whichever kind and right or wrong.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto copy_async(std::string file, std::function<bool(std::string_view)> chosen, copy_options how,
                  CompletionToken&& token = {}) {
    return step(copy_step(std::move(file), std::move(chosen), how),
                std::forward<CompletionToken>(token));
  }

  /// Replaces the elements of a dense tensor that is stored raw. `errc::wrong_dtype` or
  /// `errc::wrong_shape` unless dtype and shape are the same.
  template <boost::asio::completion_token_for<detail::added_signature> CompletionToken =
                boost::asio::use_awaitable_t<>>
  auto replace_async(tensor_ref by, CompletionToken&& token = {}) {
    return step(replace_step(std::move(by)), std::forward<CompletionToken>(token));
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

  /// Of tensors that were taken so far. Cheap.
  std::uint64_t bytes_taken() const noexcept;

 private:
  template <class CompletionToken>
  auto step(detail::writer_step what, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::added_signature>(
        detail::initiate_step(job_), token, std::move(what));
  }
  static detail::writer_step add_step(tensor_ref what, object_options how);
  static detail::writer_step declare_step(object_info what);
  static detail::writer_step part_step(std::string object, tensor_ref part, object_options how);
  static detail::writer_step alias_step(std::string name, std::string of);
  static detail::writer_step copy_step(std::string file,
                                       std::function<bool(std::string_view)> chosen,
                                       copy_options how);
  static detail::writer_step replace_step(tensor_ref by);
  static detail::writer_step attribute_step(std::string key, attribute value);

  std::shared_ptr<detail::writer_state> job_;
};

}  // namespace ringload::inline v0
