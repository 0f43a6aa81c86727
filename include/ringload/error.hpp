// SPDX-License-Identifier: Apache-2.0
#pragma once

// Error codes, error conditions, and the exception type of the library. An errno value keeps the
// system category. An error code of a device keeps the category of that device.
//
// Operations complete with `void(boost::system::error_code, T)`, as the operations of Asio do.
// Therefore each kind of completion token, such as a callback or as_tuple, can report a failure
// without an exception. If the signature had a std::exception_ptr, redirect_error would not set an
// error_code. <ringload/diagnostics.hpp> provides the place of a failure in addition to the
// error_code. The default token throws `error`, which has the error_code and the place.

#include <boost/system/error_code.hpp>
#include <boost/system/error_condition.hpp>
#include <boost/system/system_error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <type_traits>

namespace ringload::inline v0 {

/// The error codes of ringload.
enum class errc {
  // The values start at 1, because an error_code with the value 0 means success.

  // Errors of the search for the files of a checkpoint.
  source_not_found = 1,  // The file, the folder, or the model in the local cache does not exist.
  not_a_checkpoint,      // The source exists, but has no format that can be loaded.
  ambiguous_source,      // A folder contains two checkpoints.
  incomplete_series,     // A file of a numbered series, or a shard of an index, does not exist.
  invalid_source_name,   // The name is neither a path nor a valid `owner/model[@revision]`.
  path_outside_source,   // A file name in a model refers to a file outside the model's folder.
  not_a_regular_file,    // A FIFO, a device, a socket or a folder was found instead of a file.

  // Errors in the contents of files. The name in brackets is the error name of the safetensors
  // crate.
  /// The file is too short for a header: fewer than 8 bytes in safetensors. [HeaderTooSmall]
  header_too_small,
  /// The header exceeds a limit of its format: 100,000,000 bytes in safetensors. [HeaderTooLarge]
  header_too_large,
  header_outside_file,  // The header would end after the end of the file. [InvalidHeaderLength]
  header_not_utf8,      // The header is not valid UTF-8. [InvalidHeader]
  /// The header has invalid JSON or an invalid structure. [InvalidHeaderDeserialization]
  malformed_header,
  invalid_offsets,  // Tensor offsets have a gap, overlap, or decrease. [InvalidOffset]
  /// The number of bytes does not match the shape and the dtype. [TensorInvalidInfo]
  wrong_tensor_bytes,
  size_overflow,  // A shape or a size is too large for the format. [ValidationOverflow]
  /// A tensor with elements of less than 8 bits does not end at a whole byte. [MisalignedSlice]
  fractional_bytes,
  /// The bytes of a tensor end after the end of the file. [MetadataIncompleteBuffer]
  extent_outside_file,
  trailing_bytes,  // The file has bytes after the last tensor. [MetadataIncompleteBuffer]

  /// The file has a version, type or feature that ringload cannot read. Also used if a new file
  /// needs a feature that its format does not have.
  unsupported_feature,

  // Errors of the shard index, and of shards that do not match the index.
  malformed_index,   // The index violates its format.
  duplicate_tensor,  // Two tensors have the same name.
  missing_tensor,    // The index lists a tensor, but the shard does not have the tensor.

  // Errors of loading.
  truncated_file,       // The file became shorter after the checkpoint was opened.
  changed_file,         // The file was changed or replaced after it was opened.
  malformed_stream,     // Compressed bytes are damaged, or have another size after decompression.
  codec_unavailable,    // This build cannot decompress a tensor.
  no_such_tensor,       // The checkpoint has no tensor with the requested name.
  memory_exceeded,      // The tensors need more memory than is available or allowed.
  engine_unavailable,   // The requested read engine does not work on this system.
  direct_unavailable,   // Direct reads were requested, but do not work for this file.
  invalid_options,      // An option is invalid, or two options contradict each other.
  device_unavailable,   // The requested device does not exist or cannot be used.
  unsupported_dtype,    // Tensors cannot be converted to the requested dtype.
  invalid_destination,  // Caller memory overlaps, or does not match its description.
  /// In a load into caller memory, a tensor has no destination. In a writer, the added tensor is
  /// not the next planned tensor.
  unexpected_tensor,
  wrong_dtype,  // The element types of a tensor and its destination differ.
  wrong_shape,  // The shapes of a tensor and its destination differ.
  /// A range is outside its tensor, a dimension has two ranges, or a rank is not less than the
  /// number of ranks.
  invalid_selection,
  not_mappable,  // The tensor cannot be mapped from its file.

