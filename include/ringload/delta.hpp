// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes and applies deltas. A delta is a file with the difference between two versions of a
// checkpoint. A training step changes few elements, so the delta is much smaller than the
// checkpoint.
//
//   co_await ringload::save_delta_async(loader, "v2.delta.zt", "v1.safetensors", "v2.safetensors");
//
//   ringload::model v1 = co_await loader.load_async("v1.safetensors");
//   ringload::model v2 = co_await ringload::apply_async(loader, v1, "v2.delta.zt");
//
// A delta is a .zt file. A delta can be read from every source of checkpoints, such as a file or a
// server. The file contains the digests of all tensors of both versions. If a delta is damaged, or
// belongs to another base version, the operation fails and changes nothing.
//
// A delta can also be a folder with an index: see indexed_delta. The programs SGLang, ModelExpress
// and slime use this layout. All functions read both layouts.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/detail/list_argument.hpp>
#include <ringload/detail/operation.hpp>
#include <ringload/detail/path_object.hpp>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/fill.hpp>
#include <ringload/loader.hpp>
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <ringload/source.hpp>
#include <ringload/verify.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// The encoding of the changed bytes of a tensor in a delta with an index.
enum class delta_encoding : std::uint8_t {
  exclusive_or,  // "xor": the bitwise XOR of all bytes. Usually the smaller encoding.
  overwrite,     // "overwrite": the positions and the new values of the changed bytes.
};

/// The algorithm of the digests in a delta with an index. Neither algorithm detects tampering.
enum class delta_checksum : std::uint8_t {
  xxh3_128,  // "xxh3-128": 16 bytes. The default of slime.
  adler32,   // "adler32": 4 bytes. The only algorithm of ModelExpress.
};

/// Describes a delta with an index. The delta is a folder with safetensors files and a file
/// model.safetensors.index.json. Each changed tensor is stored as one Zstandard stream, with the
/// dtype u8. Each safetensors file has the digests of its changed tensors in `__metadata__`. The
/// programs slime and SGLang read all deltas in this layout. ModelExpress reads only deltas with
/// `exclusive_or` and `adler32`.
///
/// The layout has digests of the new bytes of changed tensors only. Therefore, when a delta is
/// applied, neither the base version nor the unchanged tensors are verified. The layout has no
/// metadata of the next version, so the result has the metadata of the base version. The layout
/// cannot add, remove or reshape a tensor.
struct indexed_delta {
  RINGLOAD_OPTION_STRUCT(indexed_delta)

  /// The encoding of all changed tensors.
  delta_encoding encoding = delta_encoding::exclusive_or;
  /// The algorithm of all digests.
  delta_checksum checksum = delta_checksum::xxh3_128;
  /// The name of the next version. If empty, the folder must have a name such as "weight_v000007",
  /// and the name of the version is "000007".
  std::string version = {};
  /// The name of the base version. If empty, the name of the next version must be a number, and the
  /// name of the base version is this number minus 1, with at least six digits.
  std::string base_version = {};
};

/// Options of save_delta_async.
struct delta_options {
  RINGLOAD_OPTION_STRUCT(delta_options)

  int zstd_level = 3;  // The level of the zstd compression, 1 to 22. 0 means no compression.
  /// The memory limit for the tensors of both versions that are compared at the same time. A tensor
  /// that needs more memory is compared alone.
  std::uint64_t window_bytes = std::uint64_t{512} << 20;
  /// If set, the delta is a folder with an index. If empty, the delta is a .zt file.
  std::optional<indexed_delta> indexed = {};
  /// If false, an existing file is not replaced, and the operation fails with `EEXIST`.
  bool replace = true;
  bool sync = true;  // If true, the file and its folder are flushed to the drive before completion.
  /// Creates hashers for SHA-256 digests in the files of both versions. Digests in files are
  /// verified before the comparison. Otherwise damaged bytes could become part of the delta. If
  /// empty, a version with SHA-256 digests fails with `errc::digest_unavailable`.
  std::function<hasher()> sha256 = {};
};

