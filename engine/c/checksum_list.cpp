// SPDX-License-Identifier: Apache-2.0

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

ringload_status hand_out(ringload::checksum_list list, const ringload_sha256* sha256,
                         ringload_checksum_list** result) {
  list.sha256 = hashers_of(sha256);
  *result =
      new ringload_checksum_list{std::make_shared<const ringload::checksum_list>(std::move(list))};
  return RINGLOAD_OK;
}

}  // namespace

ringload_status ringload_checksum_list_read(const char* path, const ringload_sha256* sha256,
                                            ringload_checksum_list** result) {
  return guarded([&] {
    required(result, "the output pointer for the checksum list is null") = nullptr;
    return hand_out(ringload::read_checksum_list(&required(path, "the path is null")), sha256,
                    result);
  });
}

ringload_status ringload_checksum_list_parse(const char* text, const char* place,
                                             const ringload_sha256* sha256,
                                             ringload_checksum_list** result) {
  return guarded([&] {
    required(result, "the output pointer for the checksum list is null") = nullptr;
    return hand_out(
        ringload::parse_checksum_list(&required(text, "the checksum list's text is null"),
                                      place ? place : "checksum list"),
        sha256, result);
  });
}

void ringload_checksum_list_release(ringload_checksum_list* list) { delete list; }

ringload_status ringload_operation_saved_checksums(ringload_operation* operation,
                                                   const char** text) {
  return guarded([&] {
    operation_state& state = *required(operation, "the operation is null").state;
    required(text, "the output pointer for the text is null") = nullptr;
    const auto hand_out_lines = [&](const auto& done) {
      std::call_once(operation->checksums_made, [&] {
        std::string lines;
        for (const ringload::tensor_digest& digest : done.digests) lines += checksum_line(digest);
        operation->checksums = std::move(lines);
      });
      *text = operation->checksums.c_str();
      return RINGLOAD_OK;
    };
    if (state.has_result_of<ringload::write_result>()) {
      return state.with_result<ringload::write_result>(hand_out_lines);
    }
    return state.with_result<ringload::save_result>(hand_out_lines);
  });
}
