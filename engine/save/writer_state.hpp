// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a writer works on in its own thread, one step after the other: the file, what is in it so
// far, and what is owed to the catalog of digests.

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

// Those of an open file from `begin` on. The file stays open as long.
readable_bytes file_bytes(int fd, std::uint64_t begin);

// Attributes in the order in which they are set; a map of CBOR when they are written.
class attribute_list {
 public:
  void set(std::string key, std::string encoded);
  bool has(std::string_view key) const noexcept;
  // Empty: there are none. Sorted by key.
  std::string encoded() const;
  // Takes those of an encoded map whose keys are not there yet.
  result<void> read(std::string_view encoded_map);

 private:
  std::vector<std::pair<std::string, std::string>> all_;
};

class writer_state {
 public:
  // All of these block on the file system. Without a path the file is in memory.
  using optional_path = std::optional<std::string>;
  static result<std::shared_ptr<writer_state>> make_zt(optional_path path, writer_options how);
  static result<std::shared_ptr<writer_state>> append_zt(std::string path, writer_options how);
  static result<std::shared_ptr<writer_state>> make_safetensors(
      optional_path path, std::vector<planned_tensor> planned,
      std::span<const std::pair<std::string, std::string>> metadata, writer_options how);

  // ---- From any thread ----

  // Everything from here on fails.
  void stop() noexcept { stop_ = true; }
  std::uint64_t bytes_taken() const noexcept { return bytes_taken_.load(); }
  threads& thread() noexcept { return thread_; }

  // ---- In its thread ----

  // Nothing goes on after a fault that may have damaged the file.
  template <class Work>
  void attempt_step(Work&& work);
  // Of the last step.
  const std::optional<fault>& refusal() const noexcept { return refusal_; }

  result<void> add(const tensor_ref& what, const object_options& how);
  result<void> declare(const object_info& what);
  result<void> add_part(const std::string& object, const tensor_ref& part,
                        const object_options& how);
  result<void> add_alias(const std::string& name, const std::string& of);
  result<void> copy(const std::string& file, const std::function<bool(std::string_view)>& chosen,
                    const copy_options& how);
  result<void> replace(const tensor_ref& by);
  result<void> set_attribute(std::string key, const attribute& value);
  result<write_result> finish();

  std::uint64_t end() const noexcept { return archive_ ? archive_->end() : plain_->end(); }

  writer_state(std::optional<atomic_entry> entry, written_file file, writer_options how)
      : entry_(std::move(entry)), file_(std::move(file)), how_(std::move(how)) {}
  writer_state(const writer_state&) = delete;
  writer_state& operator=(const writer_state&) = delete;
  ~writer_state();

 private:
  // Objects of a safetensors file, in the order of its bytes.
  struct plan {
    std::vector<planned_tensor> tensors;
    std::vector<tensor_extent> places;
    std::size_t next = 0;
  };

  static result<std::shared_ptr<writer_state>> make(const optional_path& path, writer_options how,
                                                    std::uint64_t bytes);
  // Runs in its thread; returns when it has.
  result<void> run(const std::function<result<void>()>& work);
  result<void> check() const;
  result<void> open_archive(std::uint64_t begin);
  result<void> begin_planned(std::vector<planned_tensor> planned, checkpoint_layout layout);
  result<void> add_planned(const tensor_ref& what, const object_options& how);
  result<void> take_over(const std::string& path);
  result<void> copy_part(std::uint32_t object, zt_component part, int from,
                         const copy_options& how);
  result<zt_archive*> archive(std::string_view name);
  // Frames that are pending are written, so that the places of all components are known.
  result<void> drain();
  // The component of such a tensor, checked, but without its place.
  result<zt_component> component_of(std::string part, const tensor_ref& of,
                                    const object_options& how, const std::string& name) const;
  result<void> write_part(std::uint32_t object, zt_component part, const tensor_ref& of,
                          const object_options& how, const std::string& name);
  result<std::string> encoded(const attributes& all, const std::string& name) const;
  // Of the view, hashed as they are read, and counted.
  result<readable_bytes> bytes_of(const tensor_ref& view, const std::string& name, hasher& content);
  result<hasher> begin_content_digest() const;
  result<hasher> begin_stored_digest(const zt_component& part) const;
  void end_content_digest(const hasher& content, const std::string& name);
  // Of the device that a tensor lies on, for copies to the host.
  backend& backend_of(const device& on);
  fault at(std::string_view tensor, errc code, std::string cause) const;

  std::optional<atomic_entry> entry_;  // Empty: the file is in memory.
  written_file file_;
  const writer_options how_;
  replaced_file old_file_;  // That is appended to.
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> bytes_taken_ = 0;

  // Touched by its thread only.
  std::unique_ptr<zt_archive> archive_;  // Of .zt; else
  std::unique_ptr<append_file> plain_;   // of safetensors.
  plan plan_;
  std::vector<std::pair<device, std::unique_ptr<backend>>> backends_;
  attribute_list attributes_;
  bool damages_ = true;           // The file, if the step fails now.
  std::optional<fault> refusal_;  // Of the last step.
  std::optional<fault> failure_;  // For good.
  std::vector<tensor_digest> digests_;
  std::vector<std::string> notes_;
  bool finished_ = false;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();

  threads thread_{1};  // Last: it uses the above until it is joined.
};

template <class Work>
void writer_state::attempt_step(Work&& work) {
  refusal_ = failure_;
  if (failure_) return;
  damages_ = archive_ == nullptr && plain_ == nullptr;
  auto outcome = work();
  if (outcome) return;
  refusal_ = outcome.error();
  if (!damages_) return;
  failure_ = refusal_;
  old_file_ = replaced_file();
}

}  // namespace ringload::inline v0::detail
