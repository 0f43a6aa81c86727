// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/attributes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <vector>

#include "formats/hdf5/library.hpp"

namespace ringload::inline v0::h5 {

namespace {

// Limits for one attribute.
constexpr std::size_t numbers_max = 4096;
constexpr std::size_t texts_max = 100'000;
constexpr std::size_t short_text_bytes_max = 4096;

// Collects only the names, because attributes must not be read during an iteration of libhdf5. Adds
// the number of attributes after the first `names_max` attributes to `left_out`.
result<std::vector<std::string>> names_of(hid_t object, std::size_t names_max,
                                          std::uint64_t& left_out) {
  struct state {
    std::vector<std::string> names;
    std::size_t names_max;
    std::uint64_t left_out;
    std::exception_ptr thrown;
  } collected = {{}, names_max, 0, {}};
  const auto append = [](hid_t, const char* name, const H5A_info_t*, void* user_data) -> herr_t {
    auto& to = *static_cast<state*>(user_data);
    try {
      if (to.names.size() < to.names_max) {
        to.names.emplace_back(name);
      } else {
        ++to.left_out;
      }
      return H5_ITER_CONT;
    } catch (...) {
      // An exception must not pass through C functions.
      to.thrown = std::current_exception();
      return H5_ITER_ERROR;
    }
  };
  const herr_t status =
      ::H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, append, &collected);
  if (collected.thrown) std::rethrow_exception(collected.thrown);
  if (status < 0) return refused("attributes");
  left_out += collected.left_out;
  return std::move(collected.names);
}

class reader {
 public:
  reader(hid_t attribute, std::size_t bytes_left)
      : attribute_(attribute),
        type_(::H5Aget_type(attribute), &::H5Tclose),
        space_(::H5Aget_space(attribute), &::H5Sclose),
        bytes_left_(bytes_left) {}

  // Returns false if the attribute cannot be read, is too large, or has an unsupported type or
  // several dimensions.
  bool read(hdf5_attribute& out) {
    if (!type_ || !space_) return false;
    const H5S_class_t extent = ::H5Sget_simple_extent_type(space_.get());
    const hssize_t count = ::H5Sget_simple_extent_npoints(space_.get());
    // A JSON array has no shape, so an attribute of several dimensions cannot be expressed.
    const bool known = (extent == H5S_SCALAR || extent == H5S_SIMPLE) &&
                       ::H5Sget_simple_extent_ndims(space_.get()) <= 1;
    if (!known || count < 0 || static_cast<std::size_t>(count) > texts_max) return false;
    count_ = static_cast<std::size_t>(count);
    out.is_list = extent == H5S_SIMPLE;
    switch (::H5Tget_class(type_.get())) {
      case H5T_STRING:
        return ::H5Tis_variable_str(type_.get()) > 0 ? read_variable_length(out)
                                                     : read_fixed_length(out);
      case H5T_FLOAT:
        out.value_kind = hdf5_attribute::kind::floats;
        return read_numbers(H5T_NATIVE_DOUBLE, out.floats);
      case H5T_INTEGER:
        if (::H5Tget_sign(type_.get()) == H5T_SGN_NONE) {
          out.value_kind = hdf5_attribute::kind::naturals;
          return read_numbers(H5T_NATIVE_UINT64, out.naturals);
        }
        out.value_kind = hdf5_attribute::kind::integers;
        return read_numbers(H5T_NATIVE_INT64, out.integers);
      default: return false;
    }
  }

 private:
  template <class T>
  bool read_numbers(hid_t memory_type, std::vector<T>& out) {
    if (count_ > numbers_max || ::H5Tget_size(type_.get()) > sizeof(T)) return false;
    out.resize(count_);
    return count_ == 0 || ::H5Aread(attribute_, memory_type, out.data()) >= 0;
  }

  bool read_fixed_length(hdf5_attribute& out) {
    const std::size_t width = ::H5Tget_size(type_.get());
    if (width == 0 || (count_ > 0 && width > bytes_left_ / count_)) return false;
    std::vector<char> characters(width * count_);
    if (count_ > 0 && ::H5Aread(attribute_, type_.get(), characters.data()) < 0) return false;
    const bool spaces = ::H5Tget_strpad(type_.get()) == H5T_STR_SPACEPAD;
    for (std::size_t i = 0; i < count_; ++i) {
      std::string text(characters.data() + i * width, width);
      text.resize(std::min(text.size(), text.find('\0')));
      if (spaces) text.resize(text.find_last_not_of(' ') + 1);
      out.texts.push_back(std::move(text));
    }
    return true;
  }

  bool read_variable_length(hdf5_attribute& out) {
    std::vector<char*> strings(count_, nullptr);
    if (count_ == 0) return true;
    if (::H5Aread(attribute_, type_.get(), strings.data()) < 0) return false;
    std::size_t bytes = 0;
    bool fits = true;
    for (char* const string : strings) {
      const std::size_t length = string == nullptr ? 0 : std::strlen(string);
      bytes += length;
      fits = fits && bytes <= bytes_left_;
      if (fits) out.texts.emplace_back(string == nullptr ? "" : string, length);
      ::H5free_memory(string);
    }
    return fits;
  }

  const hid_t attribute_;
  const handle type_;
  const handle space_;
  const std::size_t bytes_left_;
  std::size_t count_ = 0;
};

std::size_t bytes_of(const hdf5_attribute& attribute) {
  std::size_t sum =
      attribute.name.size() + 8 * (attribute.floats.size() + attribute.integers.size());
  sum += 8 * attribute.naturals.size();
  for (const std::string& text : attribute.texts) sum += text.size() + 8;
  return sum;
}

}  // namespace

result<void> attribute_reader::read_all(hid_t object, const std::string& name) {
  auto names = names_of(object, hdf5_attributes_max - contents.attributes.size(),
                        contents.attributes_left_out);
  if (!names) return names.error();
  for (const std::string& attribute_name : *names) {
    const handle attribute(::H5Aopen(object, attribute_name.c_str(), H5P_DEFAULT), &::H5Aclose);
    hdf5_attribute stored;
    stored.name = name.empty() ? attribute_name : name + '.' + attribute_name;
    const bool read = attribute && reader(attribute.get(), bytes_left).read(stored);
    if (!read || bytes_of(stored) > bytes_left) {
      ++contents.attributes_left_out;
      continue;
    }
    bytes_left -= bytes_of(stored);
    contents.attributes.push_back(std::move(stored));
  }
  return {};
}

std::optional<std::string> short_text_of(hid_t object, const char* attribute_name) {
  const handle attribute(::H5Aopen(object, attribute_name, H5P_DEFAULT), &::H5Aclose);
  hdf5_attribute stored;
  const bool read = attribute && reader(attribute.get(), short_text_bytes_max).read(stored);
  if (!read || stored.is_list || stored.texts.size() != 1) return std::nullopt;
  return std::move(stored.texts.front());
}

}  // namespace ringload::inline v0::h5
