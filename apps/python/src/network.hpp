// SPDX-License-Identifier: Apache-2.0
#pragma once

// Network sources, each with its own settings. Python sets the settings before an operation starts,
// because no thread of the library calls Python.

#include <cstddef>
#include <deque>
#include <functional>
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
  /// The maximum number of names. Older names are dropped, so at most this number of operations can
  /// start at the same time.
  static constexpr std::size_t names_max = 4096;

  void use(const std::string& name, std::shared_ptr<byte_store> store) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = stores_.insert_or_assign(name, std::move(store));
    if (!is_new) return;
    order_.push_back(name);
    if (order_.size() <= names_max) return;
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
  std::shared_ptr<byte_store> store_of(std::string_view source) const noexcept {
    const std::lock_guard lock(mutex_);
    const auto at = stores_.find(source);
    return at == stores_.end() ? nullptr : at->second;
  }

  mutable std::mutex mutex_;  // Guards the members below.
  std::map<std::string, std::shared_ptr<byte_store>, std::less<>> stores_;
  std::deque<std::string> order_;  // The names, oldest first.
};

struct held_network {
  std::shared_ptr<network_store> of = std::make_shared<network_store>();
};

/// The store that `remote()` makes for one set of settings.
struct held_remote {
  std::shared_ptr<byte_store> of;
};

}  // namespace ringload::python
