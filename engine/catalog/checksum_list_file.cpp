// SPDX-License-Identifier: Apache-2.0

// Reads a checksum list from a file. The user chooses the file, so the path is not restricted to a
// folder.

#include <fcntl.h>

#include <cerrno>
#include <ringload/verify.hpp>

#include "base/printable.hpp"
#include "catalog/source_file.hpp"
#include "formats/checksum_list.hpp"

namespace ringload::inline v0 {

namespace {

// This limit is enough for a list of a million tensors.
constexpr std::uint64_t checksum_list_bytes_max = std::uint64_t{256} << 20;

result<checksum_list> read(const std::string& path) {
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd) return fault{system_code(errno), ""};
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error();
  if (file->bytes > checksum_list_bytes_max) {
    return fault{errc::malformed_checksum_list, "",
                 "the checksum list has " + grouped(file->bytes) + " bytes, the limit is " +
                     grouped(checksum_list_bytes_max)};
  }
  auto bytes = read_bytes(*file, 0, static_cast<std::size_t>(file->bytes));
  if (!bytes) return bytes.error();
  return parse_checksum_text(
      std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()), path);
}

}  // namespace

checksum_list read_checksum_list(const std::string& path) {
  auto list = read(path);
  if (list) return std::move(*list);
  const fault& problem = list.error();
  // The fault of an invalid line already has the path.
  throw to_error(problem.where().empty() ? problem.in(printable_path(path)) : problem);
}

}  // namespace ringload::inline v0