  // Errors of the network.
  access_denied,     // The server requires credentials, or refuses the given credentials.
  remote_failed,     // The server cannot be reached, or does not return the requested object.
  malformed_answer,  // The response of the server violates the protocol.

  // Errors of saving.
  invalid_tensor,  // The description of a tensor is invalid.
  /// An option of a save or of a writer is invalid or contradicts another option. Also used if the
  /// path does not determine the format.
  invalid_saving,
  read_back_differs,  // The bytes that were read back differ from the bytes that were written.

  // Errors of verification, which is optional.
  malformed_checksum_list,   // A line or a digest is invalid, or a tensor is listed twice.
  incomplete_checksum_list,  // The checksum list and the checkpoint have different tensors.
  digest_unavailable,        // A tensor has no digest, or no hasher for its digest is available.
  /// The bytes do not match the digest of the checksum list, the file or the hub. Also used if a
  /// delta was applied to another version of the model.
  wrong_digest,
  wrong_indices,  // The indices of a sparse tensor exceed its shape, or decrease.

  // Errors between processes.
  malformed_message,  // A message of another process violates the protocol.
  mismatched_call,    // The ranks of a group made different calls.
  rank_failed,        // Another rank failed, ended, or did not answer in time.

  // Errors of updates in place.
  /// An update failed, and the device could not restore the old bytes. The memory contains bytes of
  /// both versions.
  not_restored,
};

/// Groups of error codes that a program usually handles in the same way. Compare an error_code with
/// a condition: `if (code == ringload::condition::retryable)`.
enum class condition {
  /// The checkpoint, a file or a tensor does not exist: `source_not_found`, `no_such_tensor`,
  /// ENOENT.
  not_found = 1,
  /// The same call may succeed later: `remote_failed`, `rank_failed`, `changed_file`, EAGAIN,
  /// EINTR, EBUSY, ETIMEDOUT, ECONNREFUSED, ECONNRESET, ENETUNREACH, EHOSTUNREACH, EMFILE, ENFILE.
  retryable,
  /// The bytes of a file violate its format, or do not match a digest.
  malformed_file,
  /// The memory is not sufficient: `memory_exceeded`, ENOMEM.
  no_memory,
  /// The operation was cancelled: ECANCELED, which is `boost::asio::error::operation_aborted`.
  cancelled,
};

/// Returns the category of `condition`.
RINGLOAD_EXPORT const boost::system::error_category& condition_category() noexcept;

/// Converts a `condition`. Boost calls this function to compare an error_code with a `condition`.
inline boost::system::error_condition make_error_condition(condition value) noexcept {
  return {static_cast<int>(value), condition_category()};
}

/// Returns the category of `errc`. The name of the category is "ringload".
RINGLOAD_EXPORT const boost::system::error_category& category() noexcept;

/// Converts an `errc`. Boost calls this function to assign an `errc` to an error_code, and to
/// compare an error_code with an `errc`.
inline boost::system::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

/// The exception type of the library. `what()` returns the place and the cause in one line,
/// separated by a colon. Example: "model-00002.safetensors: tensor 'wte.weight': the tensor ends at
/// byte 4,096, but the file has 4,000 bytes".
class RINGLOAD_EXPORT error : public boost::system::system_error {
 public:
  /// Constructs an error with a place and a cause. The place is the file, and the tensor or the
  /// byte in the file. If `cause` is empty, the message of the code is used.
  error(boost::system::error_code code, std::string place, std::string cause);
  ~error() override;

  /// Returns the place and the cause in one line.
  const char* what() const noexcept override { return text_.c_str(); }
  /// Returns the place of the failure.
  const std::string& place() const noexcept { return place_; }

 private:
  std::string place_;
  std::string text_;
};

}  // namespace ringload::inline v0

template <>
struct boost::system::is_error_code_enum<ringload::errc> : std::true_type {};

template <>
struct boost::system::is_error_condition_enum<ringload::condition> : std::true_type {};
