// SPDX-License-Identifier: Apache-2.0

// For any pickle, the parser fails or returns tensors inside the existing storages. The same
// applies to the older format of PyTorch, and to the metadata of a distributed checkpoint, whose
// files are the pickle itself here.

#include "formats/pytorch/pickle.hpp"

#include <array>
#include <string_view>
#include <vector>

#include "entries.hpp"
#include "formats/pytorch/dcp.hpp"
#include "formats/pytorch/pytorch.hpp"
#include "formats/pytorch/torch_state.hpp"
#include "formats/shape.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t file_bytes = 1'000'000;

// Storages of real checkpoints, and small storages whose sizes a fuzzer can guess.
torch_storages some_storages(bool big_endian) {
  constexpr std::array<std::string_view, 6> keys = {"0", "1", "2", "3", "4", "5"};
  torch_storages out;
  out.big_endian = big_endian;
  std::uint64_t at = 100;
  std::uint64_t bytes = 8;
  for (const std::string_view key : keys) {
    stored_stream stream;
    stream.offset = at;
    stream.bytes = stream.decoded_bytes = bytes;
    if (key == "4") {
      stream.stored_codec = codec::deflate;
      stream.decoded_bytes = 4096;
    }
    out.storages.push_back({key, stream});
    at += bytes;
    bytes *= 4;
  }
  return out;
}

void check(const result<file_entries>& found, std::uint64_t bytes) {
  if (!found) {
    hold_fault(found.error());
    return;
  }
  hold_entries(*found, bytes);
  std::uint64_t dense = 0;
  for (const entry& each : found->tensors) dense += repeated_bytes(each);
  hold(dense <= torch_repeated_bytes_usual, "repeated elements have their bound");
}

// The boxes of each tensor have all its elements, and located boxes are inside the file.
void check_dcp(std::span<const std::byte> bytes, strictness strictness) {
  memory_input from(bytes);
  auto found = parse_dcp(from, strictness);
  if (!found) {
    hold_fault(found.error());
    return;
  }
  for (const entry& each : found->tensors) {
    std::uint64_t elements = 0;
    if (each.stored != nullptr) {
      for (const piece& box : each.stored->pieces) elements += *element_count(box.extent);
    }
    hold(elements == *element_count(each.shape), "the boxes of a tensor cover the tensor");
  }
  std::vector<input*> beside(found->external_files.size(), &from);
  if (auto located = locate_dcp_tensors(*found, beside, strictness); !located) {
    hold_fault(located.error());
    return;
  }
  for (const entry& each : found->tensors) {
    if (each.stored == nullptr) continue;
    for (const piece& box : each.stored->pieces) {
      hold(
          box.stored.offset <= bytes.size() && box.stored.bytes <= bytes.size() - box.stored.offset,
          "a box lies in its file");
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(input, size));
  memory_input from(bytes);
  check(parse_pytorch_legacy(from, {strictness::reference, "lone"}), size);
  check_dcp(bytes, strictness::strict);
  check_dcp(bytes, strictness::reference);
  const auto state = read_pickle(bytes);
  if (!state) {
    hold_fault(state.error());
    return 0;
  }
  hold(state->end <= size, "a pickle ends in its bytes");
  for (const strictness strictness : {strictness::strict, strictness::reference}) {
    const auto storages = some_storages(strictness == strictness::reference);
    check(tensors_of_state(*state, storages, {"lone", file_bytes, 0, strictness}), file_bytes);
  }
  return 0;
}
