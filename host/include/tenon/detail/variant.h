// SPDX-License-Identifier: Apache-2.0
// std::variant whose copies may run out of memory.
//
// libstdc++ 12 takes a variant of texts and lists for one that always has a value. Where the copy of
// an alternative throws, it destroys the half-made variant as if it had one, through a table at
// index -1, and jumps to nowhere. Here an alternative is copied before anything depends on it.
#pragma once

#include <utility>
#include <variant>

namespace tenon::detail {

/// The first alternative needs no memory: a copy begins as it.
template <class... T>
class Variant : public std::variant<T...> {
  using Base = std::variant<T...>;

 public:
  using Base::Base;
  using Base::operator=;
  Variant() = default;
  Variant(const Variant& other) : Base() { *this = other; }
  Variant(Variant&& other) = default;
  ~Variant() = default;
  Variant& operator=(Variant&& other) = default;
  Variant& operator=(const Variant& other) {
    std::visit(
        [this]<class Alternative>(const Alternative& from) {
          Alternative copy(from);
          this->template emplace<Alternative>(std::move(copy));
        },
        static_cast<const Base&>(other));
    return *this;
  }
};

}  // namespace tenon::detail
