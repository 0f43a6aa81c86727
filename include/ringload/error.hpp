// SPDX-License-Identifier: Apache-2.0
#pragma once

// Error codes, and the exception that carries a code with a readable message. errno values keep the
// system category. Device error codes keep the category of the device.

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <type_traits>

namespace ringload::inline v0 {

enum class errc {
  // The values start at 1, because 0 means success in an error_code.

  // Errors of finding the files.
  source_not_found = 1,  // No such file, folder, or model in the local cache.
  not_a_checkpoint,      // The source exists, but has no format that can be loaded.
  ambiguous_source,      // A folder holds two checkpoints.
  incomplete_series,     // A shard of the series, or of the index, is missing.
  invalid_source_name,   // Neither a path nor a legal `owner/model[@revision]`.
  path_outside_source,   // A name in a model leads outside the model's own folder.
  not_a_regular_file,    // A FIFO, a device, a socket or a folder where a file must be.

  // Errors of file contents. The name in brackets is the error of the safetensors reference.
  header_too_small,     // Fewer than 8 bytes. [HeaderTooSmall]
  header_too_large,     // More than 100,000,000 bytes of header. [HeaderTooLarge]
  header_outside_file,  // The header would end past the file's end. [InvalidHeaderLength]
  header_not_utf8,      // [InvalidHeader]
  malformed_header,     // Not JSON, or JSON of the wrong structure. [InvalidHeaderDeserialization]
  invalid_offsets,      // A hole, an overlap, or reversed offsets. [InvalidOffset]
  wrong_tensor_bytes,   // The number of bytes does not match shape and dtype. [TensorInvalidInfo]
  size_overflow,        // Shape or sizes do not fit in 64 bits. [ValidationOverflow]
  fractional_bytes,     // A sub-byte tensor does not end on a byte. [MisalignedSlice]
  extent_outside_file,  // Tensor data ends past the file's end. [MetadataIncompleteBuffer]
  trailing_bytes,       // Bytes follow the last tensor. [MetadataIncompleteBuffer]

  // Errors that only formats other than safetensors have.
  unsupported_feature,  // A known version, type or form that ringload cannot read.

  // Errors of the shard index, and of shards that do not match the index.
  malformed_index,
  duplicate_tensor,  // Two tensors have the same name.
  missing_tensor,    // The index lists a tensor that its shard lacks.

  // Errors of loading.
  truncated_file,       // The file became shorter after it was opened.
  changed_file,         // The file was written or replaced while it was loaded.
  malformed_stream,     // Compressed bytes are damaged, or decode to an unexpected size.
  codec_unavailable,    // This build lacks the codec of a tensor.
  no_such_tensor,       // The checkpoint has no tensor with the requested name.
  memory_exceeded,      // The tensors need more memory than is available or allowed.
  engine_unavailable,   // The requested read engine does not work on this system.
  direct_unavailable,   // Direct reads were requested, but do not work for this file.
  invalid_options,      // Two options contradict each other.
  device_unavailable,   // The requested device does not exist or cannot be used.
  unsupported_dtype,    // Tensors cannot be converted to `load_options::dtype`.
  invalid_destination,  // Caller memory overlaps, or does not match its description.
  unexpected_tensor,    // A fill found a tensor without a destination.
  wrong_dtype,          // The element types of a tensor and its destination differ.
  wrong_shape,          // The shapes of a tensor and its destination differ.
  invalid_selection,  // A range outside its tensor, two ranges in a dimension, or an invalid rank.
  not_mappable,       // The tensor cannot be mapped from its file.

  // Errors of the network.
  access_denied,     // The server requires credentials, or refuses the given credentials.
  remote_failed,     // The server cannot be reached, or does not return the requested object.
  malformed_answer,  // The server's response violates the protocol.

  // Errors of saving.
  invalid_tensor,     // The description of the tensor is invalid.
  invalid_saving,     // The options contradict each other, or the path names no format.
  read_back_differs,  // The bytes read back differ from the bytes written.

  // Errors of integrity checks, which are optional.
  malformed_manifest,   // An invalid line, or a tensor that is listed twice.
  incomplete_manifest,  // Manifest and checkpoint list different tensors.
  digest_unavailable,   // The hasher for a digest, or the digest of a tensor, is missing.
  wrong_digest,         // Bytes do not match the manifest, the file's digest, or the hub's digest.
  wrong_indices,        // Indices of a sparse tensor exceed its shape, or decrease.

  // Errors between processes.
  malformed_message,  // A message of another process violates the protocol.
  mismatched_call,    // The ranks of a group made different calls.
  rank_failed,        // Another rank failed, ended, or did not answer in time.
};

RINGLOAD_EXPORT const boost::system::error_category& category() noexcept;

inline boost::system::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

/// The exception of the library, thrown or passed to completion handlers. `what()` returns the
/// place, a colon and the cause in one line: "model-00002.safetensors: tensor 'wte.weight': its
/// bytes end at 4,096 but the file at 4,000".
class RINGLOAD_EXPORT error : public boost::system::system_error {
 public:
  /// `place` names the file, and the tensor or byte in the file. If `cause` is empty, the message
  /// of the code is used.
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
