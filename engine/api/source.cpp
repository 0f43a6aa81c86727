// SPDX-License-Identifier: Apache-2.0

#include <ringload/source.hpp>

#include "catalog/source_name.hpp"

namespace ringload::inline v0 {

namespace {

std::unique_ptr<detail::source_parts> parts_of(detail::source_name name, checkpoint opened = {}) {
  return std::make_unique<detail::source_parts>(
      detail::source_parts{std::move(name), std::move(opened)});
}

}  // namespace

source::source(std::string name) : parts_(parts_of(std::move(name))) {}
source::source(std::string_view name) : source(std::string(name)) {}
source::source(const char* name) : source(std::string(name)) {}
source::source(std::vector<std::string> files)
    : parts_(parts_of(detail::path_list{std::move(files)})) {}
source::source(found_source object) : parts_(parts_of(std::move(object))) {}
source::source(ringload::checkpoint opened) : parts_(parts_of({}, std::move(opened))) {}

source::source(const source& original)
    : parts_(std::make_unique<detail::source_parts>(original.parts())) {}
source::source(source&& original) noexcept = default;
source& source::operator=(const source& original) {
  parts_ = std::make_unique<detail::source_parts>(original.parts());
  return *this;
}
source& source::operator=(source&& original) noexcept = default;
source::~source() = default;

const detail::source_parts& source::parts() const noexcept {
  static const detail::source_parts empty_parts;
  return parts_ ? *parts_ : empty_parts;
}

}  // namespace ringload::inline v0
