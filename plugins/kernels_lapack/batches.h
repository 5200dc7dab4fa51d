// Batches of matrices: tensors of any strides as LAPACK reads them, results as ATen lays them out.
//
// LAPACK overwrites matrices that lie column by column. ATen's results of factorisations lie so
// too: an input is copied once, into the result, and factored there. What is only read is taken
// where it lies: matrices row by row are their transposes column by column.
#pragma once

#include <tenon/plugin.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace lapack {

using tenon::plugin::kernel_call;
using tenon::plugin::tensor;
using Sizes = std::vector<int64_t>;

/// Fails with TN_INVALID_ARGUMENT and the message.
template <class... Args>
[[noreturn]] void refuse(std::string_view pattern, const Args&... args) {
  throw tenon::plugin::error(TN_INVALID_ARGUMENT, tenon::plugin::text(pattern, args...));
}

/// A tensor that kernels here can read: on the CPU, with real elements at hand.
inline bool is_readable(const tn_tensor* t) {
  return t && t->device_type == TN_DEV_CPU && (t->data || t->numel == 0) &&
         !(t->flags & (TN_T_FAKE | TN_T_CONJ | TN_T_NEG));
}
/// A batch of matrices of f32 or f64.
inline bool is_matrices(const tn_tensor* t) {
  return is_readable(t) && t->ndim >= 2 && (t->dtype == TN_F32 || t->dtype == TN_F64);
}
inline bool is_square(const tn_tensor* t) {
  return is_matrices(t) && t->sizes[t->ndim - 1] == t->sizes[t->ndim - 2];
}
/// Both batches of matrices of one dtype.
inline bool are_alike(const tn_tensor* a, const tn_tensor* b) {
  return is_matrices(a) && is_matrices(b) && a->dtype == b->dtype;
}

/// A size as LAPACK counts it; refuses what it cannot count.
int whole(int64_t size);
inline int rows_of(const tn_tensor* t) { return whole(t->sizes[t->ndim - 2]); }
inline int columns_of(const tn_tensor* t) { return whole(t->sizes[t->ndim - 1]); }
/// The distance of columns: LAPACK wants 1 at least.
inline int step_of(int rows) { return std::max(1, rows); }

/// All dimensions but the last ones.
Sizes batch_of(const tn_tensor* t, int32_t n_last = 2);
/// The batch dimensions of two, broadcast; false where they do not fit.
bool common_batch(const tn_tensor* a, const tn_tensor* b, Sizes& batch);
Sizes with(Sizes batch, std::initializer_list<int64_t> last);
int64_t product_of(const Sizes& sizes);

/// Uninitialised, each matrix of the last two dimensions column by column.
tensor by_columns(const Sizes& sizes, int32_t dtype);
/// A copy with these sizes (`t` is broadcast), column by column or row by row.
tensor copy_by_columns(const tn_tensor* t, const Sizes& sizes);
tensor copy_by_columns(const tn_tensor* t);
tensor copy_by_rows(const tn_tensor* t, const Sizes& sizes);
/// The matrices transposed, in the same storage.
tensor transposed(const tn_tensor* t);
/// The same elements in other sizes, for a tensor that is dense in this order.
tensor view_of(const tensor& t, const Sizes& sizes, const Sizes& strides);
/// Writes the unit matrix to each.
void fill_unit(const tensor& t);
/// Whether `b` has one right-hand side for each matrix of `a` rather than a matrix of them.
bool is_vectors(const tn_tensor* a, const tn_tensor* b);
/// Such vectors as matrices of one column, in the same storage.
tensor as_columns(const tn_tensor* b);
/// Contiguous i32 of these sizes: `t` itself where it is that, else a copy.
tensor whole_numbers(const tn_tensor* t, const Sizes& sizes);

/// Matrices that are only read, where they lie if one of their two strides is 1.
class Operand {
 public:
  /// For a walk over `batch`, to which the batch of `t` broadcasts. With `columns_only`, matrices
  /// row by row are copied.
  Operand(const tn_tensor* t, const Sizes& batch, bool columns_only);
  /// Whether the memory holds the transposes, column by column.
  bool is_transposed() const { return transposed_; }
  int step() const { return step_; }
  /// The first element of matrix i of the walk.
  template <class T>
  const T* at(int64_t i) const {
    return static_cast<const T*>(data_) + offset_of(i);
  }

 private:
  int64_t offset_of(int64_t i) const;
  tensor held_;
  const void* data_;
  bool transposed_;
  int step_;
  Sizes batch_, strides_;
};

/// What LAPACK works in; its elements begin as anything.
template <class T>
std::unique_ptr<T[]> scratch(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(std::max<int64_t>(n, 1))]);
}

/// The size that a routine asked for. f32 rounds large ones, perhaps down.
template <class T>
int work_length(T asked) {
  return whole(static_cast<int64_t>(static_cast<double>(asked) * (1 + 1e-6)) + 1);
}

/// Whether the library may only be called by one thread at a time.
bool one_call_at_a_time();

/// body(first, last) over slices of `count` matrices that cost `work` multiplications each: on the
/// host's threads where there is enough of it.
template <class F>
void for_matrices(int64_t count, double work, F&& body) {
  constexpr double enough = 1e5;  // some 20 us
  if (count <= 0) return;
  bool worth_it = count > 1 && static_cast<double>(count) * work >= 2 * enough;
  if (!worth_it || one_call_at_a_time()) return body(int64_t{0}, count);
  auto grain = static_cast<int64_t>(std::max(1.0, enough / std::max(work, 1.0)));
  tenon::plugin::parallel_for(0, count, grain, body);
}
inline double cube(double n) { return n * n * n; }

/// Calls f<T>() for the dtype of the tensors, f32 or f64.
template <class F>
void by_dtype(int32_t dtype, F&& f) {
  if (dtype == TN_F32)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

/// "linalg_solve: " or "linalg_solve: (batch element 3): ", for an error of matrix i.
std::string place_of(std::string_view op, const Sizes& batch, int64_t i);
/// Refuses the first matrix whose iteration broke off, as LAPACK's infos tell: a negative one stands
/// for elements that are not finite. `cause` goes behind "the algorithm did not converge".
void check_converged(std::string_view op, const std::vector<int32_t>& infos, const Sizes& batch,
                     std::string_view cause = "");
/// The first of the infos that is not 0, or -1.
int64_t first_broken(const tensor& infos);

/// Whether all elements are finite.
template <class T>
bool is_finite(const T* data, int64_t n) {
  T sum = 0;  // 0 * x is 0 for finite numbers only
  for (int64_t i = 0; i < n; ++i) sum += 0 * data[i];
  return sum == 0;
}

inline bool flag_at(const kernel_call& call, size_t i) { return call.args[i].u.i != 0; }
inline std::string_view text_at(const kernel_call& call, size_t i) {
  return call.args[i].kind == TN_ARG_STRING ? tenon::plugin::sv(call.args[i].u.str)
                                            : std::string_view();
}

}  // namespace lapack
