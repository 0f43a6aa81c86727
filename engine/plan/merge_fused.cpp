// SPDX-License-Identifier: Apache-2.0

#include "plan/merge_fused.hpp"

#include <algorithm>
#include <utility>

namespace ringload::inline v0 {

void merge_fused(const plan_input& input, plan& new_plan) {
  const std::span<const std::uint32_t> result_of = input.result_of;
  for (part& p : new_plan.parts) p.tensor = result_of[p.tensor];
  for (stream_output& o : new_plan.outputs) o.tensor = result_of[o.tensor];
  for (fill_op& f : new_plan.fills) f.tensor = result_of[f.tensor];
  std::vector<placement> tensors(result_of.back() + std::size_t{1});
  for (std::size_t t = 0; t < result_of.size(); ++t) {
    const placement& fused_part = new_plan.tensors[t];
    placement& whole = tensors[result_of[t]];
    if (t == 0 || result_of[t] != result_of[t - 1]) {
      whole = fused_part;
      const tensor_form* const form = input.tensors[t].form;
      if (form && form->block != tensor_form::no_block) {
        whole.destination_offset = new_plan.blocks[form->block];
      }
      continue;
    }
    whole.bytes += fused_part.bytes;
    // A tensor without bytes has no parts in the plan.
    if (fused_part.parts_begin == fused_part.parts_end) continue;
    const bool empty = whole.parts_begin == whole.parts_end;
    whole.parts_begin =
        empty ? fused_part.parts_begin : std::min(whole.parts_begin, fused_part.parts_begin);
    whole.parts_end =
        empty ? fused_part.parts_end : std::max(whole.parts_end, fused_part.parts_end);
  }
  new_plan.tensors = std::move(tensors);
}

}  // namespace ringload::inline v0
