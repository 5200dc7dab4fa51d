// The exponential of matrices.
//
// Problem: exp(A) = sum A^k / k! for square matrices, in f32 and f64.
// Model: a quotient r(A) = q(A)^-1 p(A) of polynomials that agrees with exp to the rounding of the
//   dtype where the norm of A is below a bound theta; larger matrices are halved s times first and
//   the result is squared s times: exp(A) = r(A / 2^s)^(2^s).
// Method: Pade's quotients of the degrees 3, 5, 7, 9 and 13, the lowest whose theta serves. p and q
//   share their coefficients: p = V + U and q = V - U with the even powers in V and the odd ones in
//   U. Five products at most, one factorisation, s products.
// Cost: some (8 + s) n^3 multiplications.
// Source: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005);
//   the bounds of f32 from the same analysis.
#include "kernels.h"
#include "routines.h"

#include <cmath>
#include <limits>

namespace lapack {

namespace {

struct Quotient {
  int degree;
  double theta;
  double coefficients[14];
};

constexpr Quotient quotients_f64[] = {
    {3, 1.495585217958292e-2, {120, 60, 12, 1}},
    {5, 2.539398330063230e-1, {30240, 15120, 3360, 420, 30, 1}},
    {7, 9.504178996162932e-1, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}},
    {9,
     2.097847961257068e0,
     {17643225600., 8821612800., 2075673600., 302702400., 30270240., 2162160., 110880., 3960., 90.,
      1.}},
    {13,
     5.371920351148152e0,
     {64764752532480000., 32382376266240000., 7771770303897600., 1187353796428800.,
      129060195264000., 10559470521600., 670442572800., 33522128640., 1323241920., 40840800.,
      960960., 16380., 182., 1.}},
};
constexpr double theta_f32[] = {4.258730016922831e-1, 1.880152677804762e0, 3.925724783138660e0};

// The quotient for a norm, and how often the matrix is halved for it.
template <class T>
const Quotient& quotient_for(double norm, int& halvings) {
  constexpr bool is_single = std::is_same_v<T, float>;
  constexpr size_t last = is_single ? 2 : 4;
  auto theta = [](size_t i) { return is_single ? theta_f32[i] : quotients_f64[i].theta; };
  halvings = 0;
  for (size_t i = 0; i < last; ++i)
    if (norm <= theta(i)) return quotients_f64[i];
  if (norm > theta(last)) halvings = std::max(0, std::ilogb(norm / theta(last)) + 1);
  return quotients_f64[last];
}

/// The matrices that one exponential works in.
template <class T>
struct Room {
  int n;
  int64_t size;
  std::unique_ptr<T[]> memory;
  std::unique_ptr<int[]> pivots;
  explicit Room(int n)
      : n(n), size(int64_t{n} * n), memory(scratch<T>(7 * size)), pivots(scratch<int>(n)) {}
  T* at(int i) { return memory.get() + i * size; }

  void multiply(const T* a, const T* b, T* c) {
    gemm<T>(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, T{1}, a, n, b, n, T{0}, c, n);
  }
  // out += factor * in, and the unit matrix
  void add(T* out, T factor, const T* in) {
    for (int64_t i = 0; i < size; ++i) out[i] += factor * in[i];
  }
  void add_unit(T* out, T factor) {
    for (int64_t k = 0; k < n; ++k) out[k * n + k] += factor;
  }
};

template <class T>
double column_sum_norm(const T* a, int64_t n) {
  double largest = 0;
  for (int64_t c = 0; c < n; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < n; ++r) sum += std::abs(static_cast<double>(a[c * n + r]));
    if (!(sum <= largest)) largest = sum;  // NaN stays
  }
  return largest;
}

