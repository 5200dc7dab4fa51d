// Sorting and choosing on NVIDIA GPUs: arguments of ATen's ops to CUB's algorithms, results in ATen's
// shapes and strides.
//
// Rows are sorted along the last dimension of contiguous memory; another dimension is brought there
// by a copy. Where a result's size depends on values, its number comes back to the host, which waits
// for the stream once.
#include "algorithms.h"

#include <tenon/cuda.h>
#include <tenon/plugin.hpp>

#include <deque>
#include <numeric>

using namespace tenon::plugin;

namespace {

using kernels_cub::Elements;
using kernels_cub::Form;
using Numbers = std::vector<int64_t>;

const tn_cuda_api& cuda() {
  const auto* found = extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!found || !TN_HAS(found, native_stream))
    throw declined("no plugin gives the driver's streams");
  return *found;
}

// A double of the driver runs code of the host's processor.
void require_gpu(int32_t device) {
  tn_cuda_facts facts{};
  facts.struct_size = sizeof facts;
  check(cuda().facts(device, &facts));
  if (!sv(facts.arch).starts_with("sm_"))
    throw declined(text("the device is of architecture {}", sv(facts.arch)));
}

/// What one call works with: the driver's stream, and memory that goes back behind it.
class Work : public kernels_cub::Scratch {
 public:
  explicit Work(const kernel_call& c, const tn_tensor* on) : c_(c), device_(on->device_index) {
    require_gpu(device_);
    check(cuda().native_stream(device_, c.stream, &stream_));
    if (TN_HAS(&cuda(), leave_stream)) check(cuda().enter_stream(c.stream));
  }
  ~Work() override {
    if (TN_HAS(&cuda(), leave_stream)) cuda().leave_stream(c_.stream);
  }
  Work(const Work&) = delete;
  void* bytes(size_t n) override {
    return held_.emplace_back(on_device({static_cast<int64_t>(n)}, TN_U8))->data;
  }
  tensor on_device(Numbers sizes, int32_t dtype) const {
    return tensor::empty(sizes, dtype, TN_DEV_CUDA, device_);
  }
  kernels_cub::Stream stream() const { return stream_; }

  /// The elements in memory order of the dimensions `order`; a copy unless they lie so.
  tensor laid_out(const tn_tensor* t, const std::vector<size_t>& order) const {
    Numbers sizes, strides;
    for (size_t d : order) sizes.push_back(t->sizes[d]), strides.push_back(t->strides[d]);
    tensor view =
        tensor::share(const_cast<tn_tensor*>(t)).as_strided(sizes, strides, t->storage_offset);
    int64_t next = 1;
    bool is_dense = true;
    for (size_t d = sizes.size(); d-- > 0; next *= sizes[d])
      is_dense = is_dense && (sizes[d] == 1 || strides[d] == next);
    if (is_dense) return view;
    tensor copy = on_device(sizes, t->dtype);
    copy.copy_from(view.get(), c_.stream);
    return copy;
  }
  tensor contiguous(const tn_tensor* t) const {
    std::vector<size_t> order(static_cast<size_t>(t->ndim));
    std::iota(order.begin(), order.end(), size_t{0});
    return laid_out(t, order);
  }

 private:
  const kernel_call& c_;
  int32_t device_;
  kernels_cub::Stream stream_ = nullptr;
  std::deque<tensor> held_;
};

Elements elements_of(const tensor& t) {
  const void* data = t->data;
  switch (t->dtype) {
    case TN_F32:
      return {data, t->numel, 4, Form::floating, 0x7F800000};
    case TN_F64:
      return {data, t->numel, 8, Form::floating, 0x7FF0000000000000};
    case TN_F16:
      return {data, t->numel, 2, Form::floating, 0x7C00};
    case TN_BF16:
      return {data, t->numel, 2, Form::floating, 0x7F80};
    case TN_BOOL:
    case TN_U8:
      return {data, t->numel, 1, Form::without_sign, 0};
    case TN_I8:
      return {data, t->numel, 1, Form::with_sign, 0};
    case TN_I16:
      return {data, t->numel, 2, Form::with_sign, 0};
    case TN_I32:
      return {data, t->numel, 4, Form::with_sign, 0};
    case TN_I64:
      return {data, t->numel, 8, Form::with_sign, 0};
    default:
      throw declined(text("dtype {}", t->dtype));
  }
}

// ---- sorting

/// Like `t`, as the op table lays results out; of another dtype where one is given.
tensor like(const tn_tensor* t, std::optional<int32_t> dtype, tn_stream* stream) {
  static const uint32_t empty_like = op("aten.empty_like.default");
  tn_arg args[2] = {};
  args[0].kind = TN_ARG_VALUE;
  if (dtype) {
    args[1].kind = TN_ARG_DTYPE;
    args[1].u.i = *dtype;
  }
  tn_tensor *given = const_cast<tn_tensor*>(t), *made = nullptr;
  run_op(empty_like, args, &given, std::span(&made, 1), stream);
  return tensor(made);
}

