// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/zt/zt_index.hpp"

namespace ringload::inline v0 {

// These functions return a fault that states the name of the object, and the file offset of the
// object's entry in the manifest. With a parameter `part`, the fault states the names of the object
// and of the component, and the offset of the component's entry.
fault zt_fault(const zt_object& object, const zt_component& part, errc code, std::string cause);
fault zt_fault(const zt_object& object, errc code, std::string cause);

// Converts the components of one object to tensors without names.
class zt_component_converter {
 public:
  zt_component_converter(const zt_object& object, const zt_blob_rules& blobs,
                         file_entries& entries) noexcept
      : object_(object), blobs_(blobs), entries_(entries) {}

  // Returns a tensor of the shape `shape`, which the manifest states. If the logical type is
  // unknown, and the size of the component does not match `shape`, returns a tensor of one
  // dimension instead.
  result<entry> shaped(const zt_component& part, std::vector<std::uint64_t> shape) const;
  // Returns a tensor of one dimension with all elements of the component.
  result<entry> flat(const zt_component& part) const;

 private:
  std::optional<fault> set_digest(const zt_component& part, entry& out) const;
  std::optional<fault> check_lengths(const zt_component& part) const;
  std::optional<fault> set_extent(const zt_component& part, entry& out) const;
  std::optional<fault> set_type(const zt_component& part, entry& out) const;
  std::optional<fault> set_common_members(const zt_component& part, entry& out) const;
  std::optional<fault> set_flat(const zt_component& part, entry& out) const;
  std::optional<fault> set_form(const zt_component& part, entry& out) const;

  const zt_object& object_;
  const zt_blob_rules& blobs_;
  file_entries& entries_;
};

}  // namespace ringload::inline v0
