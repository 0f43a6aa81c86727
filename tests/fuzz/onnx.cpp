// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns tensors with unique names inside the file or in files
// of the model's folder.

#include "formats/onnx/onnx.hpp"

#include <set>
#include <string>
#include <string_view>

#include "entries.hpp"

using namespace ringload;
using ringload::testing::hold;

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  memory_input from(std::as_bytes(std::span(input, size)));
  const auto found = parse_onnx(from, strictness::strict);
  if (!found) {
    ringload::testing::hold_fault(found.error());
    return 0;
  }
  ringload::testing::hold_entries(*found, size);
  std::set<std::string_view> names;
  for (const entry& e : found->tensors) {
    hold(names.insert(e.name).second, "a name stands once");
    if (e.stored == nullptr) continue;
    for (const piece& p : e.stored->pieces) {
      hold(p.stored.file <= found->external_files.size(), "a stream's file is known");
    }
  }
  for (const std::string& path : found->external_files) {
    hold(!path.empty() && path.front() != '/', "a path is relative");
    hold(("/" + path + "/").find("/../") == std::string::npos, "a path stays in its folder");
  }
  return 0;
}
