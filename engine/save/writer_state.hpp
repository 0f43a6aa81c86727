// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of a writer: its file, the objects written so far, and their digests. All steps run one
// after another in a thread of the writer.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/writer.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "device/backend.hpp"
#include "io/threads.hpp"
#include "io/writers/append_file.hpp"
#include "io/writers/atomic_file.hpp"
#include "io/writers/replaced_file.hpp"
#include "save/file_layout.hpp"
#include "save/zt/zt_archive.hpp"

namespace ringload::inline v0::detail {

// The attributes of a file or of an object. In the file, the attributes are a CBOR map.
class attribute_list {
 public:
  void set(std::string key, std::string cbor_value);
  bool has(std::string_view key) const noexcept;
  // Returns the CBOR map, sorted by key. Returns an empty string if there are no attributes.
  std::string to_cbor() const;
  // Adds the attributes of a CBOR map. Keys that exist already keep their values.
  result<void> read(std::string_view cbor_map);

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

class writer_state {
 public:
  // The next three functions create a writer, and block on the file system. If `path` is empty, the
  // file is in memory.
  using optional_path = std::optional<std::string>;
  static result<std::shared_ptr<writer_state>> make_zt(optional_path path, writer_options options);
  static result<std::shared_ptr<writer_state>> append_zt(std::string path, writer_options options);
  static result<std::shared_ptr<writer_state>> make_safetensors(
      optional_path path, std::vector<planned_tensor> planned,
      std::span<const std::pair<std::string, std::string>> metadata, writer_options options);

  // ---- May be called from any thread ----

  // Cancels the current step if the step has not ended. All later steps fail.
  void stop() noexcept {
    stop_ = true;
    stop_source_.request_stop();
  }
  std::uint64_t bytes_taken() const noexcept { return bytes_taken_.load(); }
  threads& thread() noexcept { return thread_; }

  // ---- Writer's thread only ----

  // Runs a step. If the step fails and may have damaged the file, all later steps also fail.
  template <class Work>
  void attempt_step(Work&& work);
  // Returns the error of the last step, or an empty optional if the step has succeeded.
  const std::optional<fault>& refusal() const noexcept { return refusal_; }

  // Fails if the writer was cancelled or if the file is finished.
  result<void> check_not_ended() const;
  result<void> add(const tensor_ref& tensor, const object_options& options);
  result<void> declare(const object_info& info);
  result<void> add_part(const std::string& object, const tensor_ref& part,
                        const object_options& options);
  result<void> add_alias(const std::string& name, const std::string& original);
  result<void> copy(const std::string& file, const std::function<bool(std::string_view)>& selects,
                    const copy_options& options);
  result<void> replace(const tensor_ref& tensor);
  result<void> set_attribute(std::string key, const attribute& value);
  result<write_result> finish();

  std::uint64_t end() const noexcept { return archive_ ? archive_->end() : append_->end(); }

  writer_state(std::optional<atomic_entry> entry, written_file file, writer_options options,
               std::stop_source stop)
      : entry_(std::move(entry)),
        file_(std::move(file)),
        options_(std::move(options)),
        stop_source_(std::move(stop)) {}
  writer_state(const writer_state&) = delete;
  writer_state& operator=(const writer_state&) = delete;
  ~writer_state();

 private:
  // The tensors of a safetensors file, in the order of the file.
  struct plan {
    std::vector<planned_tensor> tensors;
    std::vector<tensor_extent> extents;
    std::size_t next = 0;
  };

  static result<std::shared_ptr<writer_state>> make(const optional_path& path,
                                                    writer_options options, std::uint64_t bytes);
  // Runs `work` in the writer's thread, and waits until `work` has ended.
  result<void> run(const std::function<result<void>()>& work);
  // Fails if the dtype or shape of the tensor is not as expected.
  result<void> check_dtype_and_shape(const tensor_ref& tensor, dtype type,
                                     const std::vector<std::uint64_t>& shape) const;
  result<void> open_archive(std::uint64_t begin);
  result<void> begin_planned(std::vector<planned_tensor> planned, checkpoint_layout layout);
  result<void> add_planned(const tensor_ref& tensor, const object_options& options);
  result<void> open_existing(const std::string& path);
  result<void> copy_part(std::uint32_t object, zt_component part, int fd,
                         const copy_options& options);
  result<zt_archive*> archive(std::string_view name);
  // Writes all compressed data that is still in the queue. Afterwards, the offsets of all
  // components are known.
  result<void> drain();
  // Checks the tensor and returns its component. The final offset is set when the component is
  // written.
  result<zt_component> component_of(std::string part, const tensor_ref& tensor,
                                    const object_options& options, const std::string& name) const;
  result<void> write_part(std::uint32_t object, zt_component part, const tensor_ref& tensor,
                          const object_options& options, const std::string& name);
  result<std::string> encode_attributes(const attributes& pairs, const std::string& name) const;
  // Returns a function that reads the tensor. The function also hashes and counts the bytes.
  result<readable_bytes> make_reader(const tensor_ref& view, const std::string& name,
                                     hasher& content);
  result<hasher> begin_content_digest() const;
  result<hasher> begin_stored_digest(const zt_component& part) const;
  void end_content_digest(const hasher& content, const std::string& name);
  backend& backend_of(const device& source);
  fault tensor_fault(std::string_view name, errc code, std::string cause) const;

  std::optional<atomic_entry> entry_;  // Empty if the file is in memory, or an object of a store.
  written_file file_;
  const writer_options options_;
  replaced_file old_file_;  // The file that a writer of append_zt() replaces.
  std::atomic<bool> stop_ = false;
  std::stop_source stop_source_;  // Ends blocking calls to a store.
  std::atomic<std::uint64_t> bytes_taken_ = 0;

  // Used by the writer's thread only.
  std::unique_ptr<zt_archive> archive_;  // Set for .zt files.
  std::unique_ptr<append_file> append_;  // Set for safetensors files.
  plan plan_;
  std::vector<std::pair<device, std::unique_ptr<backend>>> backends_;
  attribute_list attributes_;
  // True if a failure of the current step may damage the file.
  bool may_damage_file_ = true;
  std::optional<fault> refusal_;  // Error of the last step.
  std::optional<fault> failure_;  // If set, all later steps fail with this error.
  std::vector<tensor_digest> digests_;
  std::vector<std::string> notes_;
  bool finished_ = false;
  const std::chrono::steady_clock::time_point start_time_ = std::chrono::steady_clock::now();

  // Must be the last member, because its destructor joins the thread, which uses the other members.
  threads thread_{1};
};

template <class Work>
void writer_state::attempt_step(Work&& work) {
  refusal_ = failure_;
  if (failure_) return;
  may_damage_file_ = archive_ == nullptr && append_ == nullptr;
  auto outcome = work();
  if (outcome) return;
  // This assignment needs no memory. The assignment to refusal_ copies texts, and throws if memory
  // is exhausted. Later steps must fail even then.
  if (may_damage_file_) failure_ = fault{outcome.error().code, {}};
  refusal_ = outcome.error();
  if (!may_damage_file_) return;
  failure_ = refusal_;
  old_file_ = replaced_file();
}

}  // namespace ringload::inline v0::detail
