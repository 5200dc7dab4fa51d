// Windows of pooling: which elements a result covers, and which results cover an element.
#pragma once

#include "loopir/lowering.h"

namespace loopir {

/// The windows along one dimension: of a kernel that slides, or as many as there are results, each
/// an equal share of the elements (adaptive).
struct WindowAxis {
  Expressions& x;
  Id in, out;  // sizes
  bool is_adaptive = false;
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;

  /// How many offsets a window has at most; the element at one, and whether the window has it
  /// (none: it always does).
  Id offsets() const;
  Id element(Id result, Id offset) const;
  Id has(Id result, Id offset) const;
  /// How many elements a mean is over; with the padding as far as the window reaches into it.
  Id count(Id result, bool with_padding) const;

  /// How many results may cover an element; the one at a number, and whether it does.
  Id users() const;
  Id user(Id element, Id number) const;
  Id uses(Id element, Id number) const;

 private:
  Id start(Id result) const;
  Id end(Id result) const;
  bool is_even() const;  // adaptive windows of one size, without overlap
};

/// Of the last dimensions of a tensor.
struct Windows {
  std::vector<WindowAxis> axes;
  size_t first = 0;  // dimension

  static Windows sliding(Lowering& to, const Ids& in, const Ids& out,
                         const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                         const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation);
  static Windows adaptive(Lowering& to, const Ids& in, const Ids& out, size_t n);

  Ids offsets() const;
  Ids users() const;
  /// The element of `in` at offsets of the window of result `i`, with the condition for it.
  struct Place {
    Ids element;
    Id condition;
  };
  Place element(std::span<const Id> i, std::span<const Id> offsets) const;
  Place user(std::span<const Id> i, std::span<const Id> numbers) const;
  /// Elements of a window, as an i64 value.
  Id count(std::span<const Id> i, bool with_padding) const;
  /// The position of an element within its plane.
  Id position(const Ids& element) const;
};

/// t[place], or `other` where its condition does not hold, in `dtype`.
Id read_at(Lowering& to, const Tensor& t, const Windows::Place& place, int32_t dtype, double other);

/// A fold over few numbers in each of some ranges: one expression, or a loop where that is long.
Tensor folded_over(Lowering& to, Fold fold, int32_t dtype, const Ids& sizes, const Ids& ranges,
                   const std::string& name,
                   const std::function<Id(std::span<const Id> i, std::span<const Id>)>& value);
/// Whether that is one expression.
bool is_few(Expressions& x, const Ids& ranges);
/// All tuples of numbers in the ranges, the last one fastest.
std::vector<Ids> tuples(Expressions& x, const Ids& ranges);

}  // namespace loopir
