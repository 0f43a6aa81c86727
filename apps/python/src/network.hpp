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

namespace ringload::python {

/// Delegates each name to the store that the last use() of the name has set.
class network_store final : public byte_store {
 public:
  /// The maximum number of names, in addition to the names of the largest operation. The names that
  /// were set least recently are dropped, so at most this number of operations can start at the
  /// same time.
  static constexpr std::size_t names_max = 4096;

  /// `names` is the number of names of the operation to which `name` belongs.
  void use(const std::string& name, std::shared_ptr<byte_store> store, std::size_t names) {
    const std::lock_guard lock(mutex_);
    largest_ = std::max(largest_, names);
    order_.push_back(name);
    const auto found = stores_.find(name);
    if (found != stores_.end()) {
      order_.erase(found->second.position);
      found->second = {std::move(store), std::prev(order_.end())};
      return;
    }
    stores_.emplace(name, entry{std::move(store), std::prev(order_.end())});
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
    std::shared_ptr<byte_store> store;
    std::list<std::string>::iterator position;  // In `order_`.
  };

  std::shared_ptr<byte_store> store_of(std::string_view source) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto at = stores_.find(source);
    return at == stores_.end() ? nullptr : at->second.store;
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
  std::shared_ptr<byte_store> of;
};

}  // namespace ringload::python
