// From a kernel to loops over vectors: which variables become one, in which order, which is
// vectorised.
//
// Model: memory wants unit stride in the innermost loop and few, long loops. Method: variables are
// ordered by their strides in stores and loads; neighbours (i, j) are one variable where every
// index of the statements that they serve is a line in both and i's step is j's step times j's
// extent. The vectorised variable is the one with most accesses of unit stride (stores count twice,
// and what runs once a row counts by its share of the longest stage), weighted by how well it fills
// vectors: an inner one (rows: lanes are folded at the end of the row) or an outer one (columns: each
// lane is a row of its own). Points of a scatter's inner variables may write one element, so those
// are neither reordered nor vectorised.
#include "kernel.h"

#include <algorithm>
#include <set>

namespace loopir {

namespace {

struct AccessIndex {
  Id index;
  int weight;
  double share = 1;  // how often it is made, an element of the longest stage being 1
};

class NestMaker {
 public:
  NestMaker(Program& program, Kernel kernel, int64_t lanes)
      : x_(program.expressions), kernel_(std::move(kernel)), vector_lanes_(lanes) {}

  Nest run() {
    split_repeats();
    sort(kernel_.outer, nullptr);
    merge(kernel_.outer, nullptr);
    for (Stage& stage : kernel_.stages) {
      sort(stage.inner, &stage);
      merge(stage.inner, &stage);
    }
    Nest out;
    choose(out);
    out.rows = x_.constant(1);
    for (Id v : kernel_.outer)
      if (v != out.lanes) out.rows = x_.multiply(out.rows, x_.extent_of(v));
    out.kernel = std::move(kernel_);
    return out;
  }

 private:
  /// Every index of a stage (or of all): of loads, of stores, and those that are values.
  std::vector<AccessIndex> indices(const Stage* only) {
    std::vector<AccessIndex> out;
    double most = 1;
    for (const Stage& stage : kernel_.stages) most = std::max(most, turns(stage));
    for (const Stage& stage : kernel_.stages) {
      if (only && &stage != only) continue;
      size_t before = out.size();
      for (const Statement& s : stage.statements) {
        bool stores_all = s.fold == Fold::none || s.is_scan;
        if (s.buffer != none) out.push_back({s.index, stores_all ? 2 : 0});
        if (s.position != none) out.push_back({s.position, 0});
        add_indices(s, out);
      }
      for (size_t i = before; i < out.size(); ++i) out[i].share = turns(stage, out[i].index) / most;
    }
    return out;
  }
  /// How often a stage runs for a point of the outer variables, or an access to `index` in it, which
  /// stands before the loops that it does not depend on.
  double turns(const Stage& stage, Id index = none) {
    double n = 1;
    for (Id v : stage.inner)
      if (index == none || x_.depends_on(index, v))
        n *= static_cast<double>(std::max<int64_t>(hint_of(v), 1));
    return n;
  }
  int64_t hint_of(Id variable) { return x_.hint(x_.extent_of(variable)); }
  void add_indices(const Statement& s, std::vector<AccessIndex>& out) {
    std::vector<Id> open{s.value};
    std::vector<bool> seen;
    auto open_value = [&](Id v) {
      if (v >= seen.size()) seen.resize(v + 1);
      if (!seen[v]) open.push_back(v);
      seen[v] = true;
    };
    auto open_index = [&](auto& self, Id i) -> void {
      const IndexNode& n = x_.index_at(i);
      if (n.kind == IndexKind::value) open_value(static_cast<Id>(n.number));
      for (Id o : n.operands) self(self, o);
    };
    if (s.buffer != none) open_index(open_index, s.index);
    while (!open.empty()) {
      const ValueNode n = x_.value_at(open.back());
      open.pop_back();
      Operands read = operands_of(n);
      for (Id o : read.values)
        if (o != none) open_value(o);
      if (read.index == none) continue;
      if (n.code != value_checked) out.push_back({read.index, n.code == value_load ? 1 : 0});
      open_index(open_index, read.index);
    }
  }

