// SPDX-License-Identifier: Apache-2.0

// Digests of the C interface: manifests, and the digests of a save.

#include <ringload/c.h>

#include <mutex>
#include <ringload/verify.hpp>
#include <string>
#include <utility>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

namespace {

ringload_status hand_out(ringload::manifest list, const ringload_sha256* sha256,
                         ringload_manifest** result) {
  list.sha256 = hashers_of(sha256);
  *result = new ringload_manifest{std::make_shared<const ringload::manifest>(std::move(list))};
  return RINGLOAD_OK;
}

}  // namespace

ringload_status ringload_manifest_read(const char* path, const ringload_sha256* sha256,
                                       ringload_manifest** result) {
  return guarded([&] {
    required(result, "the place for the manifest is null") = nullptr;
    return hand_out(ringload::read_manifest(&required(path, "the path is null")), sha256, result);
  });
}

ringload_status ringload_manifest_parse(const char* text, const char* place,
                                        const ringload_sha256* sha256, ringload_manifest** result) {
  return guarded([&] {
    required(result, "the place for the manifest is null") = nullptr;
    return hand_out(ringload::parse_manifest(&required(text, "the manifest's text is null"),
                                             place ? place : "manifest"),
                    sha256, result);
  });
}

void ringload_manifest_release(ringload_manifest* manifest) { delete manifest; }

ringload_status ringload_operation_saved_manifest(ringload_operation* operation,
                                                  const char** text) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    required(text, "the place for the text is null") = nullptr;
    const auto hand_out_lines = [&](const auto& done) {
      std::call_once(operation->manifest_made, [&] {
        std::string lines;
        for (const ringload::tensor_digest& digest : done.digests) lines += manifest_line(digest);
        operation->manifest = std::move(lines);
      });
      *text = operation->manifest.c_str();
      return RINGLOAD_OK;
    };
    if (state.gives<ringload::write_result>()) {
      return state.with_result<ringload::write_result>(hand_out_lines);
    }
    return state.with_result<ringload::save_result>(hand_out_lines);
  });
}
