// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints of `torch.save`: a zip archive since 1.6, several pickles in a row before. Nothing in
// them is ever called; see formats/pytorch/pickle.hpp.

#include <ringload/catalog.hpp>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"
#include "formats/zip/zip.hpp"

namespace ringload::inline v0 {

struct torch_options {
  ringload::strictness strictness = ringload::strictness::strict;
  std::string lone_name;  // What a tensor is called that was saved by itself.
};

// Whether the archive is one of PyTorch's, as the names of its members say.
bool is_pytorch_archive(const zip_directory& members) noexcept;

// TorchScript archives, which hold programs, are refused by name.
result<file_entries> parse_pytorch_zip(input& from, const zip_directory& members,
                                       const torch_options& options);

// The form before 1.6: a magic number, a protocol, facts about the machine, the object and the keys
// of its storages, a pickle each; then the storages, each behind its number of elements.
result<file_entries> parse_pytorch_legacy(input& from, const torch_options& options);

}  // namespace ringload::inline v0
