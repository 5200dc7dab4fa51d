#include "regions.h"

#include <algorithm>
#include <numeric>

namespace inductor {

using loopir::Access;
using loopir::Expressions;
using loopir::Id;
using loopir::Item;
using loopir::Kernel;
using loopir::none;
using loopir::Product;
using loopir::View;

namespace {

/// One access of an item. With a stride, row r touches only [r * stride, (r + 1) * stride).
struct RowAccess {
  Id buffer;
  std::optional<int64_t> stride;
  bool writes;
};

/// An item as rows.
struct RowItem {
  std::vector<RowAccess> accesses;
  int64_t granule = 1, units = 0;  // rows that begin at a unit, and the units of so many
};

class RegionFinder {
 public:
  explicit RegionFinder(const RegionRequest& request)
      : request_(request), x_(request.program.expressions) {}

  std::vector<Region> run() {
    std::vector<Region> out;
    for (size_t first = 0; first < request_.items.size();) {
      std::optional<Region> found = grow(first);
      first = found ? found->last + 1 : first + 1;
      if (found) out.push_back(std::move(*found));
    }
    return out;
  }

 private:
  bool is_product(size_t i) const {
    return std::holds_alternative<Product>(request_.items[i]) && request_.product_runs_by_rows(i);
  }
  bool can_join(size_t i) const {
    return request_.is_prepacked[i] || std::holds_alternative<Kernel>(request_.items[i]) ||
           is_product(i);
  }

  // The longest region from `first` on.
  std::optional<Region> grow(size_t first) {
    if (request_.is_prepacked[first]) return std::nullopt;
    size_t product = first;
    while (product < request_.items.size() && can_join(product) &&
           (request_.is_prepacked[product] || !is_product(product)))
      ++product;
    if (product == request_.items.size() || !can_join(product)) return std::nullopt;
    Region out{first, first, std::get<Product>(request_.items[product]).result.sizes[0], 1, {}};
    std::vector<RowAccess> seen;
    size_t members = 0;
    for (size_t i = first; i < request_.items.size() && can_join(i); ++i) {
      if (request_.is_prepacked[i]) {
        out.units.push_back(0);
        continue;
      }
      std::optional<RowItem> item = as_rows(i, out.rows);
      if (!item || !agrees(*item, seen) || std::lcm(out.granule, item->granule) > most_granule)
        break;
      seen.insert(seen.end(), item->accesses.begin(), item->accesses.end());
      out.granule = std::lcm(out.granule, item->granule);
      granules_.resize(i + 1);
      granules_[i] = item->granule;
      out.units.push_back(item->units);
      out.last = i;
      ++members;
    }
    if (members < 2 || out.last < product) return std::nullopt;
    out.units.resize(out.last - first + 1);
    for (size_t i = first; i <= out.last; ++i)
      if (int64_t& units = out.units[i - first]) units *= out.granule / granules_[i];
    return out;
  }

  // What the region writes is accessed alike by all.
  static bool agrees(const RowItem& item, const std::vector<RowAccess>& seen) {
    for (const RowAccess& a : item.accesses)
      for (const RowAccess& b : seen)
        if (a.buffer == b.buffer && (a.writes || b.writes) && (!a.stride || a.stride != b.stride))
          return false;
    return true;
  }

  std::optional<RowItem> as_rows(size_t i, Id rows) {
    if (auto* product = std::get_if<Product>(&request_.items[i])) return as_rows(*product, rows);
    return as_rows(request_.nests[i], request_.kernels[i], rows);
  }

