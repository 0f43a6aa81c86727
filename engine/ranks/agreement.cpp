// SPDX-License-Identifier: Apache-2.0
#include "ranks/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <ringload/verify.hpp>

#include "formats/printable.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::size_t shown_bytes_max = 400;

// What a rank does: the length and a digest of the text, and as much of it as is shown.
struct doing {
  std::uint64_t bytes = 0;
  std::uint32_t digest = 0;
  std::uint32_t shown_bytes = 0;
  std::array<char, shown_bytes_max> shown = {};

  std::string text() const {
    const std::size_t count = std::min<std::size_t>(shown_bytes, shown.size());
    return printable({shown.data(), count}, shown_bytes_max);
  }
  friend bool operator==(const doing&, const doing&) noexcept = default;
};

// The first rank that does something else; 0: none.
struct verdict {
  std::uint32_t rank = 0;
  doing instead;
  doing of_first;
};

template <class T>
std::span<std::byte> bytes_of(T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

doing summary_of(const std::string& text) {
  doing out;
  out.bytes = text.size();
  out.digest = crc32c(std::as_bytes(std::span(text)));
  out.shown_bytes = static_cast<std::uint32_t>(std::min(text.size(), shown_bytes_max));
  std::memcpy(out.shown.data(), text.data(), out.shown_bytes);
  return out;
}

}  // namespace

result<void> agree(group& all, const std::string& does) {
  doing own = summary_of(does);
  verdict said;
  if (all.rank() != 0) {
    all.send(bytes_of(own), 0);
  } else {
    said.of_first = own;
    for (std::uint32_t rank = 1; rank < all.size(); ++rank) {
      doing other;
      all.receive(bytes_of(other), rank);
      if (other == own || said.rank != 0) continue;
      said.rank = rank;
      said.instead = other;
    }
  }
  all.broadcast(bytes_of(said), 0);
  if (said.rank == 0) return {};
  return fault{errc::mismatched_call, "rank " + std::to_string(said.rank),
               "it does " + said.instead.text() + ", and rank 0 does " + said.of_first.text()};
}

}  // namespace ringload::inline v0::detail
