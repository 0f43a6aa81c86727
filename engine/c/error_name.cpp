// SPDX-License-Identifier: Apache-2.0
#include "c/error_name.hpp"

namespace ringload::c {

// clang-format off
#define RINGLOAD_NAME(name) case errc::name: return #name
// clang-format on

const char* error_name(errc code) noexcept {
  switch (code) {
    RINGLOAD_NAME(source_not_found);
    RINGLOAD_NAME(not_a_checkpoint);
    RINGLOAD_NAME(ambiguous_source);
    RINGLOAD_NAME(incomplete_series);
    RINGLOAD_NAME(invalid_source_name);
    RINGLOAD_NAME(path_outside_source);
    RINGLOAD_NAME(not_a_regular_file);
    RINGLOAD_NAME(header_too_small);
    RINGLOAD_NAME(header_too_large);
    RINGLOAD_NAME(header_outside_file);
    RINGLOAD_NAME(header_not_utf8);
    RINGLOAD_NAME(malformed_header);
    RINGLOAD_NAME(invalid_offsets);
    RINGLOAD_NAME(wrong_tensor_bytes);
    RINGLOAD_NAME(size_overflow);
    RINGLOAD_NAME(fractional_bytes);
    RINGLOAD_NAME(extent_outside_file);
    RINGLOAD_NAME(trailing_bytes);
    RINGLOAD_NAME(unsupported_feature);
    RINGLOAD_NAME(malformed_index);
    RINGLOAD_NAME(duplicate_tensor);
    RINGLOAD_NAME(missing_tensor);
    RINGLOAD_NAME(truncated_file);
    RINGLOAD_NAME(changed_file);
    RINGLOAD_NAME(malformed_stream);
    RINGLOAD_NAME(codec_unavailable);
    RINGLOAD_NAME(no_such_tensor);
    RINGLOAD_NAME(memory_exceeded);
    RINGLOAD_NAME(engine_unavailable);
    RINGLOAD_NAME(direct_unavailable);
    RINGLOAD_NAME(invalid_options);
    RINGLOAD_NAME(device_unavailable);
    RINGLOAD_NAME(unsupported_dtype);
    RINGLOAD_NAME(invalid_destination);
    RINGLOAD_NAME(unexpected_tensor);
    RINGLOAD_NAME(wrong_dtype);
    RINGLOAD_NAME(wrong_shape);
    RINGLOAD_NAME(invalid_selection);
    RINGLOAD_NAME(not_mappable);
    RINGLOAD_NAME(access_denied);
    RINGLOAD_NAME(remote_failed);
    RINGLOAD_NAME(malformed_answer);
    RINGLOAD_NAME(invalid_tensor);
    RINGLOAD_NAME(invalid_saving);
    RINGLOAD_NAME(read_back_differs);
    RINGLOAD_NAME(not_restored);
    RINGLOAD_NAME(malformed_checksum_list);
    RINGLOAD_NAME(incomplete_checksum_list);
    RINGLOAD_NAME(digest_unavailable);
    RINGLOAD_NAME(wrong_digest);
    RINGLOAD_NAME(wrong_indices);
    RINGLOAD_NAME(malformed_message);
    RINGLOAD_NAME(mismatched_call);
    RINGLOAD_NAME(rank_failed);
  }
  return "";
}

#undef RINGLOAD_NAME

const char* error_name(const boost::system::error_code& code) noexcept {
  return code.category() == category() ? error_name(static_cast<errc>(code.value())) : "";
}

}  // namespace ringload::c