  /// Where a variable i stands in i % m and i / m only, as in repeated tensors, m dividing its
  /// extent, i is q m + r: then both are lines. For m that fill a vector.
  void split_repeats() {
    for (size_t k = 0; k < kernel_.outer.size(); ++k) {
      Id v = kernel_.outer[k];
      int64_t m = divisor_of(v);
      if (m < std::max<int64_t>(vector_lanes_, 4)) continue;
      Id slow = x_.variable(x_.floordiv(x_.extent_of(v), x_.constant(m)));
      Id fast = x_.variable(x_.constant(m));
      Substitution by{{v, x_.add(x_.multiply(slow, x_.constant(m)), fast)}};
      for (Stage& stage : kernel_.stages) substitute(stage, by);
      kernel_.outer[k] = slow;
      kernel_.outer.insert(kernel_.outer.begin() + static_cast<int64_t>(k) + 1, fast);
    }
  }
  /// What v is divided by wherever it is divided; 0: by nothing, by several numbers, or with a rest.
  int64_t divisor_of(Id v) {
    for (const Stage& stage : kernel_.stages)
      for (Id inner : stage.inner)
        if (x_.depends_on(x_.extent_of(inner), v)) return 0;
    std::set<int64_t> found;
    for (const AccessIndex& a : indices(nullptr)) add_divisors(a.index, v, found);
    auto extent = x_.number_of(x_.extent_of(v));
    if (found.size() != 1 || *found.begin() <= 0 || !extent) return 0;
    int64_t m = *found.begin();
    return *extent > m && *extent % m == 0 ? m : 0;  // else the faster part would be all of it
  }
  void add_divisors(Id index, Id v, std::set<int64_t>& found) {
    if (!x_.depends_on(index, v)) return;
    const IndexNode n = x_.index_at(index);
    if (n.kind == IndexKind::mod || n.kind == IndexKind::floordiv) {
      auto step = x_.coefficient(n.operands[0], v);
      bool is_line = step && x_.is(*step, 1);
      found.insert(is_line ? x_.number_of(n.operands[1]).value_or(0) : 0);
    }
    for (Id o : n.operands) add_divisors(o, v, found);
  }

  static bool is_in_order(const Stage& stage) {
    return std::any_of(stage.statements.begin(), stage.statements.end(),
                       [](const Statement& s) { return s.is_scatter; });
  }

  void sort(Ids& variables, const Stage* stage) {
    if (stage && is_in_order(*stage)) return;
    std::map<Id, int64_t> weight;
    for (const AccessIndex& a : indices(stage))
      for (Id v : variables)
        if (auto c = x_.coefficient(a.index, v))
          weight[v] = std::max(weight[v], x_.hint(*c) * (a.weight == 2 ? 4 : 1));
    std::stable_sort(variables.begin(), variables.end(),
                     [&](Id a, Id b) { return weight[a] > weight[b]; });
  }

  bool can_merge(Id i, Id j, const std::vector<AccessIndex>& all) {
    for (const Stage& stage : kernel_.stages)  // an extent that depends on them is a fold by data
      for (Id v : stage.inner)
        if (x_.depends_on(x_.extent_of(v), i) || x_.depends_on(x_.extent_of(v), j)) return false;
    for (const AccessIndex& a : all) {
      if (!x_.depends_on(a.index, i) && !x_.depends_on(a.index, j)) continue;
      auto ci = x_.coefficient(a.index, i), cj = x_.coefficient(a.index, j);
      if (!ci || !cj || *ci != x_.multiply(*cj, x_.extent_of(j))) return false;
    }
    return true;
  }

