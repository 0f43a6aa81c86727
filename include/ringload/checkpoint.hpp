// SPDX-License-Identifier: Apache-2.0
#pragma once

// An open checkpoint. Any number of loads can use the checkpoint.

#include <cstddef>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/export.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

namespace detail {
struct opened_checkpoint;
}

/// A checkpoint whose files are open and whose catalog is read: the result of `loader::open_async`.
/// The object is a handle and is cheap to copy. The files are closed when the last copy of the
/// handle is destroyed and the last load has ended. Any loader may load from the checkpoint. All
/// functions are thread-safe.
///
/// A load from an open checkpoint does not open or parse files. If a file was modified in place
/// after the checkpoint was opened, the load fails with `errc::changed_file`. If a file was renamed
/// or removed, the load still reads the file that was opened.
class RINGLOAD_EXPORT checkpoint {
 public:
  /// Creates an empty handle. An empty handle supports only operator bool, assignment and
  /// destruction.
  checkpoint() noexcept = default;
  /// Internal: called by the library only.
  explicit checkpoint(std::shared_ptr<const detail::opened_checkpoint> source) noexcept;

  /// Returns false for an empty handle.
  explicit operator bool() const noexcept { return opened_ != nullptr; }

  /// Returns the catalog. The reference is valid as long as a copy of this handle exists.
  const ringload::catalog& catalog() const noexcept;

  /// Returns the description of the tensor `name`, or null if the checkpoint does not have the
  /// tensor. The first call builds an index of all names.
  const tensor_info* find(std::string_view name) const noexcept;
  /// Returns the description of the tensor `name`. Throws `errc::no_such_tensor` if the checkpoint
  /// does not have the tensor. If the tensor cannot be loaded, throws the error in
  /// `catalog::unreadable`.
  const tensor_info& at(std::string_view name) const;
  /// Returns true if the checkpoint has the tensor `name`.
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// Returns the names of the tensors that match `glob`, in the order of the catalog. The comment
  /// of `selection` describes globs.
  std::vector<std::string_view> matching(std::string_view glob) const;

  /// Returns a selection of the single tensor `name`. Throws the same errors as at().
  selection only(std::string_view name) const;

  /// Returns the number of tensors that can be loaded.
  std::size_t size() const noexcept { return catalog().tensors.size(); }
  /// Returns true if no tensor can be loaded.
  bool empty() const noexcept { return size() == 0; }
  /// Returns an iterator to the first tensor in the order of the catalog.
  std::vector<tensor_info>::const_iterator begin() const noexcept {
    return catalog().tensors.begin();
  }
  /// Returns the iterator behind the last tensor.
  std::vector<tensor_info>::const_iterator end() const noexcept { return catalog().tensors.end(); }

  /// Internal: called by the library only.
  const std::shared_ptr<const detail::opened_checkpoint>& opened() const noexcept {
    return opened_;
  }

 private:
  std::shared_ptr<const detail::opened_checkpoint> opened_;
};

}  // namespace ringload::inline v0
