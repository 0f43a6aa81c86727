// SPDX-License-Identifier: Apache-2.0

// ringload verify: says of each tensor, or of each file of a Hugging Face cache, whether its bytes
// are what they should be. One line for each, also after one that is not.

#include <cstdint>
#include <filesystem>
#include <map>
#include <ringload/catalog.hpp>
#include <ringload/error.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "hashing.hpp"
#include "interrupts.hpp"
#include "sums.hpp"
#include "text.hpp"
#include "whole_files.hpp"

namespace ringload::tool {

namespace {

namespace fs = std::filesystem;

struct verdicts {
  output& out;
  std::uint64_t right = 0;
  std::uint64_t wrong = 0;

  void good(const std::string& what) {
    ++right;
    out.write("ok      " + printable(what) + "\n");
  }
  void bad(const std::string& what, const std::string& why) {
    ++wrong;
    out.write("FAILED  " + printable(what) + ": " + printable(why) + "\n");
  }
  void end(const std::string& source, const char* things) const {
    out.flush();
    if (wrong == 0) return;
    throw error(errc::wrong_digest, printable(source),
                std::to_string(wrong) + " of " + std::to_string(right + wrong) + " " + things +
                    " are not what they should be");
  }
};

void verify_tensors(const verify_request& request, verdicts& results) {
  const manifest listed = read_manifest(request.manifest);
  std::map<std::string_view, const tensor_digest*> expected;
  for (const tensor_digest& one : listed.tensors) expected[one.name] = &one;

  const summed all = sum_all_tensors(request.load, [&expected](std::string_view name) {
    const auto one = expected.find(name);
    return one == expected.end() ? digest_algorithm::crc32c : one->second->algorithm;
  });
  for (const tensor_digest& found : all.sums) {
    const auto one = expected.find(found.name);
    if (one == expected.end()) {
      results.bad(found.name, "the manifest does not have it");
      continue;
    }
    if (one->second->bytes == found.bytes) {
      results.good(found.name);
    } else {
      results.bad(found.name, std::string(name(found.algorithm)) + " is " + hex(found.bytes) +
                                  ", but the manifest says " + hex(one->second->bytes));
    }
    expected.erase(one);
  }
  for (const auto& [name, unused] : expected) {
    results.bad(std::string(name), "the checkpoint does not have it");
  }
}

// The files of the checkpoint; and where a folder or a model was named, what else lies beside them
// and is a link, as every file of a snapshot is: the index, the configuration, the tokenizer.
std::vector<whole_file> files_of(const load_request& request) {
  const catalog what = read_catalog(request.source, request.how.strictness);
  std::map<fs::path, whole_file> found;
  for (const file_info& file : what.files) found[file.path] = described(file.path);
  std::error_code problem;
  if (!what.files.empty() && !fs::is_regular_file(request.source, problem)) {
    const fs::path folder = fs::path(what.files.front().path).parent_path();
    for (fs::recursive_directory_iterator at(folder, problem), end; !problem && at != end;
         at.increment(problem)) {
      if (at->is_symlink()) found[at->path()] = described(at->path());
    }
    if (problem) {
      throw error({problem.value(), boost::system::system_category()}, printable(folder.native()),
                  {});
    }
  }
  std::vector<whole_file> files;
  for (auto& [path, file] : found) files.push_back(std::move(file));
  return files;
}

void verify_files(const verify_request& request, verdicts& results) {
  watch_for_interrupts();
  std::vector<whole_file> files = files_of(request.load);
  bool any = false;
  for (const whole_file& file : files) any = any || !file.expected.empty();
  if (!any) {
    throw error(errc::digest_unavailable, printable(request.load.source),
                "nothing says what its bytes should be: it is in no Hugging Face cache, and no "
                "--manifest was given ('ringload sum --manifest FILE' writes one)");
  }
  hash_files(files);
  for (const whole_file& file : files) {
    const std::string& path = file.path.native();
    if (!file.problem.empty()) {
      results.bad(path, file.problem);
    } else if (file.expected.empty()) {
      results.bad(path, "it is no blob of the cache, so nothing says what its bytes should be");
    } else if (file.found != file.expected) {
      results.bad(path, "its digest is " + file.found + ", but its blob's name " + file.expected);
    } else {
      results.good(path);
    }
  }
}

}  // namespace

void verify_checkpoint(const verify_request& request, output& out) {
  verdicts results{out};
  if (request.manifest.empty()) {
    verify_files(request, results);
  } else {
    verify_tensors(request, results);
  }
  results.end(request.load.source, request.manifest.empty() ? "files" : "tensors");
}

}  // namespace ringload::tool