  void merge(Ids& variables, Stage* stage) {
    for (size_t n = 1; n < variables.size();) {
      Id i = variables[n - 1], j = variables[n];
      if (!can_merge(i, j, indices(stage))) {
        ++n;
        continue;
      }
      Id both = x_.variable(x_.multiply(x_.extent_of(i), x_.extent_of(j)));
      Substitution by{{i, x_.constant(0)}, {j, both}};
      for (Stage& s : kernel_.stages)
        if (!stage || &s == stage) substitute(s, by);
      variables.erase(variables.begin() + static_cast<int64_t>(n));
      variables[n - 1] = both;
      n = 1;
    }
  }
  void substitute(Stage& stage, const Substitution& by) {
    for (Statement& s : stage.statements) {
      s.value = x_.substitute(s.value, by);
      if (s.index != none) s.index = x_.substitute_index(s.index, by);
      if (s.position != none) s.position = x_.substitute_index(s.position, by);
    }
  }

  // What an access is worth by how far apart lanes lie: blocks turned around and with gaps take more
  // instructions, gathers many times as long.
  static double ease_of(std::optional<int64_t> step) {
    if (step == 1) return 1;
    if (step == -1) return 0.9;
    return step && *step >= 2 && *step <= 4 ? 0.5 : -0.5;
  }

  // Accesses of unit stride less those that would be gathers, by how full vectors are.
  double score(Id v, const std::vector<AccessIndex>& all) {
    double sum = 0;
    for (const AccessIndex& a : all) {
      if (a.weight == 0 || !x_.depends_on(a.index, v)) continue;
      auto c = x_.coefficient(a.index, v);
      sum += a.weight * ease_of(c ? x_.number_of(*c) : std::nullopt) * a.share;
    }
    int64_t n = std::max<int64_t>(hint_of(v), 1);
    int64_t filled = (n + vector_lanes_ - 1) / vector_lanes_ * vector_lanes_;
    return sum > 0 ? sum * static_cast<double>(n) / static_cast<double>(filled)
                   : sum - 1.0 / static_cast<double>(n);
  }
  Id best(const Ids& variables, const std::vector<AccessIndex>& all, double& most) {
    Id out = none;
    for (Id v : variables) {
      double s = score(v, all);
      if (out == none || s > most) out = v, most = s;
    }
    return out;
  }

  void choose(Nest& out) {
    double by_lanes = -1e9, by_rows = 0;
    bool has_inner = false;
    for (const Stage& stage : kernel_.stages) {
      out.lanes_of_stage.push_back(none);
      if (stage.inner.empty()) continue;
      has_inner = true;
      if (is_in_order(stage)) continue;
      double most = 0;
      out.lanes_of_stage.back() = best(stage.inner, indices(&stage), most);
      by_rows += most;
    }
    Id lanes = best(equal_rows(), indices(nullptr), by_lanes);
    if (lanes == none || (has_inner && by_lanes <= by_rows)) {
      for (size_t s = 0; s < kernel_.stages.size(); ++s)
        put_last(kernel_.stages[s].inner, out.lanes_of_stage[s]);
      return;
    }
    out.lanes = lanes;
    for (Id& v : out.lanes_of_stage) v = none;
    put_last(kernel_.outer, lanes);
  }
  // The outer variables over which rows are of one length: lanes run together.
  Ids equal_rows() {
    Ids out = kernel_.outer;
    for (const Stage& stage : kernel_.stages)
      for (Id inner : stage.inner)
        std::erase_if(out, [&](Id v) { return x_.depends_on(x_.extent_of(inner), v); });
    return out;
  }
  static void put_last(Ids& variables, Id v) {
    if (v == none) return;
    std::erase(variables, v);
    variables.push_back(v);
  }

  Expressions& x_;
  Kernel kernel_;
  int64_t vector_lanes_;
};

}  // namespace

Nest make_nest(Program& program, Kernel kernel, int64_t vector_lanes) {
  return NestMaker(program, std::move(kernel), vector_lanes).run();
}

}  // namespace loopir
