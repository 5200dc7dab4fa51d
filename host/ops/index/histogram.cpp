// Counts by intervals: histc, histogram and, of points in several dimensions, histogramdd.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/create.h>
#include <tenon/ops/index.h>

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

TensorMeta histc_meta(const Tensor& self, int64_t bins, Number min, Number max) {
  require_real("histc", self.dtype());
  require(bins > 0, "histc: bins must be positive, found {}", bins);
  bool is_known = !min.is_symbolic() && !max.is_symbolic();
  if (is_known && min.to_double() != max.to_double())
    interval_of("histc", {}, min.to_double(), max.to_double(), 1.0);
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

using Edges = std::vector<double>;

// The number of the bin between neighbouring edges that holds x, or -1; the last one includes its
// end.
int64_t bin_between(double x, const Edges& edges) {
  if (!(x >= edges.front() && x <= edges.back())) return -1;
  auto above = std::upper_bound(edges.begin(), edges.end(), x) - edges.begin();
  return std::min<int64_t>(above, std::ssize(edges) - 1) - 1;
}

// The position of the cell that holds a point, with the last dimension fastest, or -1.
int64_t cell_of(const double* point, const std::vector<Edges>& edges) {
  int64_t cell = 0;
  for (size_t d = 0; d < edges.size(); ++d) {
    int64_t bin = bin_between(point[d], edges[d]);
    if (bin < 0) return -1;
    cell = cell * (std::ssize(edges[d]) - 1) + bin;
  }
  return cell;
}

double volume_of(int64_t cell, const std::vector<Edges>& edges) {
  double volume = 1;
  for (size_t d = edges.size(); d-- > 0;) {
    int64_t bins = std::ssize(edges[d]) - 1;
    auto at = static_cast<size_t>(cell % bins);
    volume *= edges[d][at + 1] - edges[d][at];
    cell /= bins;
  }
  return volume;
}

// Counts or sums of weights of points by cells; density divides by the total and the volumes.
void fill_histogram(const Tensor& out, const std::vector<double>& points,
                    const std::vector<Edges>& edges, const Tensor& weight, bool density) {
  std::vector<double> weights = weight.defined() ? values_of(weight) : std::vector<double>();
  std::vector<double> sums(static_cast<size_t>(numel_of(out)), 0.0);
  for (size_t i = 0; i < points.size() / edges.size(); ++i)
    if (int64_t cell = cell_of(&points[i * edges.size()], edges); cell >= 0)
      sums[static_cast<size_t>(cell)] += weights.empty() ? 1.0 : weights[i];
  double total = 0;
  for (double s : sums) total += s;
  for (int64_t i = 0; i < std::ssize(sums); ++i) {
    double sum = sums[static_cast<size_t>(i)];
    store_number(data_of<char>(out) + i * itemsize(out.dtype()), out.dtype(),
                 density ? sum / (total * volume_of(i, edges)) : sum);
  }
}

void histogram_kernel(Tensor& hist, Tensor& edges, const Tensor& self, int64_t bins,
                      OptDoubleList range, const Tensor& weight, bool density) {
  std::vector<double> values = values_of(self);
  require(!range || range->size() == 2, "histogram: the range must have two ends, found {}",
          range ? range->size() : 0);
  Interval ends =
      interval_of("histogram", values, range ? (*range)[0] : 0.0, range ? (*range)[1] : 0.0, 0.5);
  copy_elements(edges, linspace(ends.low, ends.high, bins + 1, edges.dtype()));
  fill_histogram(hist, values, {values_of(edges)}, weight, density);
}

// ---- histograms of points: the last dimension holds their coordinates

int64_t coordinates_in(const Tensor& self) {
  require(self.dim() >= 2 && is_floating(self.dtype()),
          "histogramdd: points [..., N] of a floating dtype are expected, found {} of shape {}",
          self.dtype(), self.sizes());
  return self.size(-1).guard_int();
}

void check_coordinates(const Tensor& self, size_t n) {
  require(n > 0 && static_cast<int64_t>(n) == coordinates_in(self),
          "histogramdd: bins for each coordinate of points of shape {} are expected, found {}",
          self.sizes(), n);
}

TensorMeta cells_meta(const Tensor& self, const std::vector<int64_t>& bins, const Tensor& weight) {
  check_coordinates(self, bins.size());
  for (int64_t n : bins) require(n > 0, "histogramdd: at least one bin is expected, found {}", n);
  if (weight.defined()) require_shape("histogramdd", "weight", weight, sizes_before(self, 1));
  return contiguous_meta(IntList(bins), self.dtype(), self.device());
}

std::vector<int64_t> listed(IntList bins) { return {bins.begin(), bins.end()}; }

std::vector<int64_t> bins_between(TensorList edges) {
  std::vector<int64_t> bins;
  for (const Tensor& e : edges) {
    require(e.dim() == 1, "histogramdd: bins must be vectors, found shape {}", e.sizes());
    bins.push_back(e.size(0).guard_int() - 1);
  }
  return bins;
}

// The least and the largest of one coordinate, or the range that was given; never empty.
Interval extent_of(const std::vector<double>& points, size_t n, size_t d, OptDoubleList range) {
  Interval extent{0, 0};
  if (range) {
    extent = {(*range)[2 * d], (*range)[2 * d + 1]};
  } else if (!points.empty()) {
    extent = {points[d], points[d]};
    for (size_t i = d; i < points.size(); i += n)
      extent = {std::min(extent.low, points[i]), std::max(extent.high, points[i])};
  }
  require(std::isfinite(extent.low) && std::isfinite(extent.high) && extent.low <= extent.high,
          "histogramdd: the range {} to {} of coordinate {} must be finite and rise", extent.low,
          extent.high, d);
  if (extent.low == extent.high) extent.low -= 0.5, extent.high += 0.5;
  return extent;
}

std::vector<Tensor> even_edges(const Tensor& self, IntList bins, OptDoubleList range) {
  require(!range || range->size() == 2 * bins.size(),
          "histogramdd: the range must have two ends for each of {} coordinates, found {}",
          bins.size(), range ? range->size() : 0);
  std::vector<double> points = values_of(self);
  std::vector<Tensor> edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    Interval extent = extent_of(points, bins.size(), d, range);
    edges.push_back(linspace(extent.low, extent.high, bins[d] + 1, self.dtype()));
  }
  return edges;
}

