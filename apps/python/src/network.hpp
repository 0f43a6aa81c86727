// SPDX-License-Identifier: Apache-2.0
#pragma once

// Network sources, each with its own settings. Python sets the settings before an operation starts,
// because no thread of the library calls Python.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fork.hpp"

namespace ringload::python {

/// Delegates each name to the store of the last use() of the name whose store still exists. Does
/// not keep the stores alive: each operation of Python keeps its store until it has ended.
class network_store final : public byte_store {
 public:
  /// The maximum number of names, in addition to the names of the largest operation. The names that
  /// were set least recently are dropped, so at most this number of operations can start at the
  /// same time.
  static constexpr std::size_t names_max = 4096;

  /// `names` is the number of names of the operation to which `name` belongs. The caller must keep
  /// `store` alive until the operation has ended.
  void use(const std::string& name, const std::shared_ptr<byte_store>& store, std::size_t names) {
    const std::lock_guard lock(mutex_);
    largest_ = std::max(largest_, names);
    order_.push_back(name);
    const auto found = stores_.find(name);
    if (found != stores_.end()) {
      order_.erase(found->second.position);
      found->second.position = std::prev(order_.end());
      std::erase_if(found->second.stores, [&](const std::weak_ptr<byte_store>& used) {
        return used.expired() || is_same(used, store);
      });
      found->second.stores.push_back(store);
      return;
    }
    stores_.emplace(name, entry{{store}, std::prev(order_.end())});
    if (order_.size() <= names_max + largest_) return;
    stores_.erase(order_.front());
    order_.pop_front();
  }

  bool has_name(std::string_view source) const noexcept override {
    return store_of(source) != nullptr;
  }

  found_source find(std::string_view source, const std::stop_token& stop) override {
    const std::shared_ptr<byte_store> store = store_of(source);
    if (!store || !store->has_name(source)) {
      throw error(errc::source_not_found, "", "expected an address or the name of a model");
    }
    return store->find(source, stop);
  }

  std::shared_ptr<byte_target> create(const target_request& request) override {
    const std::shared_ptr<byte_store> store = store_of(request.name);
    if (!store) throw error(errc::source_not_found, "", "expected an address");
    return store->create(request);
  }

 private:
  struct entry {
    // The last store that still exists is used. An earlier store serves an operation that began
    // before a later operation with the same name, if the later operation has ended.
    std::vector<std::weak_ptr<byte_store>> stores;
    std::list<std::string>::iterator position;  // In `order_`.
  };

  static bool is_same(const std::weak_ptr<byte_store>& used,
                      const std::shared_ptr<byte_store>& store) noexcept {
    return !used.owner_before(store) && !store.owner_before(used);
  }

  std::shared_ptr<byte_store> store_of(std::string_view source) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(source);
    if (found == stores_.end()) return nullptr;
    for (auto used = found->second.stores.rbegin(); used != found->second.stores.rend(); ++used) {
      if (std::shared_ptr<byte_store> store = used->lock()) return store;
    }
    return nullptr;
  }

  mutable std::mutex mutex_;  // Guards the members below.
  std::map<std::string, entry, std::less<>> stores_;
  std::list<std::string> order_;  // The names, least recently set first.
  std::size_t largest_ = 1;       // The largest number of names of one operation.
};

struct held_network {
  std::shared_ptr<network_store> of = std::make_shared<network_store>();
};

/// The store that `remote()` makes for one set of settings.
struct held_remote {
  explicit held_remote(std::shared_ptr<byte_store> store) : of(std::move(store)) {}
  of_this_process<std::shared_ptr<byte_store>> of;
};

}  // namespace ringload::python
