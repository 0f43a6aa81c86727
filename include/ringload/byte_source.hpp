// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interfaces of a custom store. A store contains checkpoints that are not in the file system. A
// loader reads a store in the same way as files. `ringload::remote()` of <ringload/remote.hpp> is a
// store for HTTP.
//
//   byte_store    has checkpoints with names like "cache://models/7b"
//   byte_folder   a folder of the store: shards and their index
//   byte_source   one object: a size, and ranges of its bytes
//   byte_target   one object that is being written
//
//   ringload::loader loader{ringload::host(), {}, {ringload::extension(my_store)}};
//   ringload::model m = co_await loader.load_async("cache://models/7b");
//
// No function of these interfaces may wait for an operation of a loader that uses the store,
// because the operation may need the thread that calls the function.
//
// If a function of these interfaces throws an exception, the load fails. If the exception is a
// `ringload::error`, the error of the load has the same place and text.

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

/// Counters of the requests of one load. Any thread may update the counters of a read
/// (`source_read::counts`) until the read has ended.
struct transfer_counts {
  std::atomic<std::uint64_t> requests = 0;  // The number of requests.
  std::atomic<std::uint64_t> retries = 0;   // Requests that repeat or resume a failed request.
  /// The time when the first byte of a tensor arrived, in nanoseconds of steady_clock. 0 means that
  /// no byte has arrived yet.
  std::atomic<std::int64_t> first_byte_at = 0;
};

/// A request to read a range of a byte_source.
struct source_read {
  /// Requests a read of `bytes.size()` bytes into `bytes`. `begin` is the offset of the first byte
  /// in the object.
  source_read(std::uint64_t begin, std::span<std::byte> bytes) noexcept
      : offset(begin), into(bytes) {}

  std::uint64_t offset;  // The offset of the first byte in the object.
  /// The memory for the bytes. Its size is the size of the range. The range is within the object.
  std::span<std::byte> into;
  /// True if a caller is waiting for these bytes. The source should process this read before other
  /// reads.
  bool awaited = false;
  /// A stop is requested when the bytes are no longer needed. The read must then end soon, with or
  /// without an error.
  std::stop_token stop = {};
  transfer_counts* counts = nullptr;  // The counters that the source should update, or null.
};

/// One object of a store. All functions must be thread-safe.
class RINGLOAD_EXPORT byte_source {
 public:
  /// Called when a read has ended. The argument is null, or the exception of a failure.
  using read_handler = boost::asio::any_completion_handler<void(std::exception_ptr)>;

  virtual ~byte_source();

  /// Returns the size of the object. The size must not change.
  virtual std::uint64_t bytes() const noexcept = 0;

  /// Returns a version tag that changes when the object is replaced, such as an ETag, a version id
  /// or an mtime. Returns an empty string if the version is unknown, or if read_async itself
  /// detects changes.
  ///
  /// Called when the object is opened, when its catalog has been read, when a load from an open
  /// checkpoint begins, and at the end of each load. If the tag has changed, the open or the load
  /// fails with errc::changed_file. An exception fails the open or the load. May block.
  virtual std::string identity() const = 0;

  /// Starts a read and returns without blocking. Must call `done` exactly once, in any thread, but
  /// not inside this function. If this function throws an exception, the read fails, and `done`
  /// must not be called. The argument of `done` is null if `request.into` is filled completely.
  /// Otherwise the argument is the exception of the failure. If the object has changed since the
  /// opening, the exception must be errc::changed_file.
  ///
  /// The source may write to `request.into` until the call of `done`, but not afterwards, even if
  /// the read was stopped. One loader has at most loader_options::slots reads of tensors in flight.
  ///
  /// To start a coroutine that returns `boost::asio::awaitable<void>`, call
  /// `boost::asio::co_spawn(executor, coroutine(request), std::move(done))`.
  virtual void read_async(const source_read& request, read_handler done) = 0;

  /// Returns true if the store has a digest of the object, and loads have read bytes of the object
  /// that were not compared with this digest. Called at the end of each load, after identity(). See
  /// `load_stats::files_unverified`. The default implementation returns false.
  virtual bool has_unverified_bytes() const noexcept;

  /// Called if the bytes of the object are not a valid checkpoint. A source that keeps a local copy
  /// of the object must delete this copy. Returns true if the source deleted a copy, so that
  /// another attempt may read different bytes. May block.
  virtual bool drop_copy();
};

/// A folder of a store. The functions may block. Only one thread at a time calls the functions.
class RINGLOAD_EXPORT byte_folder {
 public:
  virtual ~byte_folder();

  /// Returns the names of all files of the folder, in any order. The loader uses the names to find
  /// the checkpoint. The result may also contain names of sub-folders, and names of files in
  /// sub-folders ("folder/file"). Throws errc::unsupported_feature if the store cannot list the
  /// folder.
  virtual std::vector<std::string> names(const std::stop_token& stop) = 0;

  /// Returns the names of all files of the folder and of its sub-folders ("folder/file"). Called
  /// for open_options::independent_files. The default implementation returns names().
  virtual std::vector<std::string> names_beneath(const std::stop_token& stop);

