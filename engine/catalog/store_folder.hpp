// SPDX-License-Identifier: Apache-2.0
#pragma once

// Implements source_folder for a folder of a byte store. Finds the byte store for a source name.

#include <memory>
#include <ringload/byte_source.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "catalog/source_folder.hpp"
#include "catalog/source_options.hpp"

namespace ringload::inline v0 {

class store_folder final : public source_folder {
 public:
  store_folder(std::shared_ptr<byte_folder> folder, std::stop_token stop)
      : folder_(std::move(folder)), stop_(std::move(stop)) {}

  result<source_file> open_file(const std::string& name) const override;
  result<std::vector<std::string>> names() const override;
  result<std::vector<std::string>> names_beneath() const override;
  std::string path_of(const std::string& name) const override { return folder_->path_of(name); }
  std::string shown() const override { return folder_->path_of({}); }
  void expect(std::span<const std::string> names) const override;

 private:
  using listing = std::vector<std::string> (byte_folder::*)(const std::stop_token&);
  result<std::vector<std::string>> sorted(listing list) const;

  const std::shared_ptr<byte_folder> folder_;
  const std::stop_token stop_;
};

// Returns the store that recognises the name. Returns null if no store recognises the name.
byte_store* store_of(std::string_view source, const source_options& options) noexcept;

// Returns the store that must create the object `name`. Returns null if `name` is a path, which has
// no "://". Returns errc::unsupported_feature if no store recognises the name.
result<byte_store*> store_for_writing(std::string_view name, std::span<const extension> extensions);

result<found_source> find_in(byte_store& store, std::string_view source,
                             const std::stop_token& stop);

}  // namespace ringload::inline v0
