// SPDX-License-Identifier: Apache-2.0
#include "plan/read_cursor.hpp"

#include <cerrno>

namespace ringload::inline v0 {

result<std::optional<read_cursor::step>> read_cursor::completed(int res) {
  if (res == -EINTR || res == -EAGAIN) {
    if (++retries_in_a_row_ > retries_max) return fault{system_code(-res), ""};
    ++retries_;
    return std::optional{resume()};
  }
  if (res < 0) return fault{system_code(-res), ""};

  const std::uint32_t reached = arrived_ + static_cast<std::uint32_t>(res);
  if (reached >= op_.bytes_needed) return std::optional<step>{};

  // Direct I/O can resume only at an aligned offset, so a partly read block is read again. If a
  // read made no progress by a whole unit, it would be repeated forever: the file ends here.
  const std::uint32_t resumable = reached / alignment_ * alignment_;
  if (resumable == arrived_) {
    reached_ = reached;
    return fault{errc::truncated_file, "", "the file is shorter than it was when it was opened"};
  }
  arrived_ = resumable;
  reached_ = resumable;
  retries_in_a_row_ = 0;
  ++short_reads_;
  return std::optional{resume()};
}

}  // namespace ringload::inline v0