/// A sort along one dimension: the others are rows.
struct Sort {
  const tn_tensor* x;
  size_t dim;
  std::vector<size_t> order;  // of dimensions: `dim` last
  int64_t width, rows;

  Sort(const tn_tensor* x, int64_t given) : x(x) {
    auto n = static_cast<size_t>(x->ndim);
    dim = static_cast<size_t>(given < 0 ? given + std::max<int64_t>(x->ndim, 1) : given);
    for (size_t d = 0; d < n; ++d)
      if (d != dim) order.push_back(d);
    if (n) order.push_back(dim);
    width = n ? x->sizes[dim] : 1;
    rows = width ? x->numel / width : 0;
  }

  /// The first `kept` of each row into results of the sizes that they have.
  void run(const kernel_call& c, bool descending, int64_t kept, tensor values, tensor indices) {
    Work work(c, x);
    tensor lines = work.laid_out(x, order);
    Elements from = elements_of(lines);
    if (from.n > 0 && kept > 0) {
      auto* positions = work.of<int64_t>(from.n);
      kernels_cub::sort_rows(from, rows, descending, positions, work, work.stream());
      Numbers sizes;
      for (size_t d : order) sizes.push_back(d == dim ? kept : x->sizes[d]);
      tensor sorted = work.on_device(sizes, x->dtype), where = work.on_device(sizes, TN_I64);
      kernels_cub::take_from_rows(from, rows, kept, positions, sorted->data, where.data<int64_t>(),
                                  work.stream());
      put(c, values, sorted);
      put(c, indices, where);
    }
    c.give(0, std::move(values));
    c.give(1, std::move(indices));
  }

 private:
  void put(const kernel_call& c, const tensor& to, const tensor& rows_of) const {
    Numbers sizes, strides;
    for (size_t d : order) sizes.push_back(to->sizes[d]), strides.push_back(to->strides[d]);
    tensor view = to.as_strided(sizes, strides, to->storage_offset);
    view.copy_from(rows_of.get(), c.stream);
  }
};

bool run_sort(const kernel_call& c, size_t dim, size_t descending) {
  const tn_tensor* x = c.tensor_at(0);
  Sort sort(x, c.args[dim].u.i);
  sort.run(c, c.args[descending].u.i != 0, sort.width, like(x, std::nullopt, c.stream),
           like(x, TN_I64, c.stream));
  return true;
}
bool sort(const kernel_call& c) { return run_sort(c, 1, 2); }
bool sort_stable(const kernel_call& c) { return run_sort(c, 2, 3); }

bool topk(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  int64_t k = c.args[1].u.i;
  Sort sort(x, c.args[2].u.i);
  if (k < 0 || k > sort.width) return false;  // the op says what is wrong with it
  Numbers sizes(x->sizes, x->sizes + x->ndim);
  if (x->ndim) sizes[sort.dim] = k;
  bool largest = c.args[3].u.i != 0;
  sort.run(c, largest, k, tensor::empty(sizes, x->dtype, TN_DEV_CUDA, x->device_index),
           tensor::empty(sizes, TN_I64, TN_DEV_CUDA, x->device_index));
  return true;
}

// ---- choosing

/// The places of the elements that are not zero, and how many.
struct Places {
  const int64_t* positions = nullptr;
  int64_t count = 0;

  Places(Work& work, const Elements& x) {
    if (x.n == 0) return;
    auto* found = work.of<int64_t>(x.n);
    auto* n = work.of<int64_t>(1);
    kernels_cub::find_nonzero(x, found, n, work, work.stream());
    positions = found;
    count = kernels_cub::read_number(n, work.stream());
  }
};

bool nonzero(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  Work work(c, x);
  tensor all = work.contiguous(x);
  Places places(work, elements_of(all));
  Numbers sizes{places.count, x->ndim}, strides{1, places.count};
  tensor out = tensor::strided(sizes, strides, TN_I64, TN_DEV_CUDA, x->device_index);
  kernels_cub::write_coordinates(places.positions, places.count, x->sizes, x->ndim,
                                 out.data<int64_t>(), work.stream());
  c.give(0, std::move(out));
  return true;
}

/// A view of `t` with the sizes that it broadcasts to.
tensor broadcast(const tn_tensor* t, const Numbers& sizes) {
  Numbers strides(sizes.size(), 0);
  size_t missing = sizes.size() - static_cast<size_t>(t->ndim);
  for (size_t d = 0; d < static_cast<size_t>(t->ndim); ++d)
    if (t->sizes[d] != 1) strides[missing + d] = t->strides[d];
  return tensor::share(const_cast<tn_tensor*>(t)).as_strided(sizes, strides, t->storage_offset);
}

