// Derivatives of pooling by its input, max_unpool, and pooling with random windows
// (fractional_max_pool).
//
// Method: a plane (one channel of one image) of the result is row-major in the compute type, so
//   that overlapping windows add up without loss; it is copied to the result's dtype and strides.
#include "ops/nn/pool_settings.h"
#include "ops/op.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/nn.h>

#include <limits>
#include <utility>

namespace tenon::ops {

namespace {

TensorMeta like_input(const Tensor& self) {
  bool spatial = self.dim() == 4 || self.dim() == 5;
  return {
      self.dtype(), self.device(), dims_of(self.sizes()),
      strides_for(self.sizes(), spatial ? suggest_memory_format(self) : MemoryFormat::contiguous)};
}

// As many planes in the gradient as in the input, each of n dimensions.
void check_planes(std::string_view op, const Tensor& grad, const Tensor& self, size_t n) {
  auto rank = static_cast<size_t>(self.dim());
  require((rank == n + 1 || rank == n + 2) && grad.sizes().size() == rank,
          "{}: expected a gradient and an input of {} or {} dimensions, found {} and {}", op, n + 1,
          n + 2, grad.sizes(), self.sizes());
  for (size_t d = 0; d < rank - n; ++d)
    require(sizes_match(grad.sizes()[d], self.sizes()[d]),
            "{}: expected as many planes in the gradient as in the input, found {} and {}", op,
            grad.sizes(), self.sizes());
  require(is_floating(grad.dtype()), "{}: a floating dtype is expected, found {}", op,
          grad.dtype());
}

// The gradient is that of the result which pooling the input gives.
void check_pooled(std::string_view op, const Tensor& grad, const Tensor& self,
                  const PoolSettings& settings) {
  check_planes(op, grad, self, settings.n);
  require_shape(op, "grad_output", grad, list_of(pooled_sizes(op, self, settings)));
}

int64_t plane_size(const Tensor& t, size_t n_space) {
  int64_t size = 1;
  for (size_t d = 0; d < n_space; ++d) size *= sizes_of(t)[sizes_of(t).size() - 1 - d];
  return size;
}

// Runs body.operator()<C>(number of planes, result, grad) on row-major arrays of the compute type.
template <class F>
void with_planes(const Tensor& out, const Tensor& grad, size_t n_space, const F& body) {
  Dtype dtype = grad.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor g = contiguous_of(converted(grad, dtype));
  Tensor sums = make_tensor(contiguous_meta(out.sizes(), dtype));
  fill_elements(sums, 0);
  int64_t in_plane = plane_size(out, n_space), out_plane = plane_size(grad, n_space);
  auto run = [&]<class C>() {
    if (in_plane == 0 || out_plane == 0) return;
    parallel_for(0, numel_of(out) / in_plane, std::max<int64_t>(1, 16384 / out_plane),
                 [&](int64_t lo, int64_t hi) {
                   for (int64_t p = lo; p < hi; ++p)
                     body(p, data_of<C>(sums) + p * in_plane, data_of<C>(g) + p * out_plane);
                 });
  };
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  copy_elements(out, sums);
}

// ---- by recorded indices

constexpr int64_t in_padding = -1;  // the index of a window without elements

// Each gradient goes to the element of its plane that the index names; those of index `skipped`
// go nowhere.
void add_at_indices(const char* op, const Tensor& out, const Tensor& grad, const Tensor& indices,
                    size_t n_space, std::optional<int64_t> skipped = std::nullopt) {
  Tensor places = contiguous_of(converted(indices, Dtype::i64));
  int64_t n = plane_size(grad, n_space), limit = plane_size(out, n_space);
  with_planes(out, grad, n_space, [&](int64_t plane, auto* to, const auto* from) {
    const int64_t* at = data_of<int64_t>(places) + plane * n;
    for (int64_t i = 0; i < n; ++i) {
      if (at[i] == skipped) continue;
      require(at[i] >= 0 && at[i] < limit,
              "{}: index {} is out of range for a plane of {} elements", op, at[i], limit);
      to[at[i]] += from[i];
    }
  });
}

TensorMeta by_indices_meta(std::string_view op, const Tensor& grad, const Tensor& self,
                           const Tensor& indices, size_t n) {
  check_planes(op, grad, self, n);
  require_shape(op, "indices", indices, grad.sizes());
  return like_input(self);
}

template <size_t n>
constexpr auto max_backward_meta = [](const Tensor& grad, const Tensor& self, IntList kernel,
                                      IntList stride, IntList padding, IntList dilation,
                                      bool ceil_mode, const Tensor& indices) {
  check_pooled("max_pool backward", grad, self,
               pool_settings(n, kernel, stride, padding, dilation, ceil_mode));
  return by_indices_meta("max_pool backward", grad, self, indices, n);
};
template <size_t n>
constexpr auto max_backward = [](Tensor& out, const Tensor& grad, const Tensor&, IntList, IntList,
                                 IntList, IntList, bool, const Tensor& indices) {
  add_at_indices("max_pool backward", out, grad, indices, n, in_padding);
};
// The derivative by the gradient.
template <int64_t n>
Tensor max_backward_vjp(const Tensor& g, const Tensor& indices) {
  return pooled_gather(g, indices.clamp_min(0), n).masked_fill(indices.eq(in_padding), 0);
}
template <size_t n>
constexpr auto adaptive_max_backward_meta =
    [](const Tensor& grad, const Tensor& self, const Tensor& indices) {
      return by_indices_meta("adaptive_max_pool backward", grad, self, indices, n);
    };
template <size_t n>
constexpr auto adaptive_max_backward =
    [](Tensor& out, const Tensor& grad, const Tensor&, const Tensor& indices) {
      add_at_indices("adaptive_max_pool backward", out, grad, indices, n);
    };
template <size_t n>
constexpr auto fractional_backward_meta =
    [](const Tensor& grad, const Tensor& self, IntList, IntList, const Tensor& indices) {
      return by_indices_meta("fractional_max_pool backward", grad, self, indices, n);
    };
template <size_t n>
constexpr auto fractional_backward =
    [](Tensor& out, const Tensor& grad, const Tensor&, IntList, IntList, const Tensor& indices) {
      add_at_indices("fractional_max_pool backward", out, grad, indices, n);
    };

// ---- means

template <class C>
void spread_window(C* plane, const std::array<int64_t, 3>& sizes, C value, const Window& d,
                   const Window& h, const Window& w) {
  for (int64_t i = 0; i < d.count; ++i)
    for (int64_t j = 0; j < h.count; ++j) {
      C* row = plane + ((d.start + i) * sizes[1] + h.start + j) * sizes[2] + w.start;
      for (int64_t k = 0; k < w.count; ++k) row[k] += value;
    }
}

// The gradient of each window is shared out evenly among the elements that it covers.
void spread_over_windows(const Tensor& out, const Tensor& grad, const Windows& windows,
                         size_t n_space, int64_t divisor) {
  std::array<int64_t, 3> sizes{1, 1, 1};
  for (size_t d = 0; d < n_space; ++d) sizes[2 - d] = sizes_of(out)[sizes_of(out).size() - 1 - d];
  with_planes(out, grad, n_space, [&](int64_t, auto* to, const auto* from) {
    using C = std::remove_reference_t<decltype(*to)>;
    for (const Window& d : windows[0])
      for (const Window& h : windows[1])
        for (const Window& w : windows[2]) {
          int64_t by = divisor ? divisor : d.divisor * h.divisor * w.divisor;
          spread_window(to, sizes, *from++ / static_cast<C>(by), d, h, w);
        }
  });
}

template <size_t n>
constexpr auto avg_backward_meta = [](const Tensor& grad, const Tensor& self, IntList kernel,
                                      IntList stride, IntList padding, bool ceil_mode, bool,
                                      std::optional<int64_t> divisor) {
  require(!divisor || *divisor != 0, "avg_pool backward: divisor_override must not be 0");
  check_pooled("avg_pool backward", grad, self,
               pool_settings(n, kernel, stride, padding, {1}, ceil_mode));
  return like_input(self);
};
template <size_t n>
constexpr auto avg_backward = [](Tensor& out, const Tensor& grad, const Tensor&, IntList kernel,
                                 IntList stride, IntList padding, bool ceil_mode, bool with_padding,
                                 std::optional<int64_t> divisor) {
  PoolSettings s = pool_settings(n, kernel, stride, padding, {1}, ceil_mode);
  spread_over_windows(out, grad, windows_of(grad, out, s, with_padding), n, divisor.value_or(0));
};

template <size_t n>
constexpr auto adaptive_meta = [](const Tensor& grad, const Tensor& self) {
  check_planes("adaptive_avg_pool backward", grad, self, n);
  return like_input(self);
};
template <size_t n>
constexpr auto adaptive_backward = [](Tensor& out, const Tensor& grad, const Tensor&) {
  Windows windows = one_window_each();
  size_t rank = static_cast<size_t>(out.dim());
  for (size_t d = 0; d < n; ++d)
    windows[3 - n + d] =
        adaptive_windows(sizes_of(out)[rank - n + d], sizes_of(grad)[rank - n + d]);
  spread_over_windows(out, grad, windows, n, 0);
};

// ---- max_unpool: elements at their indices, zeros between

TensorMeta unpool_meta(const Tensor& self, const Tensor& indices, SymIntList size, size_t n) {
  require_shape("max_unpool", "indices", indices, self.sizes());
  auto rank = static_cast<size_t>(self.dim());
  require(size.size() == n && (rank == n + 1 || rank == n + 2),
          "max_unpool: an input of {} or {} dimensions and {} sizes are expected, found {} and {}",
          n + 1, n + 2, n, self.sizes(), size);
  Dims sizes = dims_of(self.sizes());
  for (size_t d = 0; d < n; ++d) sizes[rank - n + d] = size[d];
  Dims strides = strides_for(list_of(sizes), suggest_memory_format(self));
  return {self.dtype(), self.device(), std::move(sizes), std::move(strides)};
}

void unpool_kernel(const Tensor& out, const Tensor& self, const Tensor& indices, size_t n_space) {
  Tensor places = contiguous_of(converted(indices, Dtype::i64)), in = contiguous_of(self);
  Tensor dense = make_tensor(contiguous_meta(out.sizes(), out.dtype()));
  fill_elements(dense, 0);
  int64_t n = plane_size(in, n_space), limit = plane_size(out, n_space);
  dispatch_itemsize(in.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < numel_of(in); ++i) {
      int64_t at = data_of<int64_t>(places)[i];
      require(at >= 0 && at < limit,
              "max_unpool: index {} is out of range for an output plane of {} elements", at, limit);
      data_of<T>(dense)[i / n * limit + at] = data_of<T>(in)[i];
    }
  });
  copy_elements(out, dense);
}

