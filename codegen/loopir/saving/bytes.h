// Structs as bytes and back: visitors for loopir/fields.h.
//
// Numbers are little-endian, as this processor has them. Index expressions are written when they
// are first named, those they are made of before them, so what nothing names is left out, and ids
// are counted anew. A reader trusts nothing: every count and id is checked against what is there,
// so bytes of any kind end in a status TN_DATA_LOSS.
#pragma once

#include "loopir/fields.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace loopir {

namespace detail {
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_map = false;
template <class K, class T>
inline constexpr bool is_map<std::map<K, T>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;
}  // namespace detail

/// Writes; what it visits is not changed.
class Writer {
 public:
  /// Ids of indices are those of `pool`.
  explicit Writer(const Expressions& pool) : pool_(pool) {}

  /// The indices that were named, then all else.
  std::string take();

  template <class T>
  void operator()(T& x) {
    if constexpr (std::is_arithmetic_v<T>) {
      put(x);
    } else if constexpr (std::is_array_v<T>) {
      for (auto& item : x) (*this)(item);
    } else if constexpr (std::is_same_v<T, std::string>) {
      put(static_cast<uint64_t>(x.size()));
      body_ += x;
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      put(static_cast<uint64_t>(x.size()));
      for (bool bit : x) put(static_cast<uint8_t>(bit));
    } else if constexpr (detail::is_vector<T>) {
      put(static_cast<uint64_t>(x.size()));
      for (auto& item : x) (*this)(item);
    } else if constexpr (detail::is_map<T>) {
      put(static_cast<uint64_t>(x.size()));
      for (auto& [key, item] : x) {
        put(key);
        (*this)(item);
      }
    } else if constexpr (detail::is_optional<T>) {
      put(static_cast<uint8_t>(x.has_value()));
      if (x) (*this)(*x);
    } else if constexpr (detail::is_pair<T>) {
      (*this)(x.first);
      (*this)(x.second);
    } else if constexpr (detail::is_variant<T>) {
      put(static_cast<uint8_t>(x.index()));
      std::visit([this](auto& item) { (*this)(item); }, x);
    } else {
      fields(*this, x);
    }
  }
  template <class E>
  void choice(E& e, E) {
    put(static_cast<uint8_t>(e));
  }
  void index(Id& id) { put(number_of(id)); }
  void indices(Ids& ids) {
    put(static_cast<uint64_t>(ids.size()));
    for (Id& id : ids) index(id);
  }
  void buffer(Id& id) { put(id); }
  void maybe_buffer(Id& id) { put(id); }
  void buffers(Ids& ids) { (*this)(ids); }
  void maybe_buffers(Ids& ids) { (*this)(ids); }
  void buffers_known(size_t) {}
  void expressions(Expressions& x) { (*this)(x.symbols); }

 private:
  template <class T>
  void put(T x) {
    body_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  Id number_of(Id id);

  const Expressions& pool_;
  std::vector<IndexNode> nodes_;
  std::map<Id, Id> numbers_;
  std::string body_;
};

/// Reads what a Writer wrote. Throws `error` (TN_DATA_LOSS).
class Reader {
 public:
  explicit Reader(std::string_view bytes);

  /// Throws where bytes are left.
  void finish() const;

  template <class T>
  void operator()(T& x) {
    if constexpr (std::is_same_v<T, bool>) {
      x = flag();
    } else if constexpr (std::is_arithmetic_v<T>) {
      get(x);
    } else if constexpr (std::is_array_v<T>) {
      for (auto& item : x) (*this)(item);
    } else if constexpr (std::is_same_v<T, std::string>) {
      x = std::string(slice(count()));
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      x.resize(count());
      for (size_t i = 0; i < x.size(); ++i) x[i] = flag();
    } else if constexpr (detail::is_vector<T>) {
      for (size_t n = count(); n > 0; --n) (*this)(x.emplace_back());
    } else if constexpr (detail::is_map<T>) {
      for (size_t n = count(); n > 0; --n) {
        typename T::key_type key{};
        get(key);
        (*this)(x[key]);
      }
    } else if constexpr (detail::is_optional<T>) {
      if (flag()) (*this)(x.emplace());
    } else if constexpr (detail::is_pair<T>) {
      (*this)(x.first);
      (*this)(x.second);
    } else if constexpr (detail::is_variant<T>) {
      uint8_t which = 0;
      get(which);
      alternative(x, which, std::make_index_sequence<std::variant_size_v<T>>());
    } else {
      fields(*this, x);
    }
  }
  template <class E>
  void choice(E& e, E last) {
    uint8_t value = 0;
    get(value);
    if (value > static_cast<uint8_t>(last)) fail("an unknown choice");
    e = E(value);
  }
  void index(Id& id) {
    get(id);
    if (id != none && id >= n_indices_) fail("an unknown index");
  }
  void indices(Ids& ids) {
    for (size_t n = count(); n > 0; --n) index(ids.emplace_back());
  }
  void buffer(Id& id) {
    get(id);
    if (id >= n_buffers_) fail("an unknown buffer");
  }
  /// Buffers name others before all of them are read.
  void maybe_buffer(Id& id) {
    get(id);
    if (id == none) return;
    if (are_known_ && id >= n_buffers_) fail("an unknown buffer");
    n_named_ = std::max<size_t>(n_named_, size_t{id} + 1);
  }
  void buffers(Ids& ids) {
    for (size_t n = count(); n > 0; --n) buffer(ids.emplace_back());
  }
  void maybe_buffers(Ids& ids) {
    for (size_t n = count(); n > 0; --n) maybe_buffer(ids.emplace_back());
  }
  void buffers_known(size_t n) {
    n_buffers_ = n;
    are_known_ = true;
    if (n_named_ > n) fail("an unknown buffer");
  }
  void expressions(Expressions& x);

  [[noreturn]] static void fail(const char* what);

 private:
  template <class T>
  void get(T& x) {
    std::memcpy(&x, slice(sizeof x).data(), sizeof x);
  }
  bool flag() {
    uint8_t value = 0;
    get(value);
    if (value > 1) fail("neither yes nor no");
    return value == 1;
  }
  /// Items that follow, each of a byte or more.
  size_t count() {
    uint64_t n = 0;
    get(n);
    if (n > rest_.size()) fail("more items than bytes");
    return static_cast<size_t>(n);
  }
  std::string_view slice(size_t n) {
    if (n > rest_.size()) fail("cut off");
    std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  template <class T, size_t... I>
  void alternative(T& x, size_t which, std::index_sequence<I...>) {
    bool known = ((which == I ? ((*this)(x.template emplace<I>()), true) : false) || ...);
    if (!known) fail("an item of an unknown kind");
  }

  std::string_view rest_;
  std::vector<IndexNode> nodes_;
  size_t n_indices_ = 0, n_buffers_ = 0, n_named_ = 0;
  bool are_known_ = false;
};

}  // namespace loopir
