// SPDX-License-Identifier: Apache-2.0
#pragma once

// An open checkpoint, for any number of loads.

#include <cstddef>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

namespace detail {
struct opened_checkpoint;
}

/// Options for opening a checkpoint.
struct open_options {
  ringload::strictness strictness = ringload::strictness::strict;
  /// Opens each checkpoint file of a folder, an S3 prefix or a model as an independent file.
  /// Indices and series are ignored. Sub-folders are searched, except for hidden folders (".git")
  /// and symlinks to folders. A tensor in two files is `errc::duplicate_tensor`.
  bool independent_files = false;
  unnamed_dtypes nameless = {};
};

/// Reads the catalog of a checkpoint, with the sources of `loader::open_async`: one source, or
/// several files with tensors of their own. `extensions` are the extensions of a loader.
RINGLOAD_EXPORT catalog read_catalog(std::string_view source, const open_options& options,
                                     const std::vector<extension>& extensions = {});
RINGLOAD_EXPORT catalog read_catalog(const std::vector<std::string>& files,
                                     const open_options& options,
                                     const std::vector<extension>& extensions = {});

/// The result of `loader::open_async`: its files are open and its catalog is read. A handle, cheap
/// to copy. The files are closed with the last copy and the last load. The functions may be called
/// from any thread. Any loader may load from it.
///
/// A load from an open checkpoint opens and parses nothing. If a file was modified in place since
/// it was opened, the load fails with `errc::changed_file`. If a file was renamed or removed, the
/// load still reads the opened file.
class RINGLOAD_EXPORT checkpoint {
 public:
  /// An empty handle: only assignment, destruction and operator bool are allowed.
  checkpoint() noexcept = default;
  explicit checkpoint(std::shared_ptr<const detail::opened_checkpoint> source) noexcept;

  explicit operator bool() const noexcept { return opened_ != nullptr; }

  /// Valid as long as any copy of this handle.
  const ringload::catalog& catalog() const noexcept;

  /// Returns the tensor `name`, or null. The first call sorts the names.
  const tensor_info* find(std::string_view name) const noexcept;
  /// Returns the tensor `name`. Throws `errc::no_such_tensor`, or the error of a tensor that cannot
  /// be loaded: see `catalog::unreadable`.
  const tensor_info& at(std::string_view name) const;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// Returns the names that match, in catalog order. The syntax of globs is described at
  /// `selection`.
  std::vector<std::string_view> matching(std::string_view glob) const;

  /// Returns a selection of the tensor `name` alone: `co_await loader.load_async(file,
  /// file["wte.weight"])`. Throws `errc::no_such_tensor`.
  selection operator[](std::string_view name) const;

  std::size_t size() const noexcept { return catalog().tensors.size(); }
  bool empty() const noexcept { return size() == 0; }
  std::vector<tensor_info>::const_iterator begin() const noexcept {
    return catalog().tensors.begin();
  }
  std::vector<tensor_info>::const_iterator end() const noexcept { return catalog().tensors.end(); }

  const std::shared_ptr<const detail::opened_checkpoint>& opened() const noexcept {
    return opened_;
  }

 private:
  std::shared_ptr<const detail::opened_checkpoint> opened_;
};

/// Returns an empty selection, like `select()`. The argument only documents the checkpoint.
inline selection select(const checkpoint&) { return {}; }

}  // namespace ringload::inline v0
