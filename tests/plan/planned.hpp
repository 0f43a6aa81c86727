// SPDX-License-Identifier: Apache-2.0
#pragma once

// Short descriptions of extents and plans, for tests that compare plans with numbers.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "plan/make_plan.hpp"

namespace ringload::testing {

inline constexpr std::uint64_t kib = 1024;
inline constexpr std::uint64_t mib = 1024 * kib;
inline constexpr std::uint64_t slot = 2 * mib;
inline constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

inline placement_rules host_rules() {
  placement_rules rules;
  rules.unstaged = true;
  return rules;
}

inline placement_rules cuda_like_rules() {
  placement_rules rules;
  rules.tensor_alignment = 256;
  return rules;
}

inline wanted_tensor wanted(std::uint64_t offset, std::uint64_t bytes, std::uint32_t alignment = 1,
                            std::uint32_t file = 0) {
  return {file, alignment, offset, bytes};
}

inline result<plan> try_plan(const std::vector<wanted_tensor>& tensors,
                             const placement_rules& rules, std::uint64_t slot_bytes,
                             std::uint64_t arena_bytes_max) {
  plan_input all;
  all.tensors = tensors;
  plan_limits within = {slot_bytes};
  within.arena_bytes_max = arena_bytes_max;
  return make_plan(all, rules, within);
}

inline plan planned(const std::vector<wanted_tensor>& tensors, const placement_rules& rules,
                    std::uint64_t slot_bytes = slot) {
  return try_plan(tensors, rules, slot_bytes, no_limit).value();
}

// The number of reads or streams that a part waits for.
inline std::uint32_t completions_needed(const part& p) {
  return p.stream == no_index ? p.reads_end - p.reads_begin : 1;
}

// The part of a tensor with one route. For a tensor of 0 bytes, a part without reads.
inline part part_of(const plan& p, std::size_t tensor) {
  const placement& of = p.tensors[tensor];
  for (std::uint32_t i = of.parts_begin; i < of.parts_end; ++i) {
    if (p.parts[i].tensor == tensor) return p.parts[i];
  }
  return {static_cast<std::uint32_t>(tensor), 0, 0};
}

// Returns true if the read lists the tensor.
inline bool feeds(const plan& p, std::uint32_t read, std::size_t tensor) {
  for (std::uint32_t i = p.reads[read].parts_begin; i < p.reads[read].parts_end; ++i) {
    if (p.parts[i].tensor == tensor && p.parts[i].is_fed_by(read)) return true;
  }
  return false;
}

// The requested range and the destination of a read.
struct asked {
  std::uint64_t file_offset;
  std::uint64_t destination_offset;  // Or read_op::staged.
  std::uint64_t bytes;
  std::uint64_t bytes_needed;
  friend bool operator==(const asked&, const asked&) = default;
  friend std::ostream& operator<<(std::ostream& out, const asked& a) {
    out << "at " << a.file_offset << " to ";
    if (a.destination_offset == read_op::staged) {
      out << "a slot";
    } else {
      out << a.destination_offset;
    }
    return out << ": " << a.bytes << " bytes, of which " << a.bytes_needed;
  }
};

inline std::vector<asked> asked_of(const plan& p) {
  std::vector<asked> out;
  for (const read_op& r : p.reads) {
    out.push_back({r.file_offset, r.destination_offset, r.bytes, r.bytes_needed});
  }
  return out;
}

struct copied {
  std::uint64_t slot_offset;
  std::uint64_t destination_offset;
  std::uint64_t bytes;
  friend bool operator==(const copied&, const copied&) = default;
  friend std::ostream& operator<<(std::ostream& out, const copied& c) {
    return out << c.slot_offset << " to " << c.destination_offset << ": " << c.bytes << " bytes";
  }
};

inline std::vector<copied> copies_of(const plan& p, std::size_t read) {
  std::vector<copied> out;
  for (std::uint32_t c = p.reads[read].copies_begin; c < p.reads[read].copies_end; ++c) {
    out.push_back({p.copies[c].slot_offset, p.copies[c].destination_offset, p.copies[c].bytes});
  }
  return out;
}

}  // namespace ringload::testing