/// The result of save_delta_async. The delta stores each changed tensor in one of three forms:
/// sparse, dense or whole. save_delta_async chooses the form by the estimated size of each form. In
/// `elements_changed`, all elements of a whole tensor count as changed. In a delta with an index,
/// tensors with the encoding `exclusive_or` count as dense, and tensors with the encoding
/// `overwrite` as sparse.
struct delta_result {
  std::uint64_t bytes = 0;              // The size of the delta.
  std::uint64_t tensors_unchanged = 0;  // The number of unchanged tensors.
  /// Sparse: the number of tensors of which only the changed elements and their positions are
  /// stored.
  std::uint64_t tensors_sparse = 0;
  /// Dense: the number of tensors that are stored as the bitwise XOR of the old and new elements.
  std::uint64_t tensors_dense = 0;
  /// Whole: the number of tensors whose elements are all stored, for example new tensors.
  std::uint64_t tensors_whole = 0;
  /// The number of tensors of the base version that the next version does not have.
  std::uint64_t tensors_removed = 0;
  std::uint64_t elements = 0;          // The number of elements of the next version.
  std::uint64_t elements_changed = 0;  // The number of changed elements.
  double seconds = 0;                  // The time from the call to completion.
};

/// Options of apply_async and update_async.
struct apply_options {
  /// If true, the digests of unchanged tensors are verified too, so that all tensors of the result
  /// are verified. If false, unchanged tensors are not read. A delta with an index has no digests
  /// of unchanged tensors, so the option has no effect.
  bool check_unchanged = true;
  /// The allocations of changed tensors. With `per_tensor`, each changed tensor has its own
  /// allocation, so that the memory of old versions can be freed tensor by tensor. With any other
  /// value, one new allocation has all changed tensors. If less than half of an older allocation is
  /// still in use, the unchanged tensors of this allocation are also copied to the new allocation.
  /// Therefore a chain of versions never has many allocations, and a keeper can publish each
  /// version. update_async ignores this option.
  ringload::allocation allocation = ringload::allocation::per_tensor;
};

/// The result of update_async.
struct update_result {
  std::uint64_t tensors_changed = 0;  // The number of changed tensors.
  std::uint64_t bytes_changed = 0;    // The total size of the changed tensors.
  /// The number of changed elements. If the delta has an index, the number of changed bytes.
  std::uint64_t elements_changed = 0;
  double seconds = 0;  // The time from the call to completion.
};

/// The options of load_version_async.
struct version_options {
  RINGLOAD_OPTION_STRUCT(version_options)

  std::optional<std::uint64_t> version = {};  // Empty means the newest version of the folder.
  apply_options apply = {};                   // The options for each applied delta.
  /// A loaded version of the same folder. Its number is `base_version`. `base` is used if no
  /// version after `base_version`, up to the requested version, is a full version. Then only the
  /// deltas after `base_version` are read. Otherwise the load begins with a full version and
  /// ignores `base`.
  std::optional<model> base = {};
  std::uint64_t base_version = 0;  // The number of `base`.
};

/// The files of one version in a version folder. The path of a missing file is empty.
struct version_info {
  std::uint64_t version = 0;  // The number of the version.
  std::string full;           // The path of the full version, which is a whole checkpoint.
  std::string delta;          // The path of the delta from the previous version.
};

namespace detail {

struct delta_request {
  std::string path;
  source base;
  source next;
  delta_options options;
};

struct apply_request {
  model base;
  source delta;
  apply_options options;
};

struct update_request {
  std::vector<destination> into;
  source delta;
  apply_options options;
};

struct version_request {
  std::string folder;
  version_options options;
};

struct chain_request {
  std::vector<source> links;
  apply_options options;
};

RINGLOAD_EXPORT void begin_load_version(const engine_ptr& loader_engine, version_request request,
                                        std::unique_ptr<operation<model>> waiting);
RINGLOAD_EXPORT void begin_load_chain(const engine_ptr& loader_engine, chain_request request,
                                      std::unique_ptr<operation<model>> waiting);
RINGLOAD_EXPORT void begin_save_delta(const engine_ptr& loader_engine, delta_request request,
                                      std::unique_ptr<operation<delta_result>> waiting);
RINGLOAD_EXPORT void begin_apply(const engine_ptr& loader_engine, apply_request request,
                                 std::unique_ptr<operation<model>> waiting);
RINGLOAD_EXPORT void begin_update(const engine_ptr& loader_engine, update_request request,
                                  std::unique_ptr<operation<update_result>> waiting);

}  // namespace detail

