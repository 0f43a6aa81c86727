// SPDX-License-Identifier: Apache-2.0

// ringload verify: compares the digest of each tensor, or of each file of a Hugging Face cache.
// Prints one line for each tensor or file, and continues after a mismatch.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <ringload/catalog.hpp>
#include <ringload/error.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "checksums.hpp"
#include "commands.hpp"
#include "interrupts.hpp"
#include "json.hpp"
#include "open_request.hpp"
#include "report.hpp"
#include "tensor_hasher.hpp"
#include "text.hpp"
#include "verify_cache.hpp"

namespace ringload::tool {

namespace {

namespace fs = std::filesystem;

struct verdict {
  std::string name;
  std::string mismatch;  // Empty if the digest is correct.
};

std::string line_of(const verdict& one) {
  if (one.mismatch.empty()) return "ok      " + printable(one.name) + "\n";
  return "FAILED  " + printable(one.name) + ": " + printable(one.mismatch) + "\n";
}

// Prints the results line by line, or as one JSON object at the end.
class verdicts {
 public:
  verdicts(const verify_request& request, output& out)
      : request_(request), things_(request.checksums.empty() ? "files" : "tensors"), out_(out) {}

  void add(verdict one) {
    if (!one.mismatch.empty()) ++wrong_;
    if (!request_.load.json) out_.write(line_of(one));
    all_.push_back(std::move(one));
  }

  void end() {
    if (request_.load.json) write_json();
    out_.flush();
    if (wrong_ == 0) return;
    throw error(errc::wrong_digest, printable(shown(request_.load.from)),
                std::to_string(wrong_) + " of " + std::to_string(all_.size()) + " " + things_ +
                    " failed the verification");
  }

 private:
  void write_json() {
    // The files were added in the order in which they were hashed.
    std::ranges::sort(all_, {}, &verdict::name);
    std::string text;
    json_object top(text, ",\n");
    top.field("schema_version", schema_version);
    append_source(top, request_.load.from.sources);
    top.key_of_next(things_) += "[";
    const char* before = "\n";
    for (const verdict& one : all_) {
      text += before;
      json_object object(text);
      object.field("name", one.name).field("right", one.mismatch.empty());
      if (!one.mismatch.empty()) object.field("why", one.mismatch);
      object.close();
      before = ",\n";
    }
    text += "\n]";
    top.field("right", all_.size() - wrong_).field("wrong", wrong_).close();
    out_.write(text + "\n");
  }

  const verify_request& request_;
  const std::string things_;
  output& out_;
  std::vector<verdict> all_;
  std::uint64_t wrong_ = 0;
};

void verify_tensors(const verify_request& request, verdicts& results) {
  const checksum_list listed = read_checksum_list(request.checksums);
  watch_for_interrupts();
  std::map<std::string_view, const tensor_digest*> expected;
  for (const tensor_digest& one : listed.tensors) expected[one.name] = &one;

  const checksum_result all = sum_all_tensors(request.load, [&expected](std::string_view name) {
    const auto one = expected.find(name);
    return one == expected.end() ? digest_algorithm::crc32c : one->second->algorithm;
  });
  for (const tensor_digest& found : all.sums) {
    const auto one = expected.find(found.name);
    if (one == expected.end()) {
      results.add({found.name, "the tensor is not in the checksum list"});
      continue;
    }
    if (one->second->bytes == found.bytes) {
      results.add({found.name, {}});
    } else {
      results.add({found.name, std::string(name(found.algorithm)) + " is " + hex(found.bytes) +
                                   ", but the checksum list says " + hex(one->second->bytes)});
    }
    expected.erase(one);
  }
  for (const auto& [name, unused] : expected) {
    // --select or --except omits this tensor.
    if (all.whole.contains(name)) continue;
    results.add({std::string(name), "the tensor is not in the checkpoint"});
  }
}

// Returns the files of the checkpoint. If the source is a folder or a model, also returns the other
// symlinks in the folder. In a snapshot of the cache, these are the index, the configuration and
// the tokenizer.
std::vector<whole_file> files_of(const load_request& request) {
  const catalog contents = catalog_of(request.from);
  std::map<fs::path, whole_file> found;
  for (const file_info& file : contents.files) found[file.path] = describe_file(file.path);
  std::error_code problem;
  if (!contents.files.empty() && !fs::is_regular_file(request.from.sources.front(), problem)) {
    const fs::path folder = fs::path(contents.files.front().path).parent_path();
    for (fs::recursive_directory_iterator at(folder, problem), end; !problem && at != end;
         at.increment(problem)) {
      if (at->is_symlink()) found[at->path()] = describe_file(at->path());
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

std::string mismatch_of(const whole_file& file) {
  if (!file.problem.empty()) return file.problem;
  if (file.expected.empty()) {
    return "the file is not a blob of the cache, so there is no digest to compare the bytes with";
  }
  if (file.found == file.expected) return {};
  return "its digest is " + file.found + ", but the name of its blob is " + file.expected;
}

void verify_files(const verify_request& request, verdicts& results, output& out) {
  std::vector<whole_file> files = files_of(request.load);
  // Called after the read of the catalog, because the read of the catalog can wait for a server.
  // Before this call, a signal ends the process at once.
  watch_for_interrupts();
  bool any = false;
  for (const whole_file& file : files) any = any || !file.expected.empty();
  if (!any) {
    throw error(
        errc::digest_unavailable, printable(shown(request.load.from)),
        "there is no digest to compare the bytes with: the file is not in a Hugging Face cache, "
        "and "
        "--checksums is not given ('ringload sum --checksums FILE' writes a checksum list)");
  }
  // Prints each result immediately, because hashing a file may take a minute.
  hash_files(files, [&](const whole_file& file) {
    results.add({file.path.native(), mismatch_of(file)});
    out.flush();
  });
}

}  // namespace

void verify_checkpoint(const verify_request& request, output& out) {
  verdicts results(request, out);
  if (request.checksums.empty()) {
    verify_files(request, results, out);
  } else {
    verify_tensors(request, results);
  }
  results.end();
}

}  // namespace ringload::tool
