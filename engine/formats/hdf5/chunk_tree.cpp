// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/chunk_tree.hpp"

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <utility>

namespace ringload::inline v0::h5 {

namespace {

constexpr std::uint64_t block_bytes_max = std::uint64_t{1} << 20;
constexpr std::size_t blocks_max = 64;  // Limit for one object header.
constexpr unsigned message_layout = 8;
constexpr unsigned message_continuation = 16;

// A block of bytes of the file. If number() reads past the end of the block, number() returns 0,
// and is_valid() becomes false.
class block {
 public:
  block(const tree_place& from, std::uint64_t address, std::uint64_t bytes) {
    constexpr auto offset_max = static_cast<std::uint64_t>(std::numeric_limits<::off_t>::max());
    if (bytes > block_bytes_max || address > offset_max - block_bytes_max ||
        from.base > offset_max - block_bytes_max - address) {
      return;
    }
    bytes_.resize(static_cast<std::size_t>(bytes));
    const ::ssize_t got =
        ::pread(from.file, bytes_.data(), bytes_.size(), static_cast<::off_t>(from.base + address));
    bytes_.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    is_valid_ = bytes_.size() == bytes;
  }

  bool is_valid() const noexcept { return is_valid_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  std::uint64_t number(std::size_t position, std::size_t width) noexcept {
    if (position > bytes_.size() || width > bytes_.size() - position) {
      is_valid_ = false;
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) value = value << 8U | bytes_[position + i];
    return value;
  }
  bool begins_with(std::string_view text) const noexcept {
    return bytes_.size() >= text.size() &&
           std::memcmp(bytes_.data(), text.data(), text.size()) == 0;
  }

 private:
  std::vector<std::uint8_t> bytes_;
  bool is_valid_ = false;
};

struct extent {
  std::uint64_t address;
  std::uint64_t bytes;
};

// Reads an object header of version 1 or 2, up to its layout message.
class header_reader {
 public:
  explicit header_reader(const tree_place& place) : place_(place) {}

  // Returns the address of the tree's root.
  std::optional<std::uint64_t> find_tree() {
    block first(place_, place_.header, prefix_bytes);
    if (!first.is_valid()) return std::nullopt;
    if (first.begins_with("OHDR")) {
      begin_version_2(first);
    } else if (first.number(0, 1) == 1) {
      blocks_.push_back({place_.header + prefix_bytes, first.number(8, 4)});
    }
    for (std::size_t i = 0; i < blocks_.size() && i < blocks_max && !tree_; ++i) {
      read_messages(blocks_[i], i > 0);
    }
    return tree_;
  }

 private:
  static constexpr std::size_t prefix_bytes = 16;

  void begin_version_2(block& first) {
    version_2_ = true;
    flags_ = static_cast<unsigned>(first.number(5, 1));
    std::uint64_t position = 6;
    if ((flags_ & 0x20U) != 0) position += 16;
    if ((flags_ & 0x10U) != 0) position += 4;
    const std::uint64_t width = std::uint64_t{1} << (flags_ & 3U);
    block size(place_, place_.header + position, width);
    blocks_.push_back(
        {place_.header + position + width, size.number(0, static_cast<std::size_t>(width))});
  }

  void read_messages(const extent& header_block, bool continued) {
    block in(place_, header_block.address, header_block.bytes);
    std::size_t position = 0;
    std::size_t end = in.size();
    if (version_2_ && continued) {
      if (!in.begins_with("OCHK") || end < 8) return;
      position = 4;
      end -= 4;  // Excludes the checksum of the block.
    }
    const std::size_t head = !version_2_ ? 8 : (flags_ & 4U) != 0 ? 6 : 4;
    while (in.is_valid() && !tree_ && position + head <= end) {
      const auto type = static_cast<unsigned>(in.number(position, version_2_ ? 1 : 2));
      const auto bytes = static_cast<std::size_t>(in.number(position + (version_2_ ? 1 : 2), 2));
      position += head;
      if (type == message_continuation) {
        blocks_.push_back({in.number(position, 8), in.number(position + 8, 8)});
      } else if (type == message_layout) {
        read_layout(in, position);
      }
      position += bytes;
    }
  }

  // Reads a layout message of version 1 to 3. Later versions have another chunk index.
  void read_layout(block& in, std::size_t position) {
    const std::uint64_t version = in.number(position, 1);
    const bool is_version_3 = version == 3;
    const std::uint64_t kind = in.number(position + (is_version_3 ? 1 : 2), 1);
    const std::uint64_t dimensions = in.number(position + (is_version_3 ? 2 : 1), 1);
    if (version < 1 || version > 3 || kind != 2 || dimensions != place_.rank + 1) return;
    const std::uint64_t address = in.number(position + (is_version_3 ? 3 : 8), 8);
    if (in.is_valid()) tree_ = address;
  }

  const tree_place& place_;
  bool version_2_ = false;
  unsigned flags_ = 0;
  std::deque<extent> blocks_;
  std::optional<std::uint64_t> tree_;
};

// Reads a tree in order, from its root. The level of a child must be lower than the level of its
// parent, so the recursion ends.
class tree_reader {
 public:
  tree_reader(const tree_place& place, std::uint64_t count) : place_(place), count_(count) {}

  bool read(std::uint64_t node, unsigned parent_level) {
    block head(place_, node, head_bytes);
    const auto level = static_cast<unsigned>(head.number(5, 1));
    const std::uint64_t entries = head.number(6, 2);
    if (!head.is_valid() || !head.begins_with("TREE") || head.number(4, 1) != 1 ||
        level >= parent_level || ++nodes_ > 2 * count_ + 64) {
      return false;
    }
    const std::size_t key_bytes = 8 + 8 * (place_.rank + 1);
    const std::size_t entry_bytes = key_bytes + 8;
    block in(place_, node + head_bytes, entries * entry_bytes);
    for (std::size_t i = 0; i < entries && in.is_valid(); ++i) {
      const std::size_t key = i * entry_bytes;
      const std::uint64_t child = in.number(key + key_bytes, 8);
      if (level > 0) {
        if (!read(child, level)) return false;
        continue;
      }
      if (out_.chunks.size() == count_) return false;
      out_.chunks.push_back({child, static_cast<std::uint32_t>(in.number(key, 4)),
                             static_cast<std::uint32_t>(in.number(key + 4, 4))});
      for (std::size_t d = 0; d < place_.rank; ++d) {
        out_.origins.push_back(in.number(key + 8 + 8 * d, 8));
      }
    }
    return in.is_valid();
  }
  tree_chunks take() { return std::move(out_); }

 private:
  static constexpr std::size_t head_bytes = 24;

  const tree_place& place_;
  const std::uint64_t count_;
  std::uint64_t nodes_ = 0;
  tree_chunks out_;
};

}  // namespace

std::optional<tree_chunks> read_chunk_tree(const tree_place& place, std::uint64_t count) {
  constexpr unsigned levels_max = 16;
  const auto root = header_reader(place).find_tree();
  if (!root) return std::nullopt;
  tree_reader tree(place, count);
  if (!tree.read(*root, levels_max)) return std::nullopt;
  tree_chunks tree_content = tree.take();
  if (tree_content.chunks.size() != count) return std::nullopt;
  return tree_content;
}

}  // namespace ringload::inline v0::h5