// U (odd powers) and V (even powers) up to degree 9, from A^2, A^4, ... one after the other.
template <class T>
void low_parts(Room<T>& room, const T* a, const Quotient& q, T* u, T* v) {
  T *square = room.at(0), *power = room.at(1), *next = room.at(2), *odd = room.at(3);
  std::fill_n(odd, room.size, T{0});
  std::fill_n(v, room.size, T{0});
  room.add_unit(odd, static_cast<T>(q.coefficients[1]));
  room.add_unit(v, static_cast<T>(q.coefficients[0]));
  room.multiply(a, a, square);
  std::copy_n(square, room.size, power);
  for (int k = 2; k < q.degree; k += 2) {
    room.add(odd, static_cast<T>(q.coefficients[k + 1]), power);
    room.add(v, static_cast<T>(q.coefficients[k]), power);
    if (k + 2 >= q.degree) break;
    room.multiply(power, square, next);
    std::swap(power, next);
  }
  room.multiply(a, odd, u);
}

// The same for degree 13: the powers above 6 as A^6 times lower ones.
template <class T>
void high_parts(Room<T>& room, const T* a, const Quotient& q, T* u, T* v) {
  T *a2 = room.at(0), *a4 = room.at(1), *a6 = room.at(2), *sum = room.at(3);
  room.multiply(a, a, a2);
  room.multiply(a2, a2, a4);
  room.multiply(a4, a2, a6);
  auto part = [&](int first, T* out) {  // of the odd powers from 1, or the even ones from 0
    const double* b = q.coefficients + first;
    std::fill_n(sum, room.size, T{0});
    room.add(sum, static_cast<T>(b[12]), a6), room.add(sum, static_cast<T>(b[10]), a4),
        room.add(sum, static_cast<T>(b[8]), a2);
    room.multiply(a6, sum, out);
    room.add(out, static_cast<T>(b[6]), a6), room.add(out, static_cast<T>(b[4]), a4),
        room.add(out, static_cast<T>(b[2]), a2);
    room.add_unit(out, static_cast<T>(b[0]));
  };
  part(1, v);
  room.multiply(a, v, u);
  part(0, v);
}

// In place.
template <class T>
void exponentiate(Room<T>& room, T* a) {
  double norm = column_sum_norm(a, room.n);
  if (!std::isfinite(norm)) {
    std::fill_n(a, room.size, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  int halvings = 0, n = room.n;
  const Quotient& q = quotient_for<T>(norm, halvings);
  for (int64_t i = 0; i < room.size; ++i) a[i] = std::ldexp(a[i], -halvings);
  T *u = room.at(4), *v = room.at(5), *below = room.at(6);
  if (q.degree < 13)
    low_parts(room, a, q, u, v);
  else
    high_parts(room, a, q, u, v);
  for (int64_t i = 0; i < room.size; ++i) {
    below[i] = v[i] - u[i];
    a[i] = v[i] + u[i];
  }
  getrf<T>(LAPACK_COL_MAJOR, n, n, below, n, room.pivots.get());
  getrs<T>(LAPACK_COL_MAJOR, 'N', n, n, below, n, room.pivots.get(), a, n);
  for (int k = 0; k < halvings; ++k) {
    room.multiply(a, a, u);
    std::copy_n(u, room.size, a);
  }
}

template <class T>
void exponentiate_each(const tensor& t) {
  int n = columns_of(t.get());
  for_matrices(product_of(batch_of(t.get())), 10 * cube(n), [&](int64_t lo, int64_t hi) {
    Room<T> room(n);
    for (int64_t i = lo; i < hi; ++i) exponentiate(room, t.data<T>() + i * room.size);
  });
}

}  // namespace

// exp(A^T) is exp(A)^T, so that matrices row by row need not be turned.
bool matrix_exp(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  bool narrow = is_readable(a) && (a->dtype == TN_F16 || a->dtype == TN_BF16);
  if (!narrow && !is_matrices(a)) return false;
  if (a->ndim < 2 || rows_of(a) != columns_of(a)) return false;
  Sizes sizes(a->sizes, a->sizes + a->ndim);
  tensor out = tensor::empty(sizes, narrow ? int32_t{TN_F32} : a->dtype);
  out.copy_from(a);
  if (a->numel) by_dtype(out->dtype, [&]<class T>() { exponentiate_each<T>(out); });
  if (narrow) {
    tensor wide = std::move(out);
    out = tensor::empty(sizes, a->dtype);
    out.copy_from(wide.get());
  }
  call.give(0, std::move(out));
  return true;
}

}  // namespace lapack
