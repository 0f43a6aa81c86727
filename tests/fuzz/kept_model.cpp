// SPDX-License-Identifier: Apache-2.0

// For any reply of a keeper, the result is a fault or tensors inside the received memory.

#include <algorithm>

#include "base/numeric/convert.hpp"
#include "fuzz.hpp"
#include "keeper/description.hpp"
#include "keeper/messages.hpp"

namespace {

void check(const ringload::detail::kept_description& all, std::uint64_t region_bytes) {
  using ringload::testing::hold;
  hold(all.tensors.size() == all.contents.tensors.size(), "each tensor has a place");
  for (std::size_t t = 0; t < all.tensors.size(); ++t) {
    const ringload::tensor_info& info = all.contents.tensors[t];
    const ringload::detail::kept_tensor& at = all.tensors[t];
    const std::uint64_t bytes =
        at.cast.needed() ? info.bytes / at.cast.from_bytes() * at.cast.to_bytes() : info.bytes;
    hold(info.file < all.contents.files.size(), "its file is listed");
    hold(at.region == 0, "it lies in memory that came");
    hold(at.offset <= region_bytes && bytes <= region_bytes - at.offset, "and ends there");
    const auto type = at.cast.needed() ? ringload::dtype_of(at.cast.to) : info.dtype;
    hold(at.offset % ringload::alignment(type) == 0, "and is aligned");
    hold(std::ranges::count(all.contents.tensors, info.name, &ringload::tensor_info::name) == 1,
         "and is alone of its name");
  }
  const auto again = ringload::detail::unpack_description(pack(all), {{region_bytes}});
  hold(again.has_value(), "what was accepted is accepted again");
}

}  // namespace

// The size of the region, then the description.
int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(input, size));
  (void)ringload::detail::unpack_request(bytes);
  (void)ringload::detail::unpack_reply(bytes);
  ringload::testing::number_source head(bytes.first(std::min<std::size_t>(size, 4)));
  const std::uint64_t regions[] = {head.take(4)};
  const auto found =
      ringload::detail::unpack_description(bytes.subspan(std::min<std::size_t>(size, 4)), regions);
  if (found) {
    check(*found, regions[0]);
  } else {
    const std::string text = ringload::message_of(found.error());
    ringload::testing::hold(!text.empty(), "a refusal says something");
  }
  return 0;
}
