// InlineVector: a vector of trivially copyable values whose first N need no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <type_traits>

namespace tenon {

template <class T, size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  InlineVector() = default;
  explicit InlineVector(size_t count, T value = T()) { resize(count, value); }
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
      free_heap();
      take(other);
    }
    return *this;
  }
  ~InlineVector() { free_heap(); }

  template <class It>
  void assign(It first, It last) {
    clear();
    for (; first != last; ++first) push_back(static_cast<T>(*first));
  }
  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = value;
  }
  void pop_back() { --size_; }
  void insert(size_t at, T value) {
    push_back(value);
    for (size_t i = size_ - 1; i > at; --i) data_[i] = data_[i - 1];
    data_[at] = value;
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data_[i] = data_[i + 1];
    --size_;
  }
  void resize(size_t count, T value = T()) {
    while (size_ < count) push_back(value);
    size_ = static_cast<uint32_t>(count);
  }
  void clear() { size_ = 0; }

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
  void take(InlineVector& other) {
    if (other.data_ != other.inline_data()) {
      data_ = other.data_;
      size_ = other.size_;
      capacity_ = other.capacity_;
      other.data_ = other.inline_data();
      other.size_ = 0;
      other.capacity_ = N;
    } else {
      data_ = inline_data();
      capacity_ = N;
      size_ = other.size_;
      std::memcpy(inline_, other.inline_, sizeof(T) * size_);
    }
  }
  void grow(size_t wanted) {
    size_t capacity = capacity_ * 2 > wanted ? capacity_ * 2 : wanted;
    T* fresh = static_cast<T*>(std::malloc(capacity * sizeof(T)));
    if (!fresh) throw std::bad_alloc();
    std::memcpy(static_cast<void*>(fresh), data_, sizeof(T) * size_);
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