  /// Opens a file of the folder. Throws errc::source_not_found if the file does not exist. `name`
  /// may come from a malicious index file. The loader has already checked that `name` does not
  /// begin with '/', and that no component of the path is empty, "." or "..".
  virtual std::shared_ptr<byte_source> open(const std::string& name,
                                            const std::stop_token& stop) = 0;

  /// Announces that the files `names` will be opened next, in this order. The store may open the
  /// files in parallel. The default implementation does nothing.
  virtual void expect(std::span<const std::string> names, const std::stop_token& stop);

  /// Returns the path of the file `name`, for error texts and for the catalog. If `name` is empty,
  /// returns the path of the folder. The path must not contain credentials.
  virtual std::string path_of(const std::string& name) const = 0;
};

/// The result of `byte_store::find()`: a folder of a store, and a file in this folder. A
/// found_source can be passed to a loader instead of a name.
struct found_source {
  std::shared_ptr<byte_folder> folder;  // The folder of the store.
  /// The name of a checkpoint or an index file in the folder. Empty means the whole folder.
  std::string file;
  /// The path of a local file or folder with the same content. If set, the loader opens this path
  /// instead.
  std::string local_path;
};

/// Returns a source that reads a file in memory, for `loader::open_async` and `load_async`. All
/// formats are supported.
///
///   auto m = co_await loader.load_async(ringload::from_memory(bytes, "model.safetensors"));
///
/// `name` appears in errors and in the catalog. The suffix of `name`, such as ".safetensors",
/// determines the format. `owner` keeps the bytes alive as long as the bytes are needed. If `owner`
/// is null, the caller must keep the bytes alive until the checkpoint and all its loads are
/// destroyed.
RINGLOAD_EXPORT found_source from_memory(std::span<const std::byte> bytes, std::string name,
                                         std::shared_ptr<const void> owner = nullptr);

/// The description of an object that a save or a writer will write.
struct target_request {
  std::string_view name;    // The name of the object, with the scheme: "cache://models/7b.zt".
  std::uint64_t bytes = 0;  // The size of the object. 0 if the size is not known yet.
  /// If false, and if the object exists, the store must throw `EEXIST`, and must not replace it.
  bool replace = true;
  /// No write crosses a multiple of this number, which is a power of two.
  std::uint64_t write_bytes_max = 0;
  /// A stop is requested when the object is no longer needed. Writes in flight, and a publication
  /// that has not begun to replace the object, must then end soon.
  std::stop_token stop = {};
};

/// A range of a byte_target, and its bytes.
struct target_write {
  /// Describes a write of `bytes` at `begin`.
  target_write(std::uint64_t begin, std::span<const std::byte> bytes) noexcept
      : offset(begin), from(bytes) {}

  std::uint64_t offset;             // The offset of the first byte in the object.
  std::span<const std::byte> from;  // The bytes. Valid until the write has ended.
};

/// An object of a store that is being written. The object becomes visible as a whole, or not at
/// all. The destructor drops an object that was not published, and may block.
class RINGLOAD_EXPORT byte_target {
 public:
  /// Called when a write has ended. The argument is null, or the exception of a failure.
  using write_handler = boost::asio::any_completion_handler<void(std::exception_ptr)>;

  virtual ~byte_target();

  /// Starts a write and returns without blocking. Must call `done` exactly once, in any thread, but
  /// not inside this function. If this function throws an exception, the write fails, and `done`
  /// must not be called. After the exception or the call of `done`, the target must not use the
  /// memory of the write.
  ///
  /// Writes do not overlap. Several writes may be in flight, and may end in any order. The calls
  /// may be out of order, but a call for a lower offset never waits for the end of a write at a
  /// higher offset. Therefore a target may delay a write until the writes at all lower offsets were
  /// requested.
  virtual void write_async(const target_write& request, write_handler done) = 0;

  /// Makes the object visible. Called once, after all writes have ended without an error. If this
  /// function throws an exception, the previous object must still be visible. May block.
  virtual void publish() = 0;
};

/// A store of checkpoints. Pass the store to the constructor of `extension`. All functions must be
/// thread-safe.
class RINGLOAD_EXPORT byte_store {
 public:
  virtual ~byte_store();

  /// Returns true if names of this form belong to the store, for example because `source` begins
  /// with the prefix of the store. The loader treats a name with "://" as a path only if no store
  /// accepts the name. For any other name, the loader calls find() only if no path and no complete
  /// model in the local cache has this name. With open_options::independent_files, the loader does
  /// not search the cache if a store accepts the name.
  virtual bool has_name(std::string_view source) const noexcept = 0;

  /// Finds the checkpoint `source`. Throws errc::source_not_found if the checkpoint does not exist.
  /// May block.
  virtual found_source find(std::string_view source, const std::stop_token& stop) = 0;

  /// Begins to write an object. Called only for names with "://". May block. The default
  /// implementation throws errc::unsupported_feature.
  virtual std::shared_ptr<byte_target> create(const target_request& request);
};

}  // namespace ringload::inline v0
