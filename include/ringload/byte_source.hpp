// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints that are no files: a store of a program's own, from which a loader reads as it reads
// from a file system. `ringload::remote()` of <ringload/remote.hpp> is such a store, for HTTP.
//
//   byte_store    whose checkpoints have names like "cache://models/7b"
//   byte_folder   what lies beside each other in it: shards and their index
//   byte_source   one object: a size, and ranges of its bytes
//
//   ringload::loader loader{ringload::host(), {}, {ringload::extension(my_store)}};
//   ringload::model m = co_await loader.load_async("cache://models/7b");
//
// Whatever these functions throw ends the load; a `ringload::error` with its own place and words.

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

/// What a load has asked its sources for. Any thread may count at any time.
struct transfer_counts {
  std::atomic<std::uint64_t> requests = 0;
  std::atomic<std::uint64_t> retries = 0;  // Requests that repeat, or resume, one that failed.
  /// When the first byte of a tensor came: steady_clock's nanoseconds since its epoch; 0: not yet.
  std::atomic<std::int64_t> first_byte_at = 0;
};

/// A range of a byte_source, and where its bytes go.
struct source_read {
  source_read(std::uint64_t from, std::span<std::byte> to) noexcept : offset(from), into(to) {}

  std::uint64_t offset;
  std::span<std::byte> into;  // As many as are wanted: never past the end of the source.
  bool awaited = false;       // Somebody waits for a tensor of it: it goes before others.
  /// Requested once nobody wants the bytes any more. The read then ends soon, in any way.
  std::stop_token stop = {};
  transfer_counts* counts = nullptr;  // Where the source counts its requests, unless it is null.
};

/// An object of a store. Its functions are called from any thread, several at a time.
class RINGLOAD_EXPORT byte_source {
 public:
  using read_handler = boost::asio::any_completion_handler<void(std::exception_ptr)>;

  virtual ~byte_source();

  /// The size. Never changes.
  virtual std::uint64_t bytes() const noexcept = 0;

  /// What becomes another where the object is replaced: an ETag, a version, a time. Asked for when
  /// the object has been opened, and at the end of each load; if it differs then, the load fails
  /// with errc::changed_file, and if it throws, with that. May block. Empty: nothing is known, or
  /// reads notice it themselves.
  virtual std::string identity() const = 0;

  /// Begins to read, does not block, and calls `done` once, in any thread, but never from inside
  /// this function: with null once all of `what.into` is filled, or with what is wrong. Until then
  /// it may write to `what.into`; after that not any more, stopped or not. Where the object is not
  /// as it was opened: errc::changed_file. As many reads are in flight as loader_options::slots
  /// says.
  ///
  /// A coroutine `boost::asio::awaitable<void>` is started by
  /// `boost::asio::co_spawn(executor, coroutine(what), std::move(done))`.
  virtual void read_async(const source_read& what, read_handler done) = 0;

  /// Called if the bytes that were read are no checkpoint. A source that takes bytes from a copy
  /// drops the copy, and returns whether the same reads may now give other bytes. May block.
  virtual bool drop_copy();
};

/// Where a checkpoint lies: the counterpart of a folder. Its functions block, and are called from
/// one thread at a time.
class RINGLOAD_EXPORT byte_folder {
 public:
  virtual ~byte_folder();

  /// The names of all files in it, in any order: the checkpoint is chosen among them. Names of
  /// sub-folders may be among them, and names of files in sub-folders, with '/'. Throws
  /// errc::unsupported_feature if the store cannot say.
  virtual std::vector<std::string> names(const std::stop_token& stop) = 0;

  /// The names of all files in it and in its sub-folders, with '/': what
  /// open_options::independent_files takes. The default returns names().
  virtual std::vector<std::string> names_beneath(const std::stop_token& stop);

  /// Throws errc::source_not_found where there is no such file. Names come from an index, so they
  /// may be hostile; they have no empty part, no "." and no "..", and do not begin with '/'.
  virtual std::shared_ptr<byte_source> open(const std::string& name,
                                            const std::stop_token& stop) = 0;

  /// These will be opened next, in this order: whoever can do that for several at once begins now.
  virtual void expect(std::span<const std::string> names, const std::stop_token& stop);

  /// What errors and the catalog call a file of this folder: without credentials. An empty name:
  /// the folder itself.
  virtual std::string path_of(const std::string& name) const = 0;
};

/// What the name of a checkpoint leads to. A loader takes it in place of a name, too.
struct found_source {
  std::shared_ptr<byte_folder> folder;
  std::string file;  // Of the folder, a checkpoint or an index; empty: the folder as a whole.
  /// A file or folder on this machine that is the same, and is opened in its place; empty: none.
  std::string local_path;
};

/// A file of any format that lies in memory, as what `loader::open_async` and `load_async` take:
///
///   auto m = co_await loader.load_async(ringload::from_memory(bytes, "model.safetensors"));
///
/// Errors and the catalog call it by `name`, and its format is found as that of a file of that name
/// is. `owner` is kept as long as the bytes are needed; without one, the caller keeps them until
/// the checkpoint, and all loads from it, are gone.
RINGLOAD_EXPORT found_source from_memory(std::span<const std::byte> bytes, std::string name,
                                         std::shared_ptr<const void> owner = nullptr);

/// A store, for the constructor of an extension. Its functions are called from any thread.
class RINGLOAD_EXPORT byte_store {
 public:
  virtual ~byte_store();

  /// Whether the name is one of this store. What has "://" is asked for before any path is looked
  /// at, other names where there is no such path, nor a model of that name in the local cache.
  virtual bool has_name(std::string_view source) const noexcept = 0;

  /// May block. Throws errc::source_not_found where it finds nothing.
  virtual found_source find(std::string_view source, const std::stop_token& stop) = 0;
};

}  // namespace ringload::inline v0