// ---- windows at random places

template <class C>
int64_t random_start(C sample, int64_t i, int64_t in, int64_t out, int64_t kernel) {
  if (i == out - 1) return in - kernel;
  C step = static_cast<C>(in - kernel) / static_cast<C>(out - 1);
  return static_cast<int64_t>((static_cast<C>(i) + sample) * step) -
         static_cast<int64_t>(sample * step);
}

template <class C>
Windows random_windows(const Tensor& self, IntList kernel, IntList size, const C* samples,
                       size_t n) {
  Windows windows = one_window_each();
  for (size_t d = 0; d < n; ++d) {
    int64_t in = sizes_of(self)[sizes_of(self).size() - n + d];
    C sample = samples[n == 2 ? 1 - d : d];  // of two, the first is for the width
    auto& list = windows[3 - n + d];
    list.clear();
    for (int64_t i = 0; i < size[d]; ++i) {
      int64_t start = random_start(sample, i, in, size[d], kernel[d]);
      require(start >= 0 && start <= in - kernel[d],
              "fractional_max_pool: random_samples should be between 0 and 1; {} places a window "
              "outside of the input",
              static_cast<double>(sample));
      list.push_back({start, kernel[d], 1, kernel[d]});
    }
  }
  return windows;
}

template <size_t n>
std::array<TensorMeta, 2> fractional_metas(const Tensor& self, IntList kernel, IntList size,
                                           const Tensor& samples) {
  auto rank = static_cast<size_t>(self.dim());
  require((rank == n + 1 || rank == n + 2) && kernel.size() == n && size.size() == n,
          "fractional_max_pool: input, kernel_size and output_size do not fit: {}, {} and {}",
          self.sizes(), kernel, size);
  Dims sizes = dims_of(self.sizes());
  for (size_t d = 0; d < n; ++d) {
    SymInt in = std::exchange(sizes[rank - n + d], SymInt(size[d]));
    bool fits = kernel[d] > 0 && size[d] > 0 && expect_true(in - size[d] >= kernel[d] - 1);
    require(fits,
            "fractional_max_pool: {} windows of kernel_size {} do not fit into an input of shape "
            "{}; both must be positive, and output_size + kernel_size - 1 at most the input's size",
            size, kernel, self.sizes());
  }
  SymInt batch = rank == n + 2 ? self.size(0) : SymInt(1);
  require_shape("fractional_max_pool", "random_samples", samples,
                {batch, self.sizes()[rank - n - 1], SymInt(n)});
  TensorMeta out = contiguous_meta(list_of(sizes), self.dtype(), self.device()), indices = out;
  indices.dtype = Dtype::i64;
  return {std::move(out), std::move(indices)};
}

