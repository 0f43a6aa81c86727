// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/describe.hpp"

#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/hdf5/address_base.hpp"
#include "formats/hdf5/attributes.hpp"
#include "formats/hdf5/dataset.hpp"
#include "formats/hdf5/library.hpp"

namespace ringload::inline v0::h5 {

std::string last_reason() {
  std::string innermost;
  const auto append = [](unsigned, const H5E_error2_t* error, void* user_data) -> herr_t {
    try {
      auto& to = *static_cast<std::string*>(user_data);
      if (to.empty() && error->desc != nullptr) to = error->desc;
      return 0;
    } catch (...) {
      return -1;
    }
  };
  ::H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append, &innermost);
  return innermost.empty() ? "no reason given" : innermost;
}

namespace {

struct link {
  std::string name;
  H5L_type_t type = H5L_TYPE_ERROR;
};

herr_t never_follow(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) {
  return -1;
}

// Prevents libhdf5 from writing messages to standard error.
class silence {
 public:
  silence() noexcept {
    ::H5Eget_auto2(H5E_DEFAULT, &print_, &user_data_);
    ::H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  silence(const silence&) = delete;
  silence& operator=(const silence&) = delete;
  ~silence() { ::H5Eset_auto2(H5E_DEFAULT, print_, user_data_); }

 private:
  H5E_auto2_t print_ = nullptr;
  void* user_data_ = nullptr;
};

class walker {
 public:
  walker(hid_t file, int descriptor) : file_(file), attributes_{out_, attribute_bytes_max} {
    context_.fd = descriptor;
  }

  result<hdf5_contents> walk();

 private:
  result<std::vector<link>> links_of(hid_t group, const std::string& place);
  result<void> visit_group(hid_t group, const std::string& name, unsigned depth);
  result<void> visit_link(hid_t group, const link& item, std::string name, unsigned depth);
  result<void> visit_dataset(hid_t group, const link& item, const object_key& key,
                             std::string name);
  void leave_out(std::string name, std::string reason) {
    out_.left_out.push_back({std::move(name), std::move(reason), false});
  }

