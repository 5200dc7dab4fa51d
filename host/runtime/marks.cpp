// What programs say about the sizes and the memory of arguments; size_policy.cpp reads it.
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "report/log.h"

#include <tenon/compile.h>

#include <algorithm>
#include <bit>

namespace tenon {

namespace {

uint64_t dim_bit(const Tensor& t, int64_t dim, std::string_view what) {
  require(t.defined(), "{}: the tensor is undefined", what);
  int64_t rank = t.dim(), wrapped = dim < 0 ? dim + rank : dim;
  require(wrapped >= 0 && wrapped < rank && wrapped < 64,
          "{}: dimension {} is out of range for a tensor with {} dimensions", what, dim, rank);
  return uint64_t{1} << wrapped;
}

// Sizes of a body that is recorded are what its arguments made them.
void warn_of_late_mark(const Tensor& t, std::string_view what) {
  if (t.is_fake() && thread_modes.tracer)
    report::warn_once(message("late {}", what), "dynamic",
                      message("{}: called in the body of a compiled callable, where it does "
                              "nothing; mark the arguments before the call",
                              what));
}

TensorMarks& own_marks(const Tensor& t) {
  TensorExtra& extra = impl_of(t)->ensure_extra();
  if (!extra.marks) extra.marks = std::make_unique<TensorMarks>();
  any_marks.store(true, std::memory_order_relaxed);
  return *extra.marks;
}

// The marks without what was said of these dimensions before.
TensorMarks& marks_without(const Tensor& t, uint64_t dims) {
  TensorMarks& marks = own_marks(t);
  for (uint64_t* word :
       {&marks.dynamic, &marks.maybe_dynamic, &marks.fixed, &marks.unbacked, &marks.strict})
    *word &= ~dims;
  for (size_t d = 0; d < marks.sizes.size(); ++d)
    if (dims >> d & 1) marks.sizes[d] = {};
  return marks;
}

void keep_size(TensorMarks& marks, uint64_t bit, TensorMarks::Size size) {
  auto dim = static_cast<size_t>(std::countr_zero(bit));
  marks.sizes.resize(std::max(marks.sizes.size(), dim + 1));
  marks.sizes[dim] = std::move(size);
}

void check_bounds(std::string_view what, std::optional<int64_t> min, std::optional<int64_t> max) {
  require(!min || !max || *min <= *max, "{}: min {} is above max {}", what, min.value_or(0),
          max.value_or(0));
}

}  // namespace

void mark_dynamic(const Tensor& t, int64_t dim, DynamicSize size) {
  uint64_t bit = dim_bit(t, dim, "mark_dynamic");
  check_bounds("mark_dynamic", size.min, size.max);
  warn_of_late_mark(t, "mark_dynamic");
  TensorMarks::Size kept{size.min.value_or(0), size.max.value_or(INT64_MAX)};
  require(!size.hint || (*size.hint >= std::max<int64_t>(kept.min, 2) && *size.hint <= kept.max),
          "mark_dynamic: hint is {}; expected a size of 2 or more within the bounds",
          size.hint.value_or(0));
  kept.cost_hint = size.hint;
  for (const SpecialSizes& special : size.specialize_on) kept.special.push_back(special.holds());
  TensorMarks& marks = marks_without(t, bit);
  marks.dynamic |= bit;
  keep_size(marks, bit, std::move(kept));
}

void maybe_mark_dynamic(const Tensor& t, int64_t dim) {
  uint64_t bit = dim_bit(t, dim, "maybe_mark_dynamic");
  warn_of_late_mark(t, "maybe_mark_dynamic");
  marks_without(t, bit).maybe_dynamic |= bit;
}

void mark_static(const Tensor& t, int64_t dim) {
  uint64_t bit = dim_bit(t, dim, "mark_static");
  if (t.is_fake()) return static_cast<void>(t.size(dim).guard_int());  // fixed from here on
  marks_without(t, bit).fixed |= bit;
}

void mark_static(const Tensor& t) {
  require(t.defined(), "mark_static: the tensor is undefined");
  for (int64_t d = 0; d < t.dim(); ++d) mark_static(t, d);
}

void mark_unbacked(const Tensor& t, int64_t dim, UnbackedSize size) {
  uint64_t bit = dim_bit(t, dim, "mark_unbacked");
  check_bounds("mark_unbacked", size.min, size.max);
  warn_of_late_mark(t, "mark_unbacked");
  TensorMarks& marks = marks_without(t, bit);
  marks.unbacked |= bit;
  if (size.strict) marks.strict |= bit;
  keep_size(marks, bit,
            {size.min.value_or(0), size.max.value_or(INT64_MAX), std::move(size.shape_id)});
}

void mark_static_address(const Tensor& t, bool guard) {
  require(t.defined(), "mark_static_address: the tensor is undefined");
  TensorMarks& marks = own_marks(t);
  marks.static_address = true;
  marks.guards_address = guard;
}

}  // namespace tenon
