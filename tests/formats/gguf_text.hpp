// SPDX-License-Identifier: Apache-2.0
#pragma once

// GGUF files, written by hand for a test.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "binary_text.hpp"

namespace ringload::testing {

// A file of any version and byte order, whose values may be wrong.
class gguf_text {
 public:
  explicit gguf_text(std::uint32_t version = 3, std::endian order = std::endian::little)
      : version_(version), order_(order) {}

  gguf_text& string_pair(std::string_view key, std::string_view value) {
    return pair(key, 8, text(value));
  }
  gguf_text& u32_pair(std::string_view key, std::uint32_t value) {
    return pair(key, 4, number(value));
  }
  gguf_text& pair(std::string_view key, std::uint32_t type, std::string_view value) {
    ++pairs_;
    pairs_text_ += text(key) + number(type) + std::string(value);
    return *this;
  }
  // `dims` as in the file, the innermost first.
  gguf_text& info(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                  std::uint64_t offset) {
    ++infos_;
    infos_text_ += text(name) + number(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) infos_text_ += number(dim);
    infos_text_ += number(type) + number(offset);
    return *this;
  }
  gguf_text& counts(std::uint64_t tensors, std::uint64_t pairs) {
    infos_ = tensors;
    pairs_ = pairs;
    return *this;
  }

  template <class T>
  std::string number(T value) const {
    return number_text(value, order_);
  }
  std::string text(std::string_view of) const {
    return number(std::uint64_t{of.size()}) + std::string(of);
  }
  std::string array(std::uint32_t type, std::uint64_t count, std::string_view elements) const {
    return number(type) + number(count) + std::string(elements);
  }

  std::string header() const {
    return "GGUF" + number(version_) + number(infos_) + number(pairs_) + pairs_text_ + infos_text_;
  }
  // The padded header, and this number of data bytes.
  std::string file(std::uint64_t data_bytes, std::uint64_t alignment = 32) const {
    std::string out = header();
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    for (std::uint64_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 7 + 1);
    return out;
  }

 private:
  std::uint32_t version_;
  std::endian order_;
  std::uint64_t pairs_ = 0;
  std::uint64_t infos_ = 0;
  std::string pairs_text_;
  std::string infos_text_;
};

}  // namespace ringload::testing