template <size_t n>
void fractional_kernel(Tensor& out, Tensor& indices, const Tensor& self, IntList kernel,
                       IntList size, const Tensor& samples) {
  if (numel_of(out) == 0) return;
  Dtype dtype = self.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor shares = contiguous_of(converted(samples, dtype)), in = contiguous_of(self);
  int64_t planes = numel_of(out) / plane_size(out, n);
  auto whole = static_cast<size_t>(in.dim()) - n;
  auto plane_of = [&](const Tensor& t, int64_t p) {
    Dims sizes = dims_of(t.sizes().slice(whole));
    return make_view(t, list_of(sizes), list_of(contiguous_strides(list_of(sizes))),
                     p * plane_size(t, n));
  };
  for (int64_t p = 0; p < planes; ++p) {
    auto at = p * static_cast<int64_t>(n);
    Windows windows = dtype == Dtype::f64
                          ? random_windows(in, kernel, size, data_of<double>(shares) + at, n)
                          : random_windows(in, kernel, size, data_of<float>(shares) + at, n);
    max_over_windows(plane_of(out, p), plane_of(indices, p), plane_of(in, p), windows, n);
  }
}

}  // namespace

static constexpr OpDef nn_pool_backward_rows[] = {
    {.schema = "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] "
               "kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, "
               "Tensor indices) -> Tensor",
     .core = true,
     .meta = max_backward_meta<2>,
     .eager = max_backward<2>,
     .vjp = {{"grad_output", "grad, indices", fn<max_backward_vjp<2>>},
             {"self", "grad, self.meta", zero_gradient}}},
    {.schema = "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] "
               "kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, "
               "Tensor indices) -> Tensor",
     .meta = max_backward_meta<3>,
     .eager = max_backward<3>,
     .vjp = {{"grad_output", "grad, indices", fn<max_backward_vjp<3>>},
             {"self", "grad, self.meta", zero_gradient}}},
    {.schema = "adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> "
               "Tensor",
     .meta = adaptive_max_backward_meta<2>,
     .eager = adaptive_max_backward<2>,
     .vjp = {{"grad_output", "grad, indices",
              [](const Tensor& g, const Tensor& indices) { return pooled_gather(g, indices, 2); }},
             {"self", "grad", no_gradient}}},
    {.schema = "adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> "
               "Tensor",
     .meta = adaptive_max_backward_meta<3>,
     .eager = adaptive_max_backward<3>,
     .vjp = {{"grad_output", "grad, indices",
              [](const Tensor& g, const Tensor& indices) { return pooled_gather(g, indices, 3); }},
             {"self", "grad", no_gradient}}},
    {.schema = "avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] "
               "stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? "
               "divisor_override) -> Tensor",
     .core = true,
     .meta = avg_backward_meta<2>,
     .eager = avg_backward<2>,
     .vjp = {{"grad_output",
              "grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override",
              fn<avg_pool2d>},
             {"self", "grad", no_gradient}}},
    {.schema = "avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] "
               "stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? "
               "divisor_override) -> Tensor",
     .meta = avg_backward_meta<3>,
     .eager = avg_backward<3>,
     .vjp = {{"grad_output",
              "grad, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override",
              fn<avg_pool3d>},
             {"self", "grad", no_gradient}}},
    {.schema = "_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
     .core = true,
     .meta = adaptive_meta<2>,
     .eager = adaptive_backward<2>,
     .vjp = {{"grad_output", "grad, grad_output.sizes",
              [](const Tensor& g, SymIntList sizes) {
                return _adaptive_avg_pool2d(g, {sizes[sizes.size() - 2], sizes[sizes.size() - 1]});
              }},
             {"self", "grad", no_gradient}}},
    {.schema = "_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor",
     .meta = adaptive_meta<3>,
     .eager = adaptive_backward<3>,
     .vjp = {{"grad_output", "grad, grad_output.sizes",
              [](const Tensor& g, SymIntList sizes) {
                return _adaptive_avg_pool3d(
                    g, {sizes[sizes.size() - 3], sizes[sizes.size() - 2], sizes[sizes.size() - 1]});
              }},
             {"self", "grad", no_gradient}}},
    {.schema = "max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
     .meta = [](const Tensor& self, const Tensor& indices,
                SymIntList size) { return unpool_meta(self, indices, size, 2); },
     .eager = [](Tensor& out, const Tensor& self, const Tensor& indices,
                 SymIntList) { unpool_kernel(out, self, indices, 2); },
     .vjp = {{"self", "grad, indices",
              [](const Tensor& g, const Tensor& indices) { return pooled_gather(g, indices, 2); }}},
     .linear = "self",
     .autocast = Autocast::fp32},
    {.schema = "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, "
               "int[3] padding) -> Tensor",
     .meta = [](const Tensor& self, const Tensor& indices, SymIntList size, IntList,
                IntList) { return unpool_meta(self, indices, size, 3); },
     .eager = [](Tensor& out, const Tensor& self, const Tensor& indices, SymIntList, IntList,
                 IntList) { unpool_kernel(out, self, indices, 3); },
     .vjp = {{"self", "grad, indices",
              [](const Tensor& g, const Tensor& indices) { return pooled_gather(g, indices, 3); }}},
     .linear = "self",
     .autocast = Autocast::fp32},
    {.schema = "fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor "
               "random_samples) -> (Tensor, Tensor)",
     .meta = fn<fractional_metas<2>>,
     .eager = fn<fractional_kernel<2>>,
     .vjp = {{"self", "grad, self, kernel_size, output_size, result1",
              fn<fractional_max_pool2d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor "
               "random_samples) -> (Tensor, Tensor)",
     .meta = fn<fractional_metas<3>>,
     .eager = fn<fractional_kernel<3>>,
     .vjp = {{"self", "grad, self, kernel_size, output_size, result1",
              fn<fractional_max_pool3d_backward>}},
     .autocast = Autocast::fp32},
    {.schema = "fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] "
               "kernel_size, int[2] output_size, Tensor indices) -> Tensor",
     .meta = fractional_backward_meta<2>,
     .eager = fractional_backward<2>,
     .vjp = {{"grad_output", "grad, indices",
              [](const Tensor& g, const Tensor& indices) { return pooled_gather(g, indices, 2); }},
             {"self", "grad", no_gradient}}},
    {.schema = "fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] "
               "kernel_size, int[3] output_size, Tensor indices) -> Tensor",
     .meta = fractional_backward_meta<3>,
     .eager = fractional_backward<3>,
     .vjp = {{"grad_output", "grad, indices",
              [](const Tensor& g, const Tensor& indices) { return pooled_gather(g, indices, 3); }},
             {"self", "grad", no_gradient}}},
};

extern constinit const OpFamily op_family_nn_pool_backward{nn_pool_backward_rows};

}  // namespace tenon::ops
