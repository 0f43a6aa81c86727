// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint that was opened once, for any number of loads.

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

/// How a checkpoint is opened.
struct open_options {
  ringload::strictness strictness = ringload::strictness::strict;
  /// The source is a folder, a prefix of S3 or a model, and each file in it whose name is that of a
  /// checkpoint is taken for itself: indices and series mean nothing. Sub-folders are searched, but
  /// for hidden ones (".git") and symlinks to folders. A tensor in two files is
  /// `errc::duplicate_tensor`.
  bool independent_files = false;
  unnamed_dtypes nameless = {};
};

/// Reads the catalog of a checkpoint as the other forms of `ringload::read_catalog` do, and as
/// `loader::open_async` takes it: one source, or several files, each with tensors of its own.
/// `with` is what a loader would be made with.
RINGLOAD_EXPORT catalog read_catalog(std::string_view source, const open_options& how,
                                     const std::vector<extension>& with = {});
RINGLOAD_EXPORT catalog read_catalog(const std::vector<std::string>& files, const open_options& how,
                                     const std::vector<extension>& with = {});

/// What `loader::open_async` gives: its files are open and its catalog is read. A handle, free to
/// copy; the files are closed with the last copy and the last load from it. Its functions may be
/// called from any thread. It belongs to no loader: any may load from it.
///
/// A load from it opens and parses nothing. If a file was written to or replaced by other bytes in
/// place since it was opened, the load fails with `errc::changed_file`; a file that was only
/// renamed or removed is still the one that was opened.
class RINGLOAD_EXPORT checkpoint {
 public:
  /// Not a checkpoint: only assignment, destruction and a test for that are allowed.
  checkpoint() noexcept = default;
  explicit checkpoint(std::shared_ptr<const detail::opened_checkpoint> of) noexcept;

  explicit operator bool() const noexcept { return of_ != nullptr; }

  /// Valid as long as a copy of this is.
  const ringload::catalog& catalog() const noexcept;

  /// The tensor of that name, or null. The first call sorts the names.
  const tensor_info* find(std::string_view name) const noexcept;
  /// The same; throws `errc::no_such_tensor`, or why the tensor cannot be loaded: see
  /// `catalog::unreadable`.
  const tensor_info& at(std::string_view name) const;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// The names that match, in the catalog's order. Globs as in `selection`.
  std::vector<std::string_view> matching(std::string_view glob) const;

  /// That tensor alone, for a load: `co_await loader.load_async(file, file["wte.weight"])`. Throws
  /// `errc::no_such_tensor`.
  selection operator[](std::string_view name) const;

  std::size_t size() const noexcept { return catalog().tensors.size(); }
  bool empty() const noexcept { return size() == 0; }
  std::vector<tensor_info>::const_iterator begin() const noexcept {
    return catalog().tensors.begin();
  }
  std::vector<tensor_info>::const_iterator end() const noexcept { return catalog().tensors.end(); }

  const std::shared_ptr<const detail::opened_checkpoint>& opened() const noexcept { return of_; }

 private:
  std::shared_ptr<const detail::opened_checkpoint> of_;
};

/// Chooses from that checkpoint: the same as `select()`, for who likes to read what from.
inline selection select(const checkpoint&) { return {}; }

}  // namespace ringload::inline v0