  std::optional<RowItem> as_rows(const Product& p, Id rows) {
    if (p.result.sizes[0] != rows) return std::nullopt;
    RowItem out;
    auto whole = [&](const View& v) { out.accesses.push_back({v.buffer, std::nullopt, false}); };
    out.accesses.push_back({p.left.buffer, row_stride(p.left), false});
    whole(p.right);
    if (p.bias) whole(*p.bias);
    for (const loopir::EpilogueOp& op : p.epilogue)
      if (op.kind == loopir::EpilogueOp::Kind::add)
        out.accesses.push_back({op.operand.buffer, row_stride(op.operand), false});
    out.accesses.push_back({p.result.buffer, row_stride(p.result), true});
    return out;
  }
  // Of a matrix whose rows do not overlap.
  std::optional<int64_t> row_stride(const View& v) const {
    auto offset = x_.number_of(v.offset), row = x_.number_of(v.strides[0]);
    auto column = x_.number_of(v.strides[1]), columns = x_.number_of(v.sizes[1]);
    if (!offset || !row || !column || !columns || *column != 1) return std::nullopt;
    if (*offset < 0 || *offset + *columns > *row) return std::nullopt;
    return row;
  }

  std::optional<RowItem> as_rows(const loopir::Nest& nest, const KernelInterface& kernel, Id rows) {
    if (nest.kernel.outer.empty()) return std::nullopt;
    Id slowest = nest.kernel.outer.front();
    std::optional<int64_t> steps = quotient(x_.extent_of(slowest), rows);  // of `slowest`, a row
    if (!steps) return std::nullopt;
    RowItem out;
    if (nest.lanes == slowest) {
      out.granule =
          static_cast<int64_t>(kernel.width) / std::gcd(static_cast<int64_t>(kernel.width), *steps);
      out.units = out.granule * *steps / kernel.width;
    } else {
      std::optional<int64_t> units = quotient(kernel.units, rows);
      if (!units) return std::nullopt;
      out.units = *units;
    }
    auto read = [&](const loopir::ValueNode& load) {
      add(out, load.a, load.b, slowest, *steps, false);
    };
    for (const loopir::Stage& stage : nest.kernel.stages) {
      loopir::for_each_extent_load(x_, stage.inner, read);
      for (const loopir::Statement& s : stage.statements) {
        loopir::for_each_load(x_, s.value, read);
        if (s.buffer == none) continue;
        add(out, s.buffer, s.index, slowest, *steps, true);
        loopir::for_each_index_load(x_, s.index, read);
      }
    }
    return out;
  }
  std::optional<int64_t> quotient(Id a, Id b) {
    auto n = x_.number_of(x_.floordiv(a, b));
    return n && *n > 0 && x_.multiply(x_.constant(*n), b) == a ? n : std::nullopt;
  }
  void add(RowItem& item, Id buffer, Id index, Id slowest, int64_t steps, bool writes) {
    if (request_.program.buffers[buffer].place == loopir::Buffer::Place::scratch) return;
    std::optional<int64_t> stride;
    if (std::optional<Id> c = x_.coefficient(index, slowest))
      if (auto step = x_.number_of(*c); step && *step > 0) {
        loopir::Range rest = x_.range(x_.substitute_index(index, {{slowest, x_.constant(0)}}));
        if (rest.lower >= 0 && rest.upper < *step) stride = *step * steps;
      }
    item.accesses.push_back({buffer, stride, writes});
  }

  static constexpr int64_t most_granule = 16;
  const RegionRequest& request_;
  Expressions& x_;
  std::vector<int64_t> granules_;  // by item
};

}  // namespace

std::vector<Region> find_regions(const RegionRequest& request) {
  return RegionFinder(request).run();
}

std::vector<size_t> numbers_of_steps(size_t n, const std::vector<Region>& regions) {
  std::vector<size_t> out;
  size_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    bool continues = next < regions.size() && i > regions[next].first && i <= regions[next].last;
    out.push_back(i == 0 ? 0 : out.back() + !continues);
    if (next < regions.size() && i == regions[next].last) ++next;
  }
  return out;
}

std::vector<Access> steps_of(const std::vector<Access>& items, const std::vector<Region>& regions) {
  std::vector<size_t> steps = numbers_of_steps(items.size(), regions);
  std::vector<Access> out(items.empty() ? 0 : steps.back() + 1);
  for (size_t i = 0; i < items.size(); ++i) {
    Access& step = out[steps[i]];
    step.reads.insert(step.reads.end(), items[i].reads.begin(), items[i].reads.end());
    step.writes.insert(step.writes.end(), items[i].writes.begin(), items[i].writes.end());
  }
  return out;
}

}  // namespace inductor
