// SPDX-License-Identifier: Apache-2.0

// A manifest on disk: named by a person, so any readable regular file will do, wherever it lies.

#include <fcntl.h>

#include <cerrno>
#include <ringload/verify.hpp>

#include "base/printable.hpp"
#include "catalog/source_file.hpp"
#include "formats/checksum_list.hpp"

namespace ringload::inline v0 {

namespace {

// Names of a million tensors fit.
constexpr std::uint64_t manifest_bytes_max = std::uint64_t{256} << 20;

result<manifest> read(const std::string& path) {
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd) return fault{system_code(errno), ""};
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error();
  if (file->bytes > manifest_bytes_max) {
    return fault{errc::malformed_manifest, "",
                 grouped(file->bytes) + " bytes are more than the " + grouped(manifest_bytes_max) +
                     " that a manifest may have"};
  }
  auto bytes = read_bytes(*file, 0, static_cast<std::size_t>(file->bytes));
  if (!bytes) return bytes.error();
  return parse_manifest_text(
      std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()), path);
}

}  // namespace

manifest read_manifest(const std::string& path) {
  auto found = read(path);
  if (found) return std::move(*found);
  const fault& problem = found.error();
  // A line has the path before it already.
  throw to_error(problem.where.empty() ? problem.in(printable_path(path)) : problem);
}

}  // namespace ringload::inline v0
