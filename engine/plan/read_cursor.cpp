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

  // Direct I/O resumes only on an aligned offset, so a block that arrived in part is read again.
  // Without one whole unit of progress it would be read forever: the file ends here.
  const std::uint32_t resumable = reached / alignment_ * alignment_;
  if (resumable == arrived_) {
    reached_ = reached;
    return fault{errc::truncated_file, "",
                 "the file ends here, but it was longer when it was opened"};
  }
  arrived_ = resumable;
  reached_ = resumable;
  retries_in_a_row_ = 0;
  ++short_reads_;
  return std::optional{resume()};
}

}  // namespace ringload::inline v0
