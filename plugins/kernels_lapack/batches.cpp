// Batches of matrices: copies, views and offsets.
#include "batches.h"

#include <limits>

namespace lapack {

namespace {

Sizes sizes_of(const tn_tensor* t) { return Sizes(t->sizes, t->sizes + t->ndim); }
Sizes strides_of(const tn_tensor* t) { return Sizes(t->strides, t->strides + t->ndim); }

Sizes dense_strides(const Sizes& sizes, bool by_columns) {
  Sizes order(sizes);
  size_t n = sizes.size();
  if (by_columns) std::swap(order[n - 1], order[n - 2]);
  Sizes strides(n, 1);
  for (size_t d = n - 1; d-- > 0;) strides[d] = strides[d + 1] * std::max<int64_t>(1, order[d + 1]);
  if (by_columns) std::swap(strides[n - 1], strides[n - 2]);
  return strides;
}

template <class T>
void put_units(T* data, int64_t count, int64_t rows, int64_t columns) {
  std::fill_n(data, count * rows * columns, T{0});
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < std::min(rows, columns); ++k) data[(i * columns + k) * rows + k] = 1;
}

}  // namespace

int whole(int64_t size) {
  if (size > std::numeric_limits<int>::max())
    refuse("a matrix has {} rows or columns; LAPACK counts to {}", size,
           std::numeric_limits<int>::max());
  return static_cast<int>(size);
}

Sizes batch_of(const tn_tensor* t, int32_t n_last) {
  return Sizes(t->sizes, t->sizes + t->ndim - n_last);
}

bool common_batch(const tn_tensor* a, const tn_tensor* b, Sizes& batch) {
  Sizes left = batch_of(a), right = batch_of(b);
  if (left.size() < right.size()) left.swap(right);
  size_t more = left.size() - right.size();
  for (size_t d = 0; d < right.size(); ++d) {
    int64_t &x = left[more + d], y = right[d];
    if (x != y && x != 1 && y != 1) return false;
    if (x == 1) x = y;
  }
  batch = std::move(left);
  return true;
}

Sizes with(Sizes batch, std::initializer_list<int64_t> last) {
  batch.insert(batch.end(), last);
  return batch;
}

int64_t product_of(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

tensor by_columns(const Sizes& sizes, int32_t dtype) {
  return tensor::strided(sizes, dense_strides(sizes, true), dtype);
}

tensor copy_by_columns(const tn_tensor* t, const Sizes& sizes) {
  tensor out = by_columns(sizes, t->dtype);
  out.copy_from(t);
  return out;
}

tensor copy_by_columns(const tn_tensor* t) { return copy_by_columns(t, sizes_of(t)); }

tensor copy_by_rows(const tn_tensor* t, const Sizes& sizes) {
  tensor out = tensor::empty(sizes, t->dtype);
  out.copy_from(t);
  return out;
}

tensor transposed(const tn_tensor* t) {
  Sizes sizes = sizes_of(t), strides = strides_of(t);
  size_t n = sizes.size();
  std::swap(sizes[n - 1], sizes[n - 2]);
  std::swap(strides[n - 1], strides[n - 2]);
  tensor same = tensor::share(const_cast<tn_tensor*>(t));
  return same.as_strided(sizes, strides, t->storage_offset);
}

tensor view_of(const tensor& t, const Sizes& sizes, const Sizes& strides) {
  return t.as_strided(sizes, strides, t->storage_offset);
}

void fill_unit(const tensor& t) {
  int64_t rows = rows_of(t.get()), columns = columns_of(t.get());
  int64_t count = product_of(batch_of(t.get()));
  by_dtype(t->dtype, [&]<class T>() { put_units(t.data<T>(), count, rows, columns); });
}

tensor whole_numbers(const tn_tensor* t, const Sizes& sizes) {
  if (t->dtype == TN_I32 && sizes_of(t) == sizes && (t->flags & TN_T_CONTIGUOUS))
    return tensor::share(const_cast<tn_tensor*>(t));
  tensor out = tensor::empty(sizes, TN_I32);
  out.copy_from(t);
  return out;
}

bool is_vectors(const tn_tensor* a, const tn_tensor* b) {
  if (b->ndim == 1) return true;
  return b->ndim == a->ndim - 1 && std::equal(b->sizes, b->sizes + b->ndim, a->sizes);
}

tensor as_columns(const tn_tensor* b) {
  Sizes sizes = sizes_of(b), strides = strides_of(b);
  sizes.push_back(1);
  strides.push_back(1);
  tensor same = tensor::share(const_cast<tn_tensor*>(b));
  return same.as_strided(sizes, strides, b->storage_offset);
}

Operand::Operand(const tn_tensor* t, const Sizes& batch, bool columns_only) : batch_(batch) {
  int rows = rows_of(t), columns = columns_of(t);
  auto lies_by_columns = [&](int64_t down, int64_t right, int64_t n_down, int64_t n_right) {
    return (n_down <= 1 || down == 1) && (n_right <= 1 || right >= n_down);
  };
  int64_t down = t->strides[t->ndim - 2], right = t->strides[t->ndim - 1];
  transposed_ = false;
  if (lies_by_columns(down, right, rows, columns)) {
    step_ = columns <= 1 ? step_of(rows) : whole(std::max<int64_t>(1, right));
  } else if (!columns_only && lies_by_columns(right, down, columns, rows)) {
    transposed_ = true;
    step_ = rows <= 1 ? step_of(columns) : whole(std::max<int64_t>(1, down));
  } else {
    held_ = copy_by_columns(t);
    t = held_.get();
    step_ = step_of(rows);
  }
  data_ = t->data;
  size_t missing = batch.size() - static_cast<size_t>(t->ndim - 2);
  strides_.assign(batch.size(), 0);
  for (int32_t d = 0; d + 2 < t->ndim; ++d)
    if (t->sizes[d] != 1) strides_[missing + static_cast<size_t>(d)] = t->strides[d];
}

int64_t Operand::offset_of(int64_t i) const {
  int64_t offset = 0;
  for (size_t d = batch_.size(); d-- > 0; i /= batch_[d]) offset += i % batch_[d] * strides_[d];
  return offset;
}

std::string place_of(std::string_view op, const Sizes& batch, int64_t i) {
  std::string out(op);
  return batch.empty() ? out + ": " : out + ": (batch element " + std::to_string(i) + "): ";
}

void check_converged(std::string_view op, const std::vector<int32_t>& infos, const Sizes& batch,
                     std::string_view cause) {
  for (size_t i = 0; i < infos.size(); ++i) {
    std::string place = place_of(op, batch, static_cast<int64_t>(i));
    if (infos[i] < 0) refuse("{}the matrix has elements that are not finite", place);
    if (infos[i] > 0)
      refuse("{}the algorithm did not converge{} (LAPACK's error code: {})", place, cause,
             infos[i]);
  }
}

int64_t first_broken(const tensor& infos) {
  const auto* info = infos.data<int32_t>();
  const int32_t* found = std::find_if(info, info + infos->numel, [](int32_t x) { return x != 0; });
  return found == info + infos->numel ? -1 : found - info;
}

}  // namespace lapack
