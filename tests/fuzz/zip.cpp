// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns disjoint members inside the file, and arrays or
// tensors inside the members.

#include "formats/zip/zip.hpp"

#include "entries.hpp"
#include "formats/npy/npy.hpp"
#include "formats/pytorch/pytorch.hpp"

using namespace ringload;
using ringload::testing::hold;

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  memory_input from(std::as_bytes(std::span(input, size)));
  const auto members = read_zip_directory(from);
  if (!members) {
    ringload::testing::hold_fault(members.error());
    return 0;
  }
  std::uint64_t end = 0;
  for (const zip_member& each : members->members) {
    hold(each.header_offset >= end && each.data_offset > each.header_offset,
         "members follow each other");
    end = each.data_offset + each.stored_bytes;
    hold(end <= size, "members lie in the archive");
    hold(members->find(each.name) == &each, "a member is found by its name");
  }
  for (const strictness strictness : {strictness::strict, strictness::reference}) {
    read_options how;
    how.strictness = strictness;
    how.nameless = {dtype::f8_e4m3fn, dtype::bf16};
    const auto found = is_pytorch_archive(*members)
                           ? parse_pytorch_zip(from, *members, {strictness, "lone"})
                           : parse_npz(from, *members, how);
    if (found) {
      ringload::testing::hold_entries(*found, size);
    } else {
      ringload::testing::hold_fault(found.error());
    }
  }
  return 0;
}