/// Compares two checkpoints and writes their difference to the .zt file `path`, or to the folder
/// `path` if `options.indexed` is set. The file or the folder becomes visible at its path when the
/// operation completes. Tensors are compared in host memory, as they are stored: dtypes are not
/// converted. Tensors with a logical type, such as a quantised type of GGUF, must not be new and
/// must keep their dtype and shape. The same rule applies to tensors with elements of less than 8
/// bits, such as `dtype::f4`. Both versions must have the same composite objects, with the same
/// layouts, types, shapes, attributes and parts: only the elements of the parts may differ.
/// Otherwise the operation fails with `errc::unsupported_feature`, and leaves no new file.
///
/// The loader may have any devices. Cancellation of any type cancels the operation. A cancelled
/// operation leaves no new file.
template <class Executor, token_for<delta_result> CompletionToken = default_token>
auto save_delta_async(basic_loader<Executor>& used_loader, detail::path_argument path, source base,
                      source next, delta_options options, CompletionToken&& token = {}) {
  return detail::initiate<delta_result, &detail::begin_save_delta>(
      std::forward<CompletionToken>(token), used_loader.get_executor(), used_loader.loader_engine(),
      detail::delta_request{std::move(path).take(), std::move(base), std::move(next), options});
}
/// Writes the difference with default options.
template <class Executor, token_for<delta_result> CompletionToken = default_token>
auto save_delta_async(basic_loader<Executor>& used_loader, detail::path_argument path, source base,
                      source next, CompletionToken&& token = {}) {
  return save_delta_async(used_loader, std::move(path), std::move(base), std::move(next),
                          delta_options(), std::forward<CompletionToken>(token));
}

/// Applies a delta to the model `base`, and completes with the next version. `base` is not changed.
/// Tensors that the delta does not change share the memory of `base`. By default, each changed
/// tensor has an allocation of its own: see `apply_options::allocation`. All tensors of `base` must
/// be on the first device of the loader. Otherwise the operation fails with
/// `errc::device_unavailable`. The catalog of the result lists only the files that its tensors and
/// objects refer to.
///
/// If the device is a GPU, all work of the program on the tensors of `base` must be complete. The
/// GPU changes and verifies a tensor itself if the delta stores only the differences of the tensor.
/// A tensor of a delta with an index is changed and verified on the host, and copied to the GPU.
///
/// Fails with `errc::no_such_tensor` if `base` is an empty handle. Fails with `errc::wrong_digest`
/// or `errc::wrong_shape` if `base` is not the base version of the delta. Fails with
/// `errc::malformed_index` if both the delta that led to `base` and this delta have an index, and
/// the versions do not match. A loaded checkpoint has no version, so its first delta with an index
/// is not checked in this way. Fails with `errc::wrong_digest` if the result is not the next
/// version of the delta. Fails with `errc::not_a_checkpoint` if `delta` is not a delta, or if
/// `base` is a loaded delta. Cancellation of any type cancels the operation.
template <class Executor, token_for<model> CompletionToken = default_token>
auto apply_async(basic_loader<Executor>& used_loader, model base, source delta,
                 apply_options options, CompletionToken&& token = {}) {
  return detail::initiate<model, &detail::begin_apply>(
      std::forward<CompletionToken>(token), used_loader.get_executor(), used_loader.loader_engine(),
      detail::apply_request{std::move(base), std::move(delta), options});
}
/// Applies a delta with default options.
template <class Executor, token_for<model> CompletionToken = default_token>
auto apply_async(basic_loader<Executor>& used_loader, model base, source delta,
                 CompletionToken&& token = {}) {
  return apply_async(used_loader, std::move(base), std::move(delta), apply_options(),
                     std::forward<CompletionToken>(token));
}

/// Applies a delta in place, to memory of the caller. `into` must list the tensors of the base
/// version. Their memory must be row-major and dense, and on the first device of the loader. All
/// work of the program on this memory must be complete. Fails with `errc::unsupported_feature` if
/// the delta adds or removes a tensor, or changes a dtype or a shape.
///
/// Cancellation of any type cancels the operation. If the update fails or is cancelled, the old
/// bytes are restored before the operation completes. After completion, either all tensors have the
/// next version, or all tensors have their old bytes. The exception is `errc::not_restored`: the
/// update failed or was cancelled, and then a call of the device failed during the restoration. No
/// other thread may use the memory during the operation.
template <class Executor, token_for<update_result> CompletionToken = default_token>
auto update_async(basic_loader<Executor>& used_loader, detail::list_argument<destination> into,
                  source delta, apply_options options, CompletionToken&& token = {}) {
  return detail::initiate<update_result, &detail::begin_update>(
      std::forward<CompletionToken>(token), used_loader.get_executor(), used_loader.loader_engine(),
      detail::update_request{std::move(into).take(), std::move(delta), options});
}
/// Updates memory with default options.
template <class Executor, token_for<update_result> CompletionToken = default_token>
auto update_async(basic_loader<Executor>& used_loader, detail::list_argument<destination> into,
                  source delta, CompletionToken&& token = {}) {
  return update_async(used_loader, std::move(into), std::move(delta), apply_options(),
                      std::forward<CompletionToken>(token));
}

