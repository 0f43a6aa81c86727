// SPDX-License-Identifier: Apache-2.0

// Whatever the pickle, it is refused, or the tensors that it describes lie in the storages that
// there are. And whatever the file of PyTorch's older form.

#include "formats/pytorch/pickle.hpp"

#include <array>
#include <string_view>

#include "entries.hpp"
#include "formats/pytorch/pytorch.hpp"
#include "formats/pytorch/torch_state.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t file_bytes = 1'000'000;

// Some that real checkpoints have, and small ones that a fuzzer finds the size of.
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
      stream.how = codec::deflate;
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

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(input, size));
  memory_input from(bytes);
  check(parse_pytorch_legacy(from, {strictness::reference, "lone"}), size);
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
