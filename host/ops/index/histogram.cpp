// Counts by intervals: histc and histogram.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>

namespace tenon::ops {

namespace {

struct Interval {
  double low, high;
};

// Equal ends mean the least and the largest value; where these are one, `room` to both sides.
Interval interval_of(const char* op, const std::vector<double>& values, double low, double high,
                     double room) {
  if (low == high && !values.empty()) {
    auto [least, largest] = std::minmax_element(values.begin(), values.end());
    low = *least, high = *largest;
  }
  if (low == high) low -= room, high += room;
  require(std::isfinite(low) && std::isfinite(high), "{}: the range {} to {} must be finite", op,
          low, high);
  require(low < high, "{}: the range {} to {} is empty", op, low, high);
  return {low, high};
}

std::vector<double> values_of(const Tensor& t) {
  Tensor wide = contiguous_of(converted(t, Dtype::f64));
  return {data_of<double>(wide), data_of<double>(wide) + numel_of(wide)};
}

// The number of the equal interval that holds x, or -1; the last one includes its end.
int64_t bin_of(double x, Interval range, int64_t bins) {
  if (!(x >= range.low && x <= range.high)) return -1;
  auto at =
      static_cast<int64_t>((x - range.low) * static_cast<double>(bins) / (range.high - range.low));
  return std::min(at, bins - 1);
}

TensorMeta histc_meta(const Tensor& self, int64_t bins, Number, Number) {
  require(bins > 0, "histc: bins must be positive, found {}", bins);
  return contiguous_meta({SymInt(bins)}, self.dtype(), self.device());
}

void histc_kernel(Tensor& out, const Tensor& self, int64_t bins, Number min, Number max) {
  std::vector<double> values = values_of(self);
  Interval range = interval_of("histc", values, min.to_double(), max.to_double(), 1.0);
  Tensor counts = make_tensor(IntList{bins}, Dtype::i64);
  fill_elements(counts, 0);
  for (double x : values)
    if (int64_t at = bin_of(x, range, bins); at >= 0) ++data_of<int64_t>(counts)[at];
  copy_elements(out, counts);
}

// ---- histogram

std::array<TensorMeta, 2> histogram_metas(const Tensor& self, int64_t bins, const Tensor& weight) {
  require(bins > 0, "histogram: at least one bin is expected, found {}", bins);
  require(is_floating(self.dtype()), "histogram: a floating dtype is expected, found {}",
          self.dtype());
  if (weight.defined()) require_shape("histogram", "weight", weight, self.sizes());
  return {contiguous_meta({SymInt(bins)}, self.dtype(), self.device()),
          contiguous_meta({SymInt(bins + 1)}, self.dtype(), self.device())};
}

// Counts or sums of weights between neighbouring edges; density divides by total and widths.
void fill_histogram(const Tensor& out, const std::vector<double>& values,
                    const std::vector<double>& edges, const Tensor& weight, bool density) {
  std::vector<double> weights = weight.defined() ? values_of(weight) : std::vector<double>();
  std::vector<double> sums(edges.size() - 1, 0.0);
  for (size_t i = 0; i < values.size(); ++i) {
    double x = values[i];
    if (!(x >= edges.front() && x <= edges.back())) continue;
    auto above = std::upper_bound(edges.begin(), edges.end(), x) - edges.begin();
    auto at = std::min(static_cast<size_t>(above) - 1, sums.size() - 1);
    sums[at] += weights.empty() ? 1.0 : weights[i];
  }
  double total = 0;
  for (double s : sums) total += s;
  if (density)
    for (size_t i = 0; i < sums.size(); ++i) sums[i] /= total * (edges[i + 1] - edges[i]);
  for (size_t i = 0; i < sums.size(); ++i)
    store_number(data_of<char>(out) + static_cast<int64_t>(i) * itemsize(out.dtype()), out.dtype(),
                 sums[i]);
}

void histogram_kernel(Tensor& hist, Tensor& edges, const Tensor& self, int64_t bins,
                      OptDoubleList range, const Tensor& weight, bool density) {
  std::vector<double> values = values_of(self);
  require(!range || range->size() == 2, "histogram: the range must have two ends, found {}",
          range ? range->size() : 0);
  Interval ends =
      interval_of("histogram", values, range ? (*range)[0] : 0.0, range ? (*range)[1] : 0.0, 0.5);
  copy_elements(edges, linspace(ends.low, ends.high, bins + 1, edges.dtype()));
  fill_histogram(hist, values, values_of(edges), weight, density);
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
     .meta = fn<histc_meta>,
     .eager = fn<histc_kernel>},
    {.schema = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? "
               "weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
     .meta = [](const Tensor& self, int64_t bins, OptDoubleList, const Tensor& weight,
                bool) { return histogram_metas(self, bins, weight); },
     .eager = fn<histogram_kernel>},
    {.schema = "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool "
               "density=False) -> (Tensor hist, Tensor bin_edges)",
     .meta =
         [](const Tensor& self, const Tensor& bins, const Tensor& weight, bool) {
           require(bins.dim() == 1, "histogram: bins must be a vector, found shape {}",
                   bins.sizes());
           return histogram_metas(self, bins.size(0).guard_int() - 1, weight);
         },
     .eager =
         [](Tensor& hist, Tensor& edges, const Tensor& self, const Tensor& bins,
            const Tensor& weight, bool density) {
           copy_elements(edges, bins);
           fill_histogram(hist, values_of(self), values_of(edges), weight, density);
         }},
};

extern constinit const OpFamily op_family_index_histogram{rows};

}  // namespace tenon::ops
