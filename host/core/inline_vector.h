// InlineVector: a vector whose first N elements need no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tenon {

/// Elements must move without throwing; those that are plain bytes are copied as such.
template <class T, size_t N>
class InlineVector {
  static constexpr bool plain = std::is_trivially_copyable_v<T>;
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  InlineVector() = default;
  explicit InlineVector(size_t count, const T& value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  template <class It>
  InlineVector(It first, It last) {
    assign(first, last);
  }
  InlineVector(const InlineVector& other) { assign(other.begin(), other.end()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) {
      clear();
      free_heap();
      take(other);
    }
    return *this;
  }
  ~InlineVector() {
    clear();
    free_heap();
  }

  template <class It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  template <class... A>
  T& emplace_back(A&&... a) {
    if (size_ == capacity_) grow(size_ + 1);
    return *new (static_cast<void*>(data_ + size_++)) T(std::forward<A>(a)...);
  }
  void pop_back() { std::destroy_at(data_ + --size_); }
  void insert(size_t at, T value) {
    push_back(std::move(value));
    for (size_t i = size_ - 1; i > at; --i) std::swap(data_[i], data_[i - 1]);
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data_[i] = std::move(data_[i + 1]);
    pop_back();
  }
  void resize(size_t count, const T& value = T()) {
    while (size_ > count) pop_back();
    while (size_ < count) push_back(value);
  }
  void clear() {
    if constexpr (!plain) std::destroy_n(data_, size_);
    size_ = 0;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  // Moves elements to memory without any; those at `from` end.
  static void relocate(T* from, size_t count, T* to) {
    if constexpr (plain) {
      std::memcpy(static_cast<void*>(to), from, sizeof(T) * count);
    } else {
      std::uninitialized_move_n(from, count, to);
      std::destroy_n(from, count);
    }
  }
  // Into an empty vector without heap memory.
  void take(InlineVector& other) {
    size_ = std::exchange(other.size_, 0);
    if (other.data_ != other.inline_data()) {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
    } else {
      data_ = inline_data();
      capacity_ = N;
      relocate(other.data_, size_, data_);
    }
  }
  void grow(size_t wanted) {
    size_t capacity = capacity_ * 2 > wanted ? capacity_ * 2 : wanted;
    T* fresh = static_cast<T*>(std::malloc(capacity * sizeof(T)));
    if (!fresh) throw std::bad_alloc();
    relocate(data_, size_, fresh);
    free_heap();
    data_ = fresh;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void free_heap() {
    if (data_ != inline_data()) std::free(data_);
  }

  T* data_ = inline_data();
  uint32_t size_ = 0, capacity_ = N;
  alignas(T) unsigned char inline_[sizeof(T) * N];
};

}  // namespace tenon
