// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accepts a list in braces as an argument, also inside a co_await expression. In a co_await
// expression, g++ 12 refuses a std::initializer_list. Therefore a parameter cannot be a
// std::vector, whose constructor takes a std::initializer_list.

#include <concepts>
#include <iterator>
#include <utility>
#include <vector>

namespace ringload::inline v0::detail {

template <class Item, class T>
concept list_item =
    std::constructible_from<T, const Item&> && (!std::integral<T> || std::integral<Item>);

// A std::vector<T>, or the items of a list in braces. If the items are in braces too, the list may
// have at most four items, because each length of the list needs a constructor. Example:
//
//   {{"a", data}, {"b", data}}
template <class T>
class list_argument {
 public:
  list_argument() = default;
  list_argument(std::vector<T> items) noexcept : items_(std::move(items)) {}

  template <list_item<T>... Items>
    requires(sizeof...(Items) > 0)
  list_argument(const Items&... items) {
    items_.reserve(sizeof...(Items));
    (items_.emplace_back(static_cast<T>(items)), ...);
  }

  template <std::input_iterator Iterator>
    requires(!list_item<Iterator, T> && std::constructible_from<T, std::iter_reference_t<Iterator>>)
  list_argument(Iterator begin, Iterator end) : items_(std::move(begin), std::move(end)) {}

  list_argument(T a) { add(std::move(a)); }
  list_argument(T a, T b) { add(std::move(a), std::move(b)); }
  list_argument(T a, T b, T c) { add(std::move(a), std::move(b), std::move(c)); }
  list_argument(T a, T b, T c, T d) { add(std::move(a), std::move(b), std::move(c), std::move(d)); }

  std::vector<T> take() && noexcept { return std::move(items_); }

 private:
  template <class... Items>
  void add(Items&&... items) {
    items_.reserve(sizeof...(Items));
    (items_.push_back(std::move(items)), ...);
  }

  std::vector<T> items_;
};

}  // namespace ringload::inline v0::detail
