// SPDX-License-Identifier: Apache-2.0
#include "io/writers/write_cursor.hpp"

#include <cerrno>

namespace ringload::inline v0 {

result<bool> write_cursor::completed(int res) {
  if (res == -EINTR || res == -EAGAIN) {
    if (++retries_in_a_row_ > retries_max) return fault{system_code(-res), ""};
    return false;
  }
  if (res < 0) return fault{system_code(-res), ""};
  const std::uint32_t reached = written_ + static_cast<std::uint32_t>(res);
  if (reached >= bytes_) {
    written_ = bytes_;
    return true;
  }
  // Direct I/O can resume only at a whole unit, so a partly written unit is written again. If a
  // write made no progress by a whole unit, it would be repeated forever. A full disk first appears
  // like this.
  const std::uint32_t resumable = reached / unit_ * unit_;
  if (resumable == written_) {
    if (++retries_in_a_row_ > 1) {
      return fault{system_code(EIO), "",
                   "the file system accepts no more bytes and gives no reason"};
    }
    return false;
  }
  written_ = resumable;
  retries_in_a_row_ = 0;
  return false;
}

}  // namespace ringload::inline v0
