// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "formats/pytorch/pickle.hpp"
#include "formats/pytorch/pytorch.hpp"
#include "formats/pytorch/torch_state.hpp"
#include "formats/text/little_endian.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view object_name = "/data.pkl";
// Limit for the member "byteorder", whose content is "little" or "big".
constexpr std::uint64_t record_bytes_max = 64;

// Returns the folder of the archive. All members are in one folder, which usually has the original
// name of the file.
std::string_view folder_of(const zip_directory& members) noexcept {
  if (members.members.empty()) return {};
  const std::string_view first = members.members.front().name;
  return first.substr(0, first.find('/'));
}

const zip_member* in_folder(const zip_directory& members, std::string_view name) {
  return members.find(std::string(folder_of(members)) + std::string(name));
}

bool is_torchscript(const zip_directory& members) {
  const std::string code = std::string(folder_of(members)) + "/code/";
  return in_folder(members, "/constants.pkl") != nullptr ||
         std::ranges::any_of(members.members,
                             [&](const zip_member& m) { return m.name.starts_with(code); });
}

// An archive without the member "byteorder" is from an older PyTorch, and is little-endian.
result<bool> is_big_endian(input& from, const zip_directory& members) {
  const zip_member* record = in_folder(members, "/byteorder");
  if (record == nullptr) return false;
  auto content = read_zip_member(from, *record, record_bytes_max);
  if (!content) return content.error();
  const std::string_view order = as_text(*content);
  if (order == "little" || order == "big") return order == "big";
  return fault{errc::malformed_header, member_place(record->name),
               "'" + printable(order) + "' is not a byte order, expected little or big"};
}

torch_storages storages_of(const zip_directory& members) {
  torch_storages out;
  const std::string data = std::string(folder_of(members)) + "/data/";
  for (const std::uint32_t i : members.by_name) {
    const zip_member& member = members.members[i];
    if (!member.name.starts_with(data)) continue;
    out.storages.push_back({member.name.substr(data.size()), member.stream()});
  }
  return out;  // Sorted by name, and therefore also by key.
}

}  // namespace

bool is_pytorch_archive(const zip_directory& members) {
  return in_folder(members, object_name) != nullptr || is_torchscript(members);
}

result<file_entries> parse_pytorch_zip(input& from, const zip_directory& members,
                                       const torch_options& options) {
  if (is_torchscript(members)) {
    return fault{
        errc::unsupported_feature,
        {},
        "this is a TorchScript archive, which contains a program, expected a checkpoint of "
        "torch.save"};
  }
  auto big_endian = is_big_endian(from, members);
  if (!big_endian) return big_endian.error();
  const zip_member& object = *in_folder(members, object_name);
  auto bytes = read_zip_member(from, object, pickle_bytes_max);
  if (!bytes) return bytes.error();
  const std::string place = member_place(object.name);
  // If the pickle is stored without compression, faults state an offset in the file. Otherwise
  // faults state an offset in the decoded pickle.
  const std::uint64_t first_byte = object.stored_codec == codec::raw ? object.data_offset : 0;
  auto state = read_pickle(*bytes, first_byte);
  if (!state) {
    fault failure = state.error().in(place);
    if (failure.code == errc::truncated_file) failure.code = errc::malformed_header;
    return failure;
  }
  torch_storages storages = storages_of(members);
  storages.big_endian = *big_endian;
  return tensors_of_state(*state, storages,
                          {options.lone_name, from.bytes(), first_byte, options.strictness});
}

}  // namespace ringload::inline v0