/// Returns the versions of a version folder, in ascending order. Returns an empty list if the
/// folder has no version. Ignores other files. The names of version 7 are:
///
///   v7.safetensors, v7.zt, or a folder v7   the full version
///   v7.delta.zt                             the delta from version 6
///   weight_v000007                          a folder in the layout of slime: either the full
///                                           version, or a delta with an index
///
/// A folder such as weight_v000007 is ignored until the folder contains an index or a file
/// model.safetensors. A load needs the base of the first delta in the version folder, for example
/// as a symlink weight_v000000. The version folder is a local folder, or a folder of a store of
/// `extensions`, such as a prefix of S3 or a repository of the hub. In a store, a full version is a
/// single file. Folders such as weight_v000007 in a store are not listed: use load_chain_async with
/// the addresses of their indices. `extensions` has the same meaning as for a loader.
///
/// Throws `ringload::error`. The code is `errc::ambiguous_source` if the folder has two full
/// versions or two deltas with the same number, and `errc::unsupported_feature` if the store cannot
/// list the folder. A stop request ends the wait for a server. The error is then ECANCELED.
RINGLOAD_EXPORT std::vector<version_info> list_versions(
    detail::path_argument folder, const std::vector<extension>& extensions = {},
    const std::stop_token& stop = {});

/// Loads a version of a version folder. The folder is a local folder, or a folder of a store of the
/// loader. A web server cannot list a folder: use load_chain_async. If the folder does not have
/// this version as a full version, loads the last full version before the requested version, or
/// uses `options.base`. Then applies the deltas up to the requested version.
/// `options.apply.allocation` is also the allocation of the full version. The full version is
/// loaded into the memory of the first device of the loader.
///
/// If a necessary file is missing, the operation fails with `errc::source_not_found`. If a file is
/// damaged, or belongs to another version or base, the operation fails with `errc::wrong_digest` or
/// another code. If the file of a full version is a delta, the operation fails with
/// `errc::not_a_checkpoint`. Each error names the file.
///
/// Cancellation of any type cancels the operation.
template <class Executor, token_for<model> CompletionToken = default_token>
auto load_version_async(basic_loader<Executor>& used_loader, detail::path_argument folder,
                        version_options options, CompletionToken&& token = {}) {
  return detail::initiate<model, &detail::begin_load_version>(
      std::forward<CompletionToken>(token), used_loader.get_executor(), used_loader.loader_engine(),
      detail::version_request{std::move(folder).take(), options});
}
/// Loads the newest version of the folder.
template <class Executor, token_for<model> CompletionToken = default_token>
auto load_version_async(basic_loader<Executor>& used_loader, detail::path_argument folder,
                        CompletionToken&& token = {}) {
  return load_version_async(used_loader, std::move(folder), version_options(),
                            std::forward<CompletionToken>(token));
}

/// Loads a version from a list of files. The first link is a full version. If the first link is a
/// delta, the operation fails with `errc::not_a_checkpoint`. Each further link is the delta from
/// the version before. The links can also be files of a web server, although a web
/// server cannot list a folder. Fails like load_version_async. Each error names the link.
template <class Executor, token_for<model> CompletionToken = default_token>
auto load_chain_async(basic_loader<Executor>& used_loader, detail::list_argument<source> links,
                      apply_options options, CompletionToken&& token = {}) {
  return detail::initiate<model, &detail::begin_load_chain>(
      std::forward<CompletionToken>(token), used_loader.get_executor(), used_loader.loader_engine(),
      detail::chain_request{std::move(links).take(), options});
}
/// Loads a version from a list of files with default options.
template <class Executor, token_for<model> CompletionToken = default_token>
auto load_chain_async(basic_loader<Executor>& used_loader, detail::list_argument<source> links,
                      CompletionToken&& token = {}) {
  return load_chain_async(used_loader, std::move(links), apply_options(),
                          std::forward<CompletionToken>(token));
}

}  // namespace ringload::inline v0
