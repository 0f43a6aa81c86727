// SPDX-License-Identifier: Apache-2.0

// Finds the bytes of tensors in the items of torch.distributed.checkpoint.

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "formats/pytorch/dcp.hpp"
#include "formats/pytorch/pytorch.hpp"
#include "formats/shape.hpp"
#include "formats/text/malformed.hpp"
#include "formats/zip/zip.hpp"

namespace ringload::inline v0 {

namespace {

// A box of `tensor`. The stored range of the box is the whole item until locate() replaces the
// range.
struct pending_box {
  entry* tensor;
  piece* box;
};

std::vector<std::uint64_t> row_major(std::span<const std::uint64_t> shape,
                                     std::uint64_t element_bytes) {
  std::vector<std::uint64_t> out(shape.size());
  std::uint64_t stride = element_bytes;
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = stride;
    stride *= shape[d];
  }
  return out;
}

// Returns the tensor of an item. An item is an archive of torch.save.
result<entry> tensor_of_item(input& item, strictness strictness) {
  auto members = read_zip_directory(item);
  if (!members) return members.error();
  if (!is_pytorch_archive(*members)) {
    return unsupported("the item is a zip archive, but not one of torch.save");
  }
  auto entries = parse_pytorch_zip(item, *members, {strictness, "item"});
  if (!entries) return entries.error();
  if (!entries->unreadable.empty()) {
    const fault& cause = entries->unreadable.front().cause;
    return fault{cause.code, "", cause.cause()};
  }
  if (!entries->composites.empty()) {
    return unsupported("the item is a tensor of the layout '" +
                       printable(entries->composites.front().layout) +
                       "', expected one dense tensor");
  }
  if (entries->tensors.size() == 1) return std::move(entries->tensors.front());
  if (entries->tensors.empty() && !entries->notes.empty()) {
    return unsupported("the item holds no tensor: " + entries->notes.front());
  }
  return malformed("the item holds " + grouped(entries->tensors.size()) +
                   " tensors, expected one dense tensor");
}

result<void> locate(const pending_box& pending, input& file, strictness strictness) {
  piece& box = *pending.box;
  const std::uint64_t begin = box.stored.offset;
  if (begin > file.bytes() || box.stored.bytes > file.bytes() - begin) {
    return fault{errc::extent_outside_file, "",
                 "the item ends past the end of the file, at byte " + grouped(file.bytes())};
  }
  input_range item(file, begin, box.stored.bytes);
  auto tensor = tensor_of_item(item, strictness);
  if (!tensor) return tensor.error();
  if (tensor->dtype != pending.tensor->dtype || tensor->shape != box.extent) {
    return malformed("the item is of type " + std::string(name(tensor->dtype)) + " and shape " +
                     shape_text(tensor->shape) + ", expected " +
                     std::string(name(pending.tensor->dtype)) + " and " + shape_text(box.extent));
  }
  const std::uint32_t number = box.stored.file;
  if (tensor->stored == nullptr) {
    box.stored = {};
    box.stored.file = number;
    box.stored.offset = begin + tensor->offset;
    box.stored.bytes = box.stored.decoded_bytes = tensor->bytes;
    box.first_byte = 0;
    box.stride_bytes = row_major(box.extent, bits(tensor->dtype) / 8);
    return {};
  }
  if (tensor->stored->swap_bytes != 0) return unsupported("the item is big-endian");
  const piece& only = tensor->stored->pieces.front();
  box.stored = only.stored;
  box.stored.file = number;
  box.stored.offset += begin;
  box.first_byte = only.first_byte;
  box.stride_bytes = only.stride_bytes;
  return {};
}

}  // namespace

result<void> locate_dcp_tensors(file_entries& entries, std::span<input* const> external_files,
                                strictness strictness) {
  std::vector<std::shared_ptr<stored_form>> forms;
  std::vector<pending_box> pending_boxes;
  for (entry& tensor : entries.tensors) {
    if (tensor.stored == nullptr) continue;
    forms.push_back(std::make_shared<stored_form>(*tensor.stored));
    tensor.stored = forms.back();
    for (piece& box : forms.back()->pieces) pending_boxes.push_back({&tensor, &box});
  }
  // Sorts by file and offset, so that the headers of small items are read together.
  std::ranges::sort(pending_boxes, {}, [](const pending_box& pending) {
    return std::pair(pending.box->stored.file, pending.box->stored.offset);
  });
  std::set<std::string, std::less<>> left_out;
  for (const pending_box& pending : pending_boxes) {
    if (left_out.contains(pending.tensor->name)) continue;
    const std::uint64_t begin = pending.box->stored.offset;
    const std::uint32_t file = pending.box->stored.file;
    auto located = locate(pending, *external_files[file - 1], strictness);
    if (!located) {
      const fault& cause = located.error();
      const std::string place = tensor_place(pending.tensor->name) + ": " +
                                printable(entries.external_files[file - 1]) +
                                ": the item at byte " + grouped(begin);
      const bool is_left_out =
          strictness == strictness::reference && cause.code == errc::unsupported_feature;
      if (!is_left_out) return cause.in(place);
      entries.notes.push_back(place + ": the tensor is left out: " + cause.cause());
      left_out.insert(pending.tensor->name);
    }
  }
  std::erase_if(entries.tensors,
                [&](const entry& tensor) { return left_out.contains(tensor.name); });
  return {};
}

}  // namespace ringload::inline v0
