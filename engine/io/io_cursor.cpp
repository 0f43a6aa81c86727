// SPDX-License-Identifier: Apache-2.0

#include "io/io_cursor.hpp"

#include <cerrno>
#include <utility>

namespace ringload::inline v0 {

result<std::optional<io_cursor::step>> io_cursor::completed(int res) {
  if (res == -EINTR || res == -EAGAIN) {
    if (++retries_in_a_row_ > retries_max) return fault{system_code(-res), ""};
    ++retries_;
    return std::optional{resume()};
  }
  if (res < 0) return fault{system_code(-res), ""};

  const std::uint32_t reached = resumable_ + static_cast<std::uint32_t>(res);
  if (reached >= bytes_needed_) return std::optional<step>{};

  // Direct I/O can resume only at a whole unit, so a unit that was transferred in part is requested
  // again. If less than one unit was transferred, a read fails, because the file has ended. A write
  // is tried once more, because on a full disk only the second write returns an error.
  const std::uint32_t resumable = reached / unit_ * unit_;
  if (resumable == resumable_) {
    reached_ = reached;
    if (!is_write_) {
      return fault{errc::truncated_file, "", "the file is shorter than it was when it was opened"};
    }
    if (std::exchange(stalled_, true)) {
      return fault{system_code(EIO), "",
                   "the file system accepts no more bytes and gives no reason"};
    }
    return std::optional{resume()};
  }
  resumable_ = resumable;
  reached_ = resumable;
  stalled_ = false;
  retries_in_a_row_ = 0;
  ++short_transfers_;
  return std::optional{resume()};
}

}  // namespace ringload::inline v0
