// SPDX-License-Identifier: Apache-2.0
#pragma once

// A completion token like the sender adaptors of other libraries: describes the operation first,
// and starts it later with a receiver.

#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>
#include <ringload/error.hpp>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ringload::testing {

struct use_sender_t {};
inline constexpr use_sender_t use_sender;

template <class Initiation, class... Arguments>
struct sender {
  Initiation initiation;
  std::tuple<Arguments...> arguments;

  template <class Receiver>
  void start(Receiver receiver) && {
    auto set = [receiver = std::move(receiver)](const boost::system::error_code& code,
                                                auto value) mutable {
      if (!code) return receiver.set_value(std::move(value));
      if (code == condition::cancelled) return receiver.set_stopped();
      receiver.set_error(code);
    };
    std::apply([&](auto&... a) { std::move(initiation)(std::move(set), std::move(a)...); },
               arguments);
  }
};

}  // namespace ringload::testing

template <class Signature>
class boost::asio::async_result<ringload::testing::use_sender_t, Signature> {
 public:
  template <class Initiation, class... Arguments>
  static auto initiate(Initiation&& initiation, ringload::testing::use_sender_t,
                       Arguments&&... arguments) {
    return ringload::testing::sender<std::decay_t<Initiation>, std::decay_t<Arguments>...>{
        std::forward<Initiation>(initiation), {std::forward<Arguments>(arguments)...}};
  }
};
