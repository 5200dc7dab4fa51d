// SPDX-License-Identifier: Apache-2.0
// The leaves of a call: tensors, numbers and texts, collected from arguments and put back into copies
// and results. Part of tenon/compile.h; programs need none of it by itself.
#pragma once

#include <tenon/tree.h>

#include <bit>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace tenon::detail {

/// A short array that lies inline as long as it is short. Every call makes some: what is not pushed
/// is not set either.
template <class T, size_t N>
class LeafArray {
  static constexpr bool plain = std::is_trivially_copyable_v<T>;

 public:
  LeafArray() {}
  LeafArray(LeafArray&& other) noexcept { take(other); }
  LeafArray& operator=(LeafArray&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~LeafArray() { destroy_inline(); }

  void push(T value) {
    if (size_ < N)
      new (static_cast<void*>(place(size_++))) T(std::move(value));
    else
      push_beyond(std::move(value));
  }
  /// At least `n` elements.
  void grow_to(size_t n) {
    while (size_ < n) push(T());
  }
  void clear() {
    destroy_inline();
    size_ = 0;
    spill_.clear();
  }
  T* data() { return size_ <= N ? place(0) : spill_.data(); }
  const T* data() const { return const_cast<LeafArray*>(this)->data(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  T* place(size_t i) { return reinterpret_cast<T*>(inline_) + i; }
  void destroy_inline() {
    if constexpr (!plain)
      if (size_ <= N) std::destroy_n(place(0), size_);
  }
  void take(LeafArray& other) {
    for (T& value : other.span().first(other.size_ <= N ? other.size_ : 0))
      new (static_cast<void*>(place(size_++))) T(std::move(value));
    size_ = other.size_;
    spill_ = std::move(other.spill_);
    other.clear();
  }
  [[gnu::noinline]] void push_beyond(T value) {
    if (size_ == N) {
      spill_.reserve(32 * N);
      spill_.assign(std::move_iterator(place(0)), std::move_iterator(place(N)));
      destroy_inline();
    }
    spill_.push_back(std::move(value));
    ++size_;
  }
  alignas(T) unsigned char inline_[sizeof(T) * N];
  size_t size_ = 0;
  std::vector<T> spill_;
};

/// The tensors of a result.
using ResultTensors = LeafArray<Tensor, 4>;

/// A plain value of an argument: its bits and its category.
struct PlainLeaf {
  uint64_t bits;
  uint8_t kind;  // 0 integer, 1 floating, 2 bool
  friend bool operator==(const PlainLeaf&, const PlainLeaf&) = default;
};

[[noreturn]] TENON_API void fail_assigned_argument();

/// The bits of a number, in words of 64. What a double has no room for is a second word.
template <class T, class F>
void each_word(const T& v, const F& take) {
  if constexpr (std::is_floating_point_v<T>) {
    const double rounded = static_cast<double>(v);
    take(std::bit_cast<uint64_t>(rounded));
    if constexpr (sizeof(T) > sizeof(double))
      take(std::bit_cast<uint64_t>(static_cast<double>(v - static_cast<T>(rounded))));
  } else {
    take(static_cast<uint64_t>(v));
    if constexpr (sizeof(T) > sizeof(uint64_t)) take(static_cast<uint64_t>(v >> 64));
  }
}

/// Objects of classes that others may derive from, of which a copy by this type is a part only.
template <class T>
concept MayBeDerived =
    std::is_polymorphic_v<T> && !std::is_final_v<T> && !Opaque<T> && !std::derived_from<T, Tensor>;
/// Throws UserError: an object of class `whole` came by reference to its base `part`.
[[noreturn]] TENON_API void fail_part_of_object(const std::type_info& whole,
                                                const std::type_info& part);
template <class T>
void require_same_class(const T& v) {
  if (typeid(v) != typeid(T)) fail_part_of_object(typeid(v), typeid(T));
}

/// The leaves of the arguments of one call, borrowed.
struct Leaves {
  LeafArray<const Tensor*, 24> tensors;
  LeafArray<PlainLeaf, 16> plain;  ///< guarded by value
  LeafArray<Number, 8> numbers;    ///< SymInt and SymFloat parameters: may become symbols
  LeafArray<std::string_view, 4> texts;
  uint64_t structure = 0;  ///< sizes of containers, alternatives, presence
};

/// Collects leaves.
struct LeafReader {
  Leaves& leaves;
  SharedNodes* shared_nodes = nullptr;
  bool is_of_results = false;  ///< which go out as they are
  template <MayBeDerived T>
  void place(const T& v) {
    if (!is_of_results) require_same_class(v);
  }
  void tensor(const Tensor& t) { leaves.tensors.push(&t); }
  template <class T>
  void scalar(const Scalar<T>& s) {
    tensor(s.tensor());
    if (!s.tensor().defined()) number(s.value());
  }
  template <class T>
  void sym(const T& v) {
    leaves.numbers.push(Number(v));
  }
  template <class T>
  void number(const T& v) {
    constexpr uint8_t kind = std::is_floating_point_v<T> ? 1 : std::is_same_v<T, bool> ? 2 : 0;
    each_word(v, [this](uint64_t bits) { leaves.plain.push({bits, kind}); });
  }
  void text(std::string_view s) { leaves.texts.push(s); }
  void opaque(const void* address) { number(reinterpret_cast<uintptr_t>(address)); }
  void shape(uint64_t n) { leaves.structure = (leaves.structure ^ n) * 0x9E3779B97F4A7C15u + 1; }
};

/// Puts numbers into the places of the leaves, in order.
struct NumberWriter : TensorVisitor {
  const Number* next_number;
  explicit NumberWriter(const Number* first) : next_number(first) {}
  void sym(SymInt& v) { v = next_number++->sym_int(); }
  void sym(SymFloat& v) { v = next_number++->sym_float(); }
  void sym(Number& v) { v = *next_number++; }
  template <class T>
  void sym(const T&) {
    ++next_number;
  }
};

/// Lets a visitor replace what a number is read from.
template <class T, class V>
void visit_tensor_of(Scalar<T>& s, V& visitor) {
  Tensor t = s.tensor();
  visitor.tensor(t);
  s.set_tensor(std::move(t));
}

/// Puts tensors and symbols into the places of the leaves, in order.
struct LeafWriter : NumberWriter {
  const Tensor* next_tensor;
  LeafWriter(const Tensor* tensors, const Number* numbers)
      : NumberWriter(numbers), next_tensor(tensors) {}
  void tensor(Tensor& t) { t = *next_tensor++; }
  void tensor(const Tensor&) { ++next_tensor; }
  template <class T>
  void scalar(Scalar<T>& s) {
    visit_tensor_of(s, *this);
  }
};

/// The same in the body's copies. Tensors that references in them refer to are not theirs; the body
/// finds those as it finds captured ones.
struct CopyWriter : LeafWriter {
  int outside = 0;
  using LeafWriter::LeafWriter;
  using LeafWriter::sym;
  using LeafWriter::tensor;
  void tensor(Tensor& t) {
    if (outside)
      ++next_tensor;
    else
      LeafWriter::tensor(t);
  }
  template <class T>
  void scalar(Scalar<T>& s) {
    if (outside)
      ++next_tensor;
    else
      LeafWriter::scalar(s);
  }
};

/// Takes the tensors out of a result, or only those of a trace, so that it keeps none alive. A condition
/// on sizes becomes its value, which readers have asked for while the trace was there.
struct LeafEmptier : TensorVisitor {
  const bool fakes_only;
  explicit LeafEmptier(bool only_fakes = false) : fakes_only(only_fakes) {}
  void tensor(Tensor& t) {
    if (t.defined() && (t.is_fake() || !fakes_only)) t = Tensor();
  }
  void whole(SymBool& condition) { condition = condition.guard_bool(); }
  void whole(Number& n) {
    if (n.is_boolean()) n = n.to_bool();
  }
  void tensor(const Tensor&) {}
  template <class T>
  void scalar(Scalar<T>& s) {
    visit_tensor_of(s, *this);
  }
};

/// Those of a trace out of the body's copies.
struct CopyEmptier : LeafEmptier {
  int outside = 0;
  CopyEmptier() : LeafEmptier(/*only_fakes=*/true) {}
  using LeafEmptier::tensor;
  void tensor(Tensor& t) {
    if (!outside) LeafEmptier::tensor(t);
  }
  template <class T>
  void scalar(Scalar<T>& s) {
    if (!outside) LeafEmptier::scalar(s);
  }
};

/// Puts back the tensors that were replaced, but for those that have changed since.
struct LeafRestorer : TensorVisitor {
  std::span<const Tensor> real, before;
  LeafRestorer(std::span<const Tensor> replaced_by, std::span<const Tensor> originals)
      : real(replaced_by), before(originals) {}
  void tensor(Tensor& t) {
    for (size_t i = 0; t.defined() && i < real.size(); ++i)
      if (t.is_same(real[i])) {
        t = before[i];
        return;
      }
  }
  void tensor(const Tensor&) {}
  template <class T>
  void scalar(Scalar<T>& s) {
    visit_tensor_of(s, *this);
  }
};

/// Makes a result from a prototype and the tensors and numbers of a call.
struct LeafFiller : NumberWriter {
  Tensor* next;
  LeafFiller(Tensor* tensors, const Number* numbers) : NumberWriter(numbers), next(tensors) {}
  void tensor(Tensor& t) { t = std::move(*next++); }
  void tensor(const Tensor&) { ++next; }
  template <class T>
  void scalar(Scalar<T>& s) {
    if (next->defined()) s = item_as<T>(*next, std::source_location::current());
    ++next;
  }
};

}  // namespace tenon::detail