void fill_cells(Tensor& out, const Tensor& self, TensorList edges, const Tensor& weight,
                bool density) {
  std::vector<Edges> values;
  for (const Tensor& e : edges) values.push_back(values_of(e));
  fill_histogram(out, values_of(self), values, weight, density);
}

using CellsAndEdges = std::tuple<Tensor, std::vector<Tensor>>;

CellsAndEdges even_cells(const Tensor& self, IntList bins, OptDoubleList range,
                         const Tensor& weight, bool density) {
  return {_histogramdd_from_bin_cts(self, bins, range, weight, density),
          _histogramdd_bin_edges(self, bins, range, weight, density)};
}

}  // namespace

static constexpr OpDef index_histogram_rows[] = {
    {.schema = "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
     .meta = fn<histc_meta>,
     .eager = fn<histc_kernel>,
     .vjp = nondiff},
    {.schema = "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? "
               "weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
     .meta = [](const Tensor& self, int64_t bins, OptDoubleList, const Tensor& weight,
                bool) { return histogram_metas(self, bins, weight); },
     .eager = fn<histogram_kernel>,
     .vjp = nondiff},
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
           fill_histogram(hist, values_of(self), {values_of(edges)}, weight, density);
         },
     .vjp = nondiff},
    {.schema = "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? "
               "weight=None, bool density=False) -> Tensor[]",
     .meta =
         [](const Tensor& self, IntList bins, OptDoubleList, const Tensor& weight, bool) {
           cells_meta(self, listed(bins), weight);
           std::vector<TensorMeta> metas;
           for (int64_t n : bins)
             metas.push_back(contiguous_meta({SymInt(n + 1)}, self.dtype(), self.device()));
           return metas;
         },
     .eager =
         [](const Tensor& self, IntList bins, OptDoubleList range, const Tensor& weight, bool) {
           cells_meta(self, listed(bins), weight);
           return even_edges(self, bins, range);
         },
     .vjp = nondiff},
    {.schema = "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, "
               "Tensor? weight=None, bool density=False) -> Tensor",
     .meta = [](const Tensor& self, IntList bins, OptDoubleList, const Tensor& weight,
                bool) { return cells_meta(self, listed(bins), weight); },
     .eager =
         [](Tensor& out, const Tensor& self, IntList bins, OptDoubleList range,
            const Tensor& weight, bool density) {
           fill_cells(out, self, even_edges(self, bins, range), weight, density);
         },
     .vjp = nondiff},
    {.schema = "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, "
               "bool density=False) -> Tensor",
     .meta = [](const Tensor& self, TensorList bins, const Tensor& weight,
                bool) { return cells_meta(self, bins_between(bins), weight); },
     .eager = fn<fill_cells>,
     .vjp = nondiff},
    {.schema = "histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, "
               "bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
     .decomp = fn<even_cells>},
    {.schema = "histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? "
               "weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
     .decomp =
         [](const Tensor& self, int64_t bins, OptDoubleList range, const Tensor& weight,
            bool density) {
           std::vector<int64_t> each(static_cast<size_t>(coordinates_in(self)), bins);
           return even_cells(self, each, range, weight, density);
         }},
    {.schema = "histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, "
               "Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
     .decomp =
         [](const Tensor& self, TensorList bins, OptDoubleList, const Tensor& weight,
            bool density) {
           return CellsAndEdges(_histogramdd_from_bin_tensors(self, bins, weight, density),
                                std::vector<Tensor>(bins.begin(), bins.end()));
         }},
};

extern constinit const OpFamily op_family_index_histogram{index_histogram_rows};

}  // namespace tenon::ops