  const hid_t file_;
  const handle access_{::H5Pcreate(H5P_LINK_ACCESS), &::H5Pclose};
  hdf5_contents out_;
  attribute_reader attributes_;
  file_context context_;
  std::size_t links_ = 0;
  std::set<object_key> groups_;
  std::map<object_key, std::size_t> datasets_;  // Index in out_.datasets.
  std::map<object_key, std::size_t> left_out_;  // Index in out_.left_out.
};

std::string place_of(const std::string& name) {
  return name.empty() ? "the root group" : "'" + name + "'";
}

// Collects only the links, because their targets must not be visited during an iteration of
// libhdf5.
result<std::vector<link>> walker::links_of(hid_t group, const std::string& place) {
  struct state {
    std::vector<link> links;
    std::size_t links_max;
    std::exception_ptr thrown;
  } collected = {{}, hdf5_names_max - links_ + 1, {}};
  const auto append = [](hid_t, const char* name, const link_info* info,
                         void* user_data) -> herr_t {
    auto& to = *static_cast<state*>(user_data);
    try {
      to.links.push_back({name, info->type});
      return to.links.size() < to.links_max ? H5_ITER_CONT : H5_ITER_STOP;
    } catch (...) {
      to.thrown = std::current_exception();  // An exception must not pass through C functions.
      return H5_ITER_ERROR;
    }
  };
  const herr_t status = iterate_links(group, append, &collected);
  if (collected.thrown) std::rethrow_exception(collected.thrown);
  if (status < 0) return refused(place);
  links_ += collected.links.size();
  if (links_ > hdf5_names_max) {
    return fault{errc::header_too_large, place,
                 "the file has more than " + grouped(hdf5_names_max) + " links"};
  }
  return std::move(collected.links);
}

result<void> walker::visit_group(hid_t group, const std::string& name, unsigned depth) {
  if (auto status = attributes_.read_all(group, name); !status) return status;
  auto links = links_of(group, place_of(name));
  if (!links) return links.error();
  for (const link& item : *links) {
    std::string inside = name.empty() ? item.name : name + '.' + item.name;
    if (inside.size() > hdf5_name_bytes_max) {
      return fault{errc::header_too_large, place_of(name),
                   "a path in it has more than " + grouped(hdf5_name_bytes_max) + " bytes"};
    }
    if (auto status = visit_link(group, item, std::move(inside), depth); !status) return status;
  }
  return {};
}

result<void> walker::visit_link(hid_t group, const link& item, std::string name, unsigned depth) {
  const bool soft = item.type == H5L_TYPE_SOFT;
  if (!soft && item.type != H5L_TYPE_HARD) {
    const bool external = item.type == H5L_TYPE_EXTERNAL;
    return fault{errc::unsupported_feature, place_of(name),
                 external ? "it is a link to another file (external), which is not opened"
                          : "it is a user-defined link, which cannot be followed"};
  }
  object_info info;
  if (!get_info(group, item.name.c_str(), access_.get(), info)) {
    if (!soft) return refused(place_of(name));
    leave_out(std::move(name), "it is a soft link without a target in the file");
    return {};
  }
  switch (info.type) {
    case H5O_TYPE_DATASET: return visit_dataset(group, item, info.key, std::move(name));
    case H5O_TYPE_GROUP: {
      if (soft || !groups_.insert(info.key).second) {
        leave_out(std::move(name), "it is another name of a group");
        return {};
      }
      if (depth >= hdf5_depth_max) {
        return fault{errc::header_too_large, place_of(name),
                     "groups are nested more than " + grouped(hdf5_depth_max) + " deep"};
      }
      const handle inner(::H5Oopen(group, item.name.c_str(), access_.get()), &::H5Oclose);
      if (!inner) return refused(place_of(name));
      return visit_group(inner.get(), name, depth + 1);
    }
    case H5O_TYPE_NAMED_DATATYPE: leave_out(std::move(name), "it is a named datatype"); return {};
    default: leave_out(std::move(name), "it is neither a group nor a dataset"); return {};
  }
}

result<void> walker::visit_dataset(hid_t group, const link& item, const object_key& key,
                                   std::string name) {
  if (const auto known = datasets_.find(key); known != datasets_.end()) {
    out_.datasets[known->second].names.push_back(std::move(name));
    return {};
  }
  if (const auto known = left_out_.find(key); known != left_out_.end()) {
    hdf5_left_out again = out_.left_out[known->second];
    again.name = std::move(name);
    out_.left_out.push_back(std::move(again));
    return {};
  }
  const handle dataset(::H5Oopen(group, item.name.c_str(), access_.get()), &::H5Oclose);
  if (!dataset) return refused(place_of(name));
  auto found = describe_dataset({dataset.get(), address_of(key), place_of(name)}, context_);
  if (!found) return found.error();
  if (auto* const skipped = std::get_if<hdf5_left_out>(&*found)) {
    left_out_.emplace(key, out_.left_out.size());
    skipped->name = std::move(name);
    out_.left_out.push_back(std::move(*skipped));
    return {};
  }
  auto& description = std::get<hdf5_dataset>(*found);
  context_.chunks_left -= description.chunks.size();
  description.names.push_back(std::move(name));
  datasets_.emplace(key, out_.datasets.size());
  out_.datasets.push_back(std::move(description));
  return {};
}

result<hdf5_contents> walker::walk() {
  if (!access_ || ::H5Pset_elink_cb(access_.get(), never_follow, nullptr) < 0) return refused("");
  auto block = chunk_address_base(file_);
  if (!block) return block.error();
  context_.address_base = *block;
  const handle creation(::H5Fget_create_plist(file_), &::H5Pclose);
  std::size_t address_bytes = 0;
  std::size_t length_bytes = 0;
  if (!creation || ::H5Pget_sizes(creation.get(), &address_bytes, &length_bytes) < 0) {
    return refused("");
  }
  if (address_bytes != 8 || length_bytes != 8) context_.fd = -1;
  object_info root;
  const handle group(::H5Gopen2(file_, "/", H5P_DEFAULT), &::H5Gclose);
  if (!group || !get_info(group.get(), ".", access_.get(), root)) return refused("");
  groups_.insert(root.key);
  if (auto status = visit_group(group.get(), "", 0); !status) return status.error();
  return std::move(out_);
}

// Opens the file. After a failure, refused() must read the error before the property list is
// closed, because every call of libhdf5 clears the previous error.
result<handle> open_file(int file) {
  const handle access(::H5Pcreate(H5P_FILE_ACCESS), &::H5Pclose);
  if (!access || ::H5Pset_fapl_sec2(access.get()) < 0 ||
      ::H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG) < 0) {
    return refused("");
  }
#if H5_VERSION_GE(1, 14, 0) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  // ringload reads files of every format without a lock, because some file systems have no locks.
  if (::H5Pset_file_locking(access.get(), false, true) < 0) return refused("");
#endif
  // Opens the file by its descriptor, because its path may now name another file.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  handle opened(::H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), &::H5Fclose);
  if (!opened) return refused("");
  return opened;
}

}  // namespace

result<hdf5_contents> describe_file(int file) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const silence quiet;
  const auto opened = open_file(file);
  if (!opened) return opened.error();
  return walker(opened->get(), file).walk();
}

}  // namespace ringload::inline v0::h5
