// SPDX-License-Identifier: Apache-2.0
#pragma once

// The location of a checkpoint: the first argument of loads.

#include <concepts>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/detail/path_object.hpp>
#include <ringload/export.hpp>
#include <ringload/extension.hpp>
#include <ringload/options.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ringload::inline v0 {

struct found_source;

namespace detail {
struct source_parts;
}

/// A checkpoint that will be opened, or a checkpoint that is already open. All conversions are
/// implicit.
class RINGLOAD_EXPORT source {
 public:
  /// The name of a checkpoint: a path of a file, a folder or a shard index,
  /// `owner/model[@revision]` in the local Hugging Face cache, or a name in the store of an
  /// extension. The address of a model page, https://huggingface.co/owner/model, means the same as
  /// `owner/model`.
  source(std::string name);
  /// The name of a checkpoint. The name is copied.
  source(std::string_view name);
  /// The name of a checkpoint, as a zero-terminated string. The name is copied.
  source(const char* name);
  /// A std::filesystem::path, or an object of a similar class.
  template <detail::path_object Path>
  source(const Path& path) : source(std::string_view(path.native())) {}

  /// Several files that together form one checkpoint. The files must have different tensors.
  source(std::vector<std::string> files);
  /// Several files, as std::filesystem::path or as objects of a similar class.
  template <detail::path_object Path>
  source(const std::vector<Path>& files) : source(detail::names_of(files)) {}
  /// Several files: `{"a.safetensors", "b.safetensors"}`. This constructor is a template, because
  /// g++ 12 refuses a std::initializer_list in a co_await expression.
  template <std::convertible_to<std::string_view>... More>
    requires(sizeof...(More) > 0)
  source(std::string_view first, const More&... more)
      : source(
            std::vector<std::string>{std::string(first), std::string(std::string_view(more))...}) {}

  /// An object of a store, or the result of `from_memory()`: see <ringload/byte_source.hpp>.
  source(found_source object);
  /// A checkpoint that is already open. No file is opened or parsed again.
  source(ringload::checkpoint opened);

  /// Copies the names. An open checkpoint is shared by both sources.
  source(const source& original);
  /// Takes over the names. Afterwards, `original` may only be assigned to or destroyed.
  source(source&& original) noexcept;
  /// Replaces the names by copies of the names of `original`.
  source& operator=(const source& original);
  /// Replaces the names. Afterwards, `original` may only be assigned to or destroyed.
  source& operator=(source&& original) noexcept;
  ~source();

  /// Internal: called by the library only.
  const detail::source_parts& parts() const noexcept;

 private:
  std::unique_ptr<detail::source_parts> parts_;  // Null after a move.
};

/// Reads the catalog of a checkpoint. Needs no loader, and does not read the bytes of tensors.
/// `extensions` has the same meaning as for a loader. Blocks during file system and network
/// operations. Throws `ringload::error`.
RINGLOAD_EXPORT catalog read_catalog(const source& from, const open_options& options = {},
                                     const std::vector<extension>& extensions = {});

}  // namespace ringload::inline v0
