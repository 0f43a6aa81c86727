// SPDX-License-Identifier: Apache-2.0
#pragma once

// Error codes, and the exception that carries one with a message for people. errno values keep the
// system category, and a device's codes keep the device's.

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <type_traits>

namespace ringload::inline v0 {

enum class errc {
  // Starts at 1: to an error_code, 0 means success.

  // Finding the files.
  source_not_found = 1,  // No such file, folder, or model in the local cache.
  not_a_checkpoint,      // It exists, but is not a format that can be loaded.
  ambiguous_source,      // A folder holds two checkpoints.
  incomplete_series,     // A shard of the series, or of the index, is missing.
  invalid_source_name,   // Not a path, and not a legal `owner/model[@revision]` either.
  path_outside_source,   // A name from inside a model would leave the model's own folder.
  not_a_regular_file,    // A FIFO, a device, a socket or a folder where a file must be.

  // Invalid files. In brackets: the name in the safetensors reference.
  header_too_small,     // Fewer than 8 bytes. [HeaderTooSmall]
  header_too_large,     // More than 100,000,000 bytes of header. [HeaderTooLarge]
  header_outside_file,  // The header would end past the file's end. [InvalidHeaderLength]
  header_not_utf8,      // [InvalidHeader]
  malformed_header,     // Not JSON, or of the wrong shape. [InvalidHeaderDeserialization]
  invalid_offsets,      // A hole, an overlap, or reversed offsets. [InvalidOffset]
  wrong_tensor_bytes,   // Shape and dtype do not give that many bytes. [TensorInvalidInfo]
  size_overflow,        // Shape or sizes do not fit in 64 bits. [ValidationOverflow]
  fractional_bytes,     // A sub-byte tensor does not end on a byte. [MisalignedSlice]
  extent_outside_file,  // Tensor data ends past the file's end. [MetadataIncompleteBuffer]
  trailing_bytes,       // The file goes on after the last tensor. [MetadataIncompleteBuffer]

  // What a file of another format says of itself, beyond the above.
  unsupported_feature,  // A version, a type or a form that is known by name and not read.

  // The shard index, and shards that do not match it.
  malformed_index,
  duplicate_tensor,  // One name in two places.
  missing_tensor,    // The index lists a tensor that its shard lacks.

  // While loading.
  truncated_file,       // The file became shorter after it was opened.
  changed_file,         // The file was written or replaced while it was loaded.
  malformed_stream,     // Compressed bytes that are damaged, or decode to more or less than said.
  codec_unavailable,    // This build was made without the codec that a tensor is stored with.
  no_such_tensor,       // The checkpoint has no tensor of that name.
  memory_exceeded,      // The tensors need more memory than there is, or than the limits allow.
  engine_unavailable,   // The requested read engine does not work here.
  direct_unavailable,   // Direct reads were requested, and do not work for this file.
  invalid_options,      // Two options contradict each other.
  device_unavailable,   // The requested device does not exist or cannot be used.
  unsupported_dtype,    // Tensors cannot be converted to `load_options::dtype`.
  invalid_destination,  // Memory of the caller's that overlaps, or is not what it says.
  unexpected_tensor,    // A fill found a tensor that no destination is for.
  wrong_dtype,          // A tensor and its destination differ in their element type,
  wrong_shape,          // or in their shape.
  invalid_selection,    // A range outside its tensor, two of one dimension, or no such rank.
  not_mappable,         // A tensor that cannot be used where its file has it.

  // From the network.
  access_denied,     // A server wants credentials, or those it was given give no access.
  remote_failed,     // A server cannot be reached, or does not give what was asked for.
  malformed_answer,  // What a server says breaks its own protocol.

  // While saving.
  invalid_tensor,     // A tensor that cannot be saved as it is described.
  invalid_saving,     // The settings contradict themselves, or the path names no format.
  read_back_differs,  // What was read back is not what was written.

  // Integrity, when it is asked for.
  malformed_manifest,   // A line that is no digest of a tensor, or a tensor that is listed twice.
  incomplete_manifest,  // Manifest and checkpoint do not have the same tensors.
  digest_unavailable,   // There is no hasher for a digest, or no digest of a tensor.
  wrong_digest,         // Bytes do not match the manifest, their file's own digest, or the hub's.
  wrong_indices,        // The indices of a sparse tensor leave its shape, or go back.

  // Between processes.
  malformed_message,  // What another process sent breaks the protocol.
  mismatched_call,    // The ranks of a group made different calls.
  rank_failed,        // Another rank has failed, has ended, or did not answer in time.
};

RINGLOAD_EXPORT const boost::system::error_category& category() noexcept;

inline boost::system::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

/// The exception of the library, thrown or passed to completion handlers. `what()` is the place, a
/// colon and the cause, in one line: "model-00002.safetensors: tensor 'wte.weight': its bytes end
/// at 4,096 but the file at 4,000".
class RINGLOAD_EXPORT error : public boost::system::system_error {
 public:
  /// `place` names the file, and the tensor or byte in it; `cause` may be empty, and then it is the
  /// code's own message.
  error(boost::system::error_code code, std::string place, std::string cause);
  ~error() override;

  const char* what() const noexcept override { return text_.c_str(); }
  const std::string& place() const noexcept { return place_; }

 private:
  std::string place_;
  std::string text_;
};

}  // namespace ringload::inline v0

template <>
struct boost::system::is_error_code_enum<ringload::errc> : std::true_type {};
