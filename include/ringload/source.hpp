// SPDX-License-Identifier: Apache-2.0
#pragma once

// The class `source`, which refers to a checkpoint. The first argument of every load is a source.

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

/// Refers to a checkpoint that will be opened, or to a checkpoint that is already open. All
/// constructors are implicit conversions.
class RINGLOAD_EXPORT source {
 public:
  /// Refers to a checkpoint by its name. The name is the path of a file, a folder or a shard index.
  /// The name can also be `owner/model[@revision]` in the local Hugging Face cache, or a name in
  /// the store of an extension. The address of a model page, https://huggingface.co/owner/model,
  /// refers to the same model as `owner/model`. With the extension `remote()`, the hub resolves the
  /// address: see <ringload/hub.hpp>.
  source(std::string name);
  /// Refers to a checkpoint by its name. The name is copied.
  source(std::string_view name);
  /// Refers to a checkpoint by its name, a zero-terminated string. The name is copied.
  source(const char* name);
  /// Refers to a checkpoint by its path. `Path` is std::filesystem::path or a similar class.
  template <detail::path_object Path>
  source(const Path& path) : source(std::string_view(path.native())) {}

  /// Refers to several files that together form one checkpoint. The files must have different
  /// tensors.
  source(std::vector<std::string> files);
  /// Refers to several files by their paths. `Path` is std::filesystem::path or a similar class.
  template <detail::path_object Path>
  source(const std::vector<Path>& files) : source(detail::names_of(files)) {}
  /// Refers to several files by their names or paths, for example
  /// `{"a.safetensors", folder / "b.safetensors"}`. This constructor is a template, because g++ 12
  /// refuses a std::initializer_list in a co_await expression.
  template <std::convertible_to<detail::path_argument>... More>
    requires(sizeof...(More) > 0)
  source(detail::path_argument first, const More&... more)
      : source(std::vector<std::string>{std::move(first).take(),
                                        detail::path_argument(more).take()...}) {}

  /// Refers to an object of a store, or to a file in memory: see <ringload/byte_source.hpp>.
  source(found_source object);
  /// Refers to a checkpoint that is already open. No file is opened or parsed again.
  source(ringload::checkpoint opened);

  /// Copies the names. If `original` refers to an open checkpoint, both sources share the
  /// checkpoint.
  source(const source& original);
  /// Moves the names. Afterwards, `original` may only be assigned to or destroyed.
  source(source&& original) noexcept;
  /// Replaces the names by copies of the names of `original`.
  source& operator=(const source& original);
  /// Replaces the names by the names of `original`. Afterwards, `original` may only be assigned to
  /// or destroyed.
  source& operator=(source&& original) noexcept;
  ~source();

  /// Internal: called by the library only.
  const detail::source_parts& parts() const noexcept;

 private:
  std::unique_ptr<detail::source_parts> parts_;  // Null after a move.
};

/// Reads the catalog of a checkpoint. The function needs no loader, and does not read the bytes of
/// tensors. `extensions` has the same meaning as for a loader. Blocks during file system and
/// network operations. Throws `ringload::error`.
RINGLOAD_EXPORT catalog read_catalog(const source& from, const open_options& options = {},
                                     const std::vector<extension>& extensions = {});

}  // namespace ringload::inline v0
