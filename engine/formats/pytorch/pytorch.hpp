// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints of `torch.save`: a zip archive since 1.6, several pickles in a row before. No
// function of the pickles is called; see formats/pytorch/pickle.hpp.

#include <ringload/catalog.hpp>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"
#include "formats/zip/zip.hpp"

namespace ringload::inline v0 {

struct torch_options {
  ringload::strictness strictness = ringload::strictness::strict;
  std::string lone_name;  // Name of a tensor that was saved alone.
};

// True if the names of the members are those of a PyTorch archive.
bool is_pytorch_archive(const zip_directory& members) noexcept;

// Refuses TorchScript archives, which contain programs, with a message.
result<file_entries> parse_pytorch_zip(input& from, const zip_directory& members,
                                       const torch_options& options);

// Reads the format before 1.6. The file begins with five pickles: a magic number, a protocol,
// machine properties, the object, and the keys of its storages. Then each storage follows its
// element count.
result<file_entries> parse_pytorch_legacy(input& from, const torch_options& options);

}  // namespace ringload::inline v0
