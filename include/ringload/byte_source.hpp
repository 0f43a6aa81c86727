// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints outside the file system: a custom store, from which a loader reads as it reads from a
// file system. `ringload::remote()` of <ringload/remote.hpp> is such a store, for HTTP.
//
//   byte_store    has checkpoints with names like "cache://models/7b"
//   byte_folder   a folder of the store: shards and their index
//   byte_source   one object: a size, and ranges of its bytes
//
//   ringload::loader loader{ringload::host(), {}, {ringload::extension(my_store)}};
//   ringload::model m = co_await loader.load_async("cache://models/7b");
//
// An exception from these functions fails the load. A `ringload::error` keeps its place and text.

#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <ringload/export.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// Counters of the requests of a load. Any thread may update them at any time.
struct transfer_counts {
  std::atomic<std::uint64_t> requests = 0;
  std::atomic<std::uint64_t> retries = 0;  // Requests that repeat or resume a failed request.
  /// The arrival time of the first byte of a tensor, in nanoseconds of steady_clock since its
  /// epoch; 0: not yet.
  std::atomic<std::int64_t> first_byte_at = 0;
};

/// A range of a byte_source, and the memory for its bytes.
struct source_read {
  source_read(std::uint64_t from, std::span<std::byte> to) noexcept : offset(from), into(to) {}

  std::uint64_t offset;
  /// The destination; its size is the size of the range, within the source.
  std::span<std::byte> into;
  bool awaited = false;  // An awaited tensor needs this range: it has priority.
  /// Requested when the bytes are not needed any more. The read must then end soon, with any
  /// result.
  std::stop_token stop = {};
  transfer_counts* counts = nullptr;  // Counters for requests of the source; may be null.
};

/// An object of a store. Several threads may call its functions concurrently.
class RINGLOAD_EXPORT byte_source {
 public:
  using read_handler = boost::asio::any_completion_handler<void(std::exception_ptr)>;

  virtual ~byte_source();

  /// Returns the size, which never changes.
  virtual std::uint64_t bytes() const noexcept = 0;

  /// Returns a version tag that changes when the object is replaced: an ETag, a version id, an
  /// mtime. The function is called when the object is opened and at the end of each load. If the
  /// tag differs, the load fails with errc::changed_file. If the function throws, the load fails
  /// with that exception. May block. Empty: the version is unknown, or reads detect a change.
  virtual std::string identity() const = 0;

  /// Starts a read without blocking, and calls `done` once, in any thread, but never from inside
  /// this function. The argument of `done` is null if all of `request.into` is filled, else the
  /// failure. The source may write to `request.into` until it calls `done`, and not afterwards,
  /// even if the read is stopped. If the object has changed since it was opened, the failure is
  /// errc::changed_file. At most loader_options::slots reads are in flight.
  ///
  /// A coroutine `boost::asio::awaitable<void>` is started by `boost::asio::co_spawn(executor,
  /// coroutine(request), std::move(done))`.
  virtual void read_async(const source_read& request, read_handler done) = 0;

  /// Called if the bytes that were read are not a checkpoint. A source that reads from a cached
  /// copy drops the copy, and returns whether the same reads may now return different bytes. May
  /// block.
  virtual bool drop_copy();
};

/// A folder of a store. Its functions block, and are called from one thread at a time.
class RINGLOAD_EXPORT byte_folder {
 public:
  virtual ~byte_folder();

  /// Returns the names of all files of the folder, in any order, for finding the checkpoint. The
  /// result may include names of sub-folders, and names of files in sub-folders with '/'. Throws
  /// errc::unsupported_feature if the store cannot list the folder.
  virtual std::vector<std::string> names(const std::stop_token& stop) = 0;

  /// Returns the names of all files of the folder and its sub-folders, with '/', for
  /// open_options::independent_files. The default implementation returns names().
  virtual std::vector<std::string> names_beneath(const std::stop_token& stop);

  /// Opens a file. Throws errc::source_not_found if the file does not exist. Names come from an
  /// index and may be malicious. A name has no empty part, no "." and no "..", and does not begin
  /// with '/'.
  virtual std::shared_ptr<byte_source> open(const std::string& name,
                                            const std::stop_token& stop) = 0;

  /// Announces the next files to be opened, in this order, so that the store can open them in
  /// parallel.
  virtual void expect(std::span<const std::string> names, const std::stop_token& stop);

  /// Returns the name of a file for errors and the catalog, without credentials. An empty name
  /// stands for the folder itself.
  virtual std::string path_of(const std::string& name) const = 0;
};

/// The result of resolving the name of a checkpoint. A loader also accepts it in place of a name.
struct found_source {
  std::shared_ptr<byte_folder> folder;
  std::string file;  // A checkpoint or index in the folder; empty: the whole folder.
  /// A local file or folder with the same content, which is opened instead; empty: none.
  std::string local_path;
};

/// Returns a file of any format in memory as a source for `loader::open_async` and `load_async`:
///
///   auto m = co_await loader.load_async(ringload::from_memory(bytes, "model.safetensors"));
///
/// `name` is the name in errors and in the catalog, and determines the format like a file name.
/// `owner` is kept alive as long as the bytes are needed. Without an owner, the caller must keep
/// the bytes valid until the checkpoint and all its loads are destroyed.
RINGLOAD_EXPORT found_source from_memory(std::span<const std::byte> bytes, std::string name,
                                         std::shared_ptr<const void> owner = nullptr);

/// A store, for the constructor of an extension. Its functions are called from any thread.
class RINGLOAD_EXPORT byte_store {
 public:
  virtual ~byte_store();

  /// Returns whether the store accepts this name. For names with "://" the function is called
  /// before paths are tried. For other names it is called if no such path and no such model in the
  /// local cache exists.
  virtual bool has_name(std::string_view source) const noexcept = 0;

  /// Resolves a name. May block. Throws errc::source_not_found if the checkpoint does not exist.
  virtual found_source find(std::string_view source, const std::stop_token& stop) = 0;
};

}  // namespace ringload::inline v0
