// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses checkpoints of `torch.save`. Since PyTorch 1.6, a checkpoint is a zip archive. Before
// PyTorch 1.6, a checkpoint was a file with several pickles. Functions that a pickle names are
// never called: see formats/pytorch/pickle.hpp.

#include <ringload/catalog.hpp>
#include <string>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"
#include "formats/zip/zip.hpp"

namespace ringload::inline v0 {

struct torch_options {
  ringload::strictness strictness = ringload::strictness::strict;
  std::string lone_name;  // The name of a tensor that was saved without a name.
};

// Returns true if the members have the names of a PyTorch archive.
bool is_pytorch_archive(const zip_directory& members);

// Refuses TorchScript archives, because they contain programs.
result<file_entries> parse_pytorch_zip(input& from, const zip_directory& members,
                                       const torch_options& options);

// Reads the format of PyTorch before 1.6. The file begins with five pickles: a magic number, a
// protocol version, machine properties, the object, and the keys of the object's storages. After
// the pickles, the file has the element count and the bytes of each storage.
result<file_entries> parse_pytorch_legacy(input& from, const torch_options& options);

}  // namespace ringload::inline v0
