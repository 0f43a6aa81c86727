// SPDX-License-Identifier: Apache-2.0

#include "ranks/check_same_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <ringload/verify.hpp>

#include "base/printable.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::size_t shown_bytes_max = 400;

// The call of one rank: the size and the digest of its text. For error messages, also the first
// bytes of the text.
struct call_summary {
  std::uint64_t bytes = 0;
  std::uint32_t digest = 0;
  std::uint32_t shown_bytes = 0;
  std::array<char, shown_bytes_max> shown = {};

  std::string text() const {
    const std::size_t count = std::min<std::size_t>(shown_bytes, shown.size());
    return printable({shown.data(), count}, shown_bytes_max);
  }
  friend bool operator==(const call_summary&, const call_summary&) noexcept = default;
};

// The first rank whose call differs from rank 0's call, and the calls of these two ranks. If no
// call differs, `rank` is 0.
struct verdict {
  std::uint32_t rank = 0;
  call_summary found;
  call_summary expected;
};

template <class T>
std::span<std::byte> bytes_of(T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

call_summary summary_of(const std::string& text) {
  call_summary out;
  out.bytes = text.size();
  out.digest = crc32c(std::as_bytes(std::span(text)));
  out.shown_bytes = static_cast<std::uint32_t>(std::min(text.size(), shown_bytes_max));
  std::memcpy(out.shown.data(), text.data(), out.shown_bytes);
  return out;
}

}  // namespace

result<void> check_same_call(group& rank_group, const std::string& call) {
  call_summary summary = summary_of(call);
  verdict outcome;
  if (rank_group.rank() != 0) {
    rank_group.send(bytes_of(summary), 0);
  } else {
    outcome.expected = summary;
    for (std::uint32_t rank = 1; rank < rank_group.size(); ++rank) {
      call_summary peer;
      rank_group.receive(bytes_of(peer), rank);
      if (peer == summary || outcome.rank != 0) continue;
      outcome.rank = rank;
      outcome.found = peer;
    }
  }
  rank_group.broadcast(bytes_of(outcome), 0);
  if (outcome.rank == 0) return {};
  return fault{
      errc::mismatched_call, "rank " + std::to_string(outcome.rank),
      "it calls " + outcome.found.text() + ", but rank 0 calls " + outcome.expected.text()};
}

}  // namespace ringload::inline v0::detail