/// The sizes that an op of a tensor and a mask has; none where the op is not for this plugin, or
/// will say itself what is wrong.
std::optional<Numbers> sizes_with(const tn_tensor* x, const tn_tensor* mask) {
  if (mask->dtype != TN_BOOL || mask->device_type != TN_DEV_CUDA || x->device_type != TN_DEV_CUDA)
    return std::nullopt;
  Numbers sizes(static_cast<size_t>(std::max(x->ndim, mask->ndim)), 1);
  for (const tn_tensor* t : {x, mask}) {
    size_t missing = sizes.size() - static_cast<size_t>(t->ndim);
    for (size_t d = 0; d < static_cast<size_t>(t->ndim); ++d) {
      int64_t& size = sizes[missing + d];
      if (t->sizes[d] != 1 && size != 1 && size != t->sizes[d]) return std::nullopt;
      if (t->sizes[d] != 1) size = t->sizes[d];
    }
  }
  return sizes;
}

bool masked_select(const kernel_call& c) {
  const tn_tensor *x = c.tensor_at(0), *mask = c.tensor_at(1);
  std::optional<Numbers> sizes = sizes_with(x, mask);
  if (!sizes) return false;
  Work work(c, x);
  tensor values = work.contiguous(broadcast(x, *sizes).get());
  tensor chosen = work.contiguous(broadcast(mask, *sizes).get());
  Elements from = elements_of(values);
  Places places(work, elements_of(chosen));
  tensor out = work.on_device({places.count}, x->dtype);
  kernels_cub::take(from, places.positions, places.count, out->data, work.stream());
  c.give(0, std::move(out));
  return true;
}

bool masked_scatter(const kernel_call& c) {
  const tn_tensor *x = c.tensor_at(0), *mask = c.tensor_at(1), *source = c.tensor_at(2);
  std::optional<Numbers> sizes = sizes_with(x, mask);
  if (!sizes || source->device_type != TN_DEV_CUDA || source->dtype != x->dtype) return false;
  // The op table lays results out like the first operand that is whole.
  bool is_whole = std::ranges::equal(*sizes, std::span(x->sizes, static_cast<size_t>(x->ndim)));
  if (!is_whole && !(mask->flags & TN_T_CONTIGUOUS)) return false;
  Work work(c, x);
  tensor values = work.contiguous(source);
  tensor chosen = work.contiguous(broadcast(mask, *sizes).get());
  Elements from = elements_of(values);
  Places places(work, elements_of(chosen));
  if (places.count > from.n)
    throw error(
        TN_INVALID_ARGUMENT,
        text("masked_scatter: source has {} elements, the mask chooses {}", from.n, places.count));
  tensor out = is_whole ? like(x, std::nullopt, c.stream) : work.on_device(*sizes, x->dtype);
  out.copy_from(broadcast(x, *sizes).get(), c.stream);
  tensor rows = work.contiguous(out.get());
  kernels_cub::put(from, places.positions, places.count, rows->data, work.stream());
  if (rows->data != out->data) out.copy_from(rows.get(), c.stream);
  c.give(0, std::move(out));
  return true;
}

// ---- grouping

bool unique2(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  bool wants_inverse = c.args[2].u.i != 0, wants_counts = c.args[3].u.i != 0;
  Work work(c, x);
  tensor all = work.contiguous(x);
  Elements from = elements_of(all);
  kernels_cub::Stream stream = work.stream();
  Numbers none{0}, sizes(x->sizes, x->sizes + x->ndim);
  tensor inverse = work.on_device(wants_inverse ? sizes : none, TN_I64);
  int64_t runs = 0;
  int64_t *order = nullptr, *heads = nullptr;
  if (from.n > 0) {
    order = work.of<int64_t>(from.n);
    auto* ranks = work.of<int64_t>(from.n);
    kernels_cub::sort_rows(from, 1, false, order, work, stream);
    kernels_cub::number_runs(from, order, ranks, work, stream);
    runs = kernels_cub::read_number(ranks + from.n - 1, stream);
    heads = work.of<int64_t>(runs);
    kernels_cub::find_heads(ranks, from.n, heads, stream);
    if (wants_inverse)
      kernels_cub::write_inverse(order, ranks, from.n, inverse.data<int64_t>(), stream);
  }
  tensor values = work.on_device({runs}, x->dtype);
  tensor counts = work.on_device({wants_counts ? runs : 0}, TN_I64);
  if (runs > 0) {
    auto* places = work.of<int64_t>(runs);
    kernels_cub::compose(order, heads, runs, places, stream);
    kernels_cub::take(from, places, runs, values->data, stream);
    if (wants_counts)
      kernels_cub::write_counts(heads, runs, from.n, counts.data<int64_t>(), stream);
  }
  c.give(0, std::move(values));
  c.give(1, std::move(inverse));
  c.give(2, std::move(counts));
  return true;
}

constexpr kernel_row rows[] = {{"aten.sort.default", sort},
                               {"aten.sort.stable", sort_stable},
                               {"aten.topk.default", topk},
                               {"aten.nonzero.default", nonzero},
                               {"aten.masked_select.default", masked_select},
                               {"aten.masked_scatter.default", masked_scatter},
                               {"aten._unique2.default", unique2}};

}  // namespace

TENON_PLUGIN(p) { p.kernels(TN_DEV_CUDA, rows); }
