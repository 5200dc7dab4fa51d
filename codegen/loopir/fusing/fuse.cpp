// Fusion: which loops become one kernel.
//
// Problem: each loop alone reads and writes memory; put together, a value that the next loop needs
// is still in a register, or at least in the first-level cache.
//
// Method: greedy over pairs of groups that share a buffer, the one that saves most bytes first,
// until no pair is left. A pair is made one nest by `unify`, and is legal when
//   - no step outside lies between them (depends on one and is needed by the other),
//   - every read of what the other writes is at the index that this iteration wrote,
//   - what is folded is complete where it is read: folds run over variables that are not common,
//   - enough rows stay independent for all threads,
//   - what a scan or a scatter makes is read by nobody in the nest, a scan's variable stays one,
//     and a scatter only takes in what it stores.
// Pairs without a dependency (two reductions of one tensor) are fused when they walk what both
// read in the same way, and have rows in common or so few elements that a call less is what counts; and
// where their results are not too much to lie in memory at once.
// Of a buffer that many read (the gates of all steps of a recurrent layer), each meets its
// neighbours in the program only.
//
// Cost: pairs grow with the steps of the program, and each success makes one group less.
#include "loopir/kernel.h"
#include "step_order.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

namespace loopir {

namespace {

struct Node {
  std::optional<Group> group;  // else:
  std::optional<Step> step;
  Access access;
  uint32_t version = 0;  // of the group
};

class Fusion {
 public:
  Fusion(Program& program, const FusionOptions& options)
      : program_(program), x_(program.expressions), options_(options) {}

  Schedule run() {
    take_steps();
    while (fuse_best()) {
    }
    if (options_.joins_points) join_points(), join_small_loops();
    return finish();
  }

 private:
  struct Pair {
    int64_t bytes;
    uint32_t a, b;
    uint32_t version_a, version_b;  // of the groups that were looked at
    /// Whether the other one is to be tried first.
    bool operator<(const Pair& o) const {
      return std::tuple(bytes, o.a, o.b) < std::tuple(o.bytes, a, b);
    }
  };

  void take_steps() {
    for (Step& step : program_.steps) {
      Node n;
      n.access = access_of(program_, step);
      if (auto* loop = std::get_if<Loop>(&step))
        n.group = Group{{std::move(*loop)}};
      else
        n.step = std::move(step);
      nodes_.push_back(std::move(n));
    }
    program_.steps.clear();
    writers_.assign(program_.buffers.size(), 0);
    for (const Node& n : nodes_)
      for (Id b : n.access.writes) ++writers_[b];
    order_.emplace(accesses(), program_.buffers.size(), effects());
    touching_.resize(program_.buffers.size());
    for (uint32_t i = 0; i < nodes_.size(); ++i)
      for (const Ids* list : {&nodes_[i].access.writes, &nodes_[i].access.reads})
        for (Id t : *list)
          if (touching_[t].empty() || touching_[t].back() != i) touching_[t].push_back(i);
    for (uint32_t i = 0; i < nodes_.size(); ++i) add_pairs(i, true);
  }

  std::vector<Access> accesses() const {
    std::vector<Access> out;
    for (const Node& n : nodes_) out.push_back(n.access);
    return out;
  }
  /// What runs in the order of the graph.
  std::vector<uint32_t> effects() const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      auto* op = nodes_[i].step ? std::get_if<Extern>(&*nodes_[i].step) : nullptr;
      if (op && op->is_ordered) out.push_back(i);
    }
    return out;
  }

  static bool meets(const Ids& a, const Ids& b) {
    return std::any_of(a.begin(), a.end(),
                       [&](Id v) { return std::find(b.begin(), b.end(), v) != b.end(); });
  }

  int64_t bytes_of(Id buffer) const {
    const Buffer& b = program_.buffers[buffer];
    int64_t n = item_size(b.dtype);
    for (Id s : b.sizes) n *= std::max<int64_t>(program_.expressions.hint(s), 1);
    return n;
  }

  int64_t bytes_of(const Ids& buffers) const {
    int64_t bytes = 0;
    for (Id t : buffers) bytes += bytes_of(t);
    return bytes;
  }

  /// Branches of a program that end in little need as much memory as they have together where one kernel
  /// reads all their ends, or makes all their beginnings. What that saves is a read of three accesses,
  /// or next to nothing where little is handed on.
  bool needs_much_memory(const Node& a, const Node& b, bool is_vertical) const {
    constexpr int64_t much = int64_t{64} << 20, little = 16;
    int64_t written = bytes_of(a.access.writes) + bytes_of(b.access.writes);
    if (!is_vertical) return written > much;
    int64_t all = written + bytes_of(a.access.reads) + bytes_of(b.access.reads);
    return all > much && saved_bytes(a, b) < all / little;
  }

  /// What is saved when b comes right after a; 0: nothing to speak of.
  int64_t saved_bytes(const Node& a, const Node& b) const {
    constexpr int64_t worth_sharing = 4096;
    int64_t written = 0, read = 0;
    for (Id t : a.access.writes)
      if (meets({t}, b.access.reads)) written += 2 * bytes_of(t);
    for (Id t : a.access.reads)
      if (meets({t}, b.access.reads)) read += bytes_of(t);
    bool saves_a_call = is_small_fold(*a.group) || is_small_fold(*b.group);
    return written || saves_a_call || read >= worth_sharing ? written + read : 0;
  }

  /// How many points a loop over few of them has; 0: none, many, or an unknown number.
  int64_t few_points(const Loop& loop) const {
    constexpr int64_t most = 4096;
    int64_t n = 1;
    for (const Ids* variables : {&loop.outer, &loop.reduced})
      for (Id v : *variables) {
        auto extent = x_.number_of(x_.extent_of(v));
        if (!extent || *extent < 1 || *extent > most / n) return 0;
        n *= *extent;
      }
    return n;
  }

  /// One result of few elements, whose number is known.
  bool is_small_fold(const Group& g) const {
    auto is_fold = [](const Loop& loop) { return loop.fold != Fold::none; };
    return common_outer(g).empty() && std::any_of(g.loops.begin(), g.loops.end(), is_fold) &&
           std::all_of(g.loops.begin(), g.loops.end(),
                       [this](const Loop& loop) { return few_points(loop) > 0; });
  }

  // The pairs of node `i` with those that touch one of its buffers.
  void add_pairs(uint32_t i, bool only_smaller) {
    if (!nodes_[i].group) return;
    std::set<uint32_t> others;
    for (const Ids* list : {&nodes_[i].access.writes, &nodes_[i].access.reads})
      for (Id t : *list)
        for (uint32_t j : neighbours(i, touching_[t]))
          if (nodes_[j].group && j != i && (j < i || !only_smaller)) others.insert(j);
    for (uint32_t j : others) {
      bool i_is_first = order_->is_before(i, j) || (!order_->is_before(j, i) && i < j);
      uint32_t a = i_is_first ? i : j, b = i_is_first ? j : i;
      if (int64_t bytes = saved_bytes(nodes_[a], nodes_[b]))
        pairs_.push({bytes, a, b, nodes_[a].version, nodes_[b].version});
    }
  }

  /// Those of a sorted list that are next to `i`.
  static std::span<const uint32_t> neighbours(uint32_t i, const std::vector<uint32_t>& all) {
    constexpr ptrdiff_t most_on_a_side = 64;
    auto at = std::lower_bound(all.begin(), all.end(), i);
    return {at - std::min(at - all.begin(), most_on_a_side),
            at + std::min(all.end() - at, most_on_a_side + 1)};
  }

  bool fuse_best() {
    while (!pairs_.empty()) {
      Pair pair = pairs_.top();
      pairs_.pop();
      const Node &first = nodes_[pair.a], &second = nodes_[pair.b];
      if (first.version != pair.version_a || second.version != pair.version_b) continue;
      std::string a = first.group->loops.back().name, b = second.group->loops.back().name;
      const char* why = try_pair(pair.a, pair.b);
      if (notes_.size() < most_notes) notes_.push_back({a, b, *why ? why : "fused"});
      if (!*why) return true;
    }
    return false;
  }

  /// One element, or some without common variables.
  static bool is_point(const Node& n) {
    return n.group && std::all_of(n.group->loops.begin(), n.group->loops.end(), [](const Loop& l) {
             return l.outer.empty() && l.reduced.empty();
           });
  }

  // The numbers of a step (counters, rates, corrections of each parameter) are loops of one element
  // that share nothing: a launch each would cost more than all of them.
  void join_points() {
    std::vector<uint32_t> points;
    for (uint32_t n : order_->steps())
      if (is_point(nodes_[n])) points.push_back(n);
    for (size_t i = 1; i < points.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (nodes_[points[j]].group && join_points(points[j], points[i])) break;
  }
  bool join_points(uint32_t ia, uint32_t ib) {
    const Node &a = nodes_[ia], &b = nodes_[ib];
    if (a.group->loops.size() + b.group->loops.size() > options_.most_loops) return false;
    // What writes an element that the first one reads has to stay behind it.
    bool meets_writes =
        meets(a.access.writes, b.access.writes) || meets(a.access.reads, b.access.writes);
    if (meets_writes || order_->is_before(ib, ia) || order_->has_detour(ia, ib)) return false;
    Group all = *a.group;
    for (const Loop& loop : b.group->loops) all.loops.push_back(loop);
    if (!is_legal(all, a.group->loops.size())) return false;
    accept(ia, ib, std::move(all));
    return true;
  }

  /// How many points a group of plain loops over few of them has, or 0.
  int64_t small_points(const Node& n) const {
    if (!n.group) return 0;
    int64_t out = few_points(n.group->loops[0]);
    for (const Loop& l : n.group->loops) {
      bool is_plain = l.reduced.empty() && !l.is_scan && !l.is_scatter() && l.store == Store::set;
      if (!is_plain || l.outer.size() != n.group->loops[0].outer.size()) return 0;
    }
    return out > 1 ? out : 0;
  }

  // The updates of small parameters share nothing either, and are as many points each.
  void join_small_loops() {
    std::vector<std::pair<int64_t, uint32_t>> small;
    for (uint32_t n : order_->steps())
      if (int64_t points = small_points(nodes_[n])) small.emplace_back(points, n);
    for (size_t i = 1; i < small.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (small[j].first == small[i].first && nodes_[small[j].second].group &&
            join_small_loops(small[j].second, small[i].second))
          break;
  }
  bool join_small_loops(uint32_t ia, uint32_t ib) {
    const Node &a = nodes_[ia], &b = nodes_[ib];
    bool meets_writes = meets(a.access.writes, b.access.writes) ||
                        meets(a.access.reads, b.access.writes) ||
                        meets(a.access.writes, b.access.reads);
    if (meets_writes || order_->is_before(ib, ia) || order_->is_before(ia, ib)) return false;
    if (a.group->loops.size() + b.group->loops.size() > options_.most_loops) return false;
    auto unified = unify(x_, *a.group, a.group->loops[0].index, *b.group, b.group->loops[0].index);
    if (!unified) return false;
    Group all = std::move(unified->a);
    for (Loop& loop : unified->b.loops) all.loops.push_back(std::move(loop));
    if (common_outer(all).size() != all.loops[0].outer.size()) return false;
    accept(ia, ib, std::move(all));
    return true;
  }

  /// Empty when done, else why not.
  const char* try_pair(uint32_t ia, uint32_t ib) {
    Node &a = nodes_[ia], &b = nodes_[ib];
    if (a.group->loops.size() + b.group->loops.size() > options_.most_loops)
      return "the kernel would hold too many loops";
    if (meets(a.access.writes, b.access.writes)) return "both write one tensor";
    // Since the pair was found, a kernel that others became may have come between them.
    if (order_->is_before(ib, ia) || order_->has_detour(ia, ib))
      return "a step between them needs one and feeds the other";
    bool is_vertical =
        a.access.writes.end() != std::find_first_of(a.access.writes.begin(), a.access.writes.end(),
                                                    b.access.reads.begin(), b.access.reads.end());
    if (!is_vertical &&
        a.group->loops.size() + b.group->loops.size() > options_.most_independent_loops)
      return "the kernel would hold too many loops that only read the same";
    if (!is_vertical && order_->is_before(ia, ib)) return "another step lies between them";
    if (needs_much_memory(a, b, is_vertical)) return "their tensors would lie in memory at once";
    if (const char* why = why_ordered_apart(*a.group, b, is_vertical)) return why;
    if (is_a_length(a.access.writes, *b.group)) return "a fold's length is known before it";
    for (Id t : a.access.writes)
      if (writers_[t] > 1 && meets({t}, b.access.reads)) return "the tensor has several writers";
    for (Id t : is_vertical ? a.access.writes : a.access.reads) {
      if (!meets({t}, b.access.reads)) continue;
      auto made = merged(*a.group, *b.group, t, is_vertical);
      if (!made) continue;
      accept(ia, ib, std::move(*made));
      return "";
    }
    return why_;
  }

  /// Why loops that run in an order of their own are not part of the pair's nest, or null.
  static const char* why_ordered_apart(const Group& a, const Node& b, bool is_vertical) {
    for (const Loop& loop : a.loops) {
      if (loop.is_scatter()) return "a scatter is done before it is read";
      if (loop.is_scan && meets({loop.buffer}, b.access.reads))
        return "a scan is done before it is read";
    }
    for (const Loop& loop : b.group->loops) {
      if (!loop.is_scatter()) continue;
      bool has_fold = std::any_of(a.loops.begin(), a.loops.end(),
                                  [](const Loop& l) { return l.fold != Fold::none; });
      if (!is_vertical || has_fold || loop.outer.empty() || loop.store == Store::set)
        return "a scatter only takes in what it stores";
    }
    return nullptr;
  }

  /// Whether a loop's end is read from one of the buffers.
  bool is_a_length(const Ids& buffers, const Group& g) {
    return std::any_of(g.loops.begin(), g.loops.end(), [&](const Loop& loop) {
      Ids read;
      add_extent_loads(x_, loop.reduced, read);
      return meets(buffers, read);
    });
  }

  /// The indices at which the group reads `t`, once each; at which it writes it.
  Ids reads_of(const Group& g, Id t) {
    Ids out;
    auto see = [&](const ValueNode& n) {
      if (n.a == t && std::find(out.begin(), out.end(), n.b) == out.end()) out.push_back(n.b);
      return none;
    };
    for (const Loop& loop : g.loops) {
      x_.replace_loads(loop.value, see);
      x_.replace_loads_of_index(loop.index, see);
    }
    return out;
  }
  static const Loop& writer_of(const Group& g, Id t) {
    return *std::find_if(g.loops.begin(), g.loops.end(),
                         [&](const Loop& l) { return l.buffer == t; });
  }

  std::optional<Group> merged(const Group& a, const Group& b, Id t, bool is_vertical) {
    Ids from = is_vertical ? Ids{writer_of(a, t).index} : reads_of(a, t), to = reads_of(b, t);
    why_ = "they walk the tensor in different ways";
    if (from.empty() || to.empty()) return std::nullopt;
    auto unified = unify(x_, a, from.front(), b, to.front());
    if (!unified) return std::nullopt;
    Group out = std::move(unified->a);
    size_t n_first = out.loops.size();
    for (Loop& l : unified->b.loops) out.loops.push_back(std::move(l));
    if (!is_legal(out, n_first) || !is_worth(a, b, out, is_vertical)) return std::nullopt;
    return out;
  }

  bool is_legal(const Group& g, size_t n_first) {
    Ids outer = common_outer(g);
    for (const Loop& loop : g.loops) {
      // Folded values, and what is made of them a row at a time, live in registers of the row.
      if (loop.fold != Fold::none && loop.outer.size() != outer.size()) {
        why_ = "a fold would be repeated";
        return false;
      }
      if (loop.is_scan && loop.reduced.size() != 1) {
        why_ = "a scan runs over one variable";
        return false;
      }
    }
    for (size_t i = 0; i < n_first; ++i)
      for (size_t j = n_first; j < g.loops.size(); ++j)
        for (Id index : reads_of({{g.loops[j]}}, g.loops[i].buffer)) {
          why_ = "the consumer reads other elements than the producer wrote";
          if (index != g.loops[i].index) return false;
          if (!has_all(g.loops[j], g.loops[i].outer)) return false;
        }
    return true;
  }
  static bool has_all(const Loop& loop, const Ids& variables) {
    return std::all_of(variables.begin(), variables.end(), [&](Id v) {
      return std::find(loop.outer.begin(), loop.outer.end(), v) != loop.outer.end() ||
             std::find(loop.reduced.begin(), loop.reduced.end(), v) != loop.reduced.end();
    });
  }

  int64_t points(const Ids& variables) const {
    int64_t n = 1;
    for (Id v : variables) n *= std::max<int64_t>(x_.hint(x_.extent_of(v)), 1);
    return n;
  }
  int64_t work(const Group& g) const {
    int64_t most = 0;
    for (const Loop& l : g.loops) most = std::max(most, points(l.outer) * points(l.reduced));
    return most;
  }

  bool is_worth(const Group& a, const Group& b, const Group& out, bool is_vertical) {
    constexpr int64_t small_work = 16384;
    int64_t rows = points(common_outer(out));
    int64_t before = std::min(points(common_outer(a)), points(common_outer(b)));
    if (rows < std::min(before, 4 * options_.threads) && work(out) > small_work) {
      why_ = "too few rows would stay independent";
      return false;
    }
    // A value of a few elements is not worth a nest over all that read it.
    bool has_fold = std::any_of(a.loops.begin(), a.loops.end(),
                                [](const Loop& l) { return l.fold != Fold::none; });
    if (is_vertical && !has_fold && work(a) * 4 <= work(b)) {
      why_ = "the producer would be repeated";
      return false;
    }
    bool has_rows = !common_outer(out).empty() || is_small_fold(out);
    if (!is_vertical && (work(a) != work(b) || !has_rows)) {
      why_ = "they share too little";
      return false;
    }
    return true;
  }

  void accept(uint32_t ia, uint32_t ib, Group made) {
    Node &a = nodes_[ia], &b = nodes_[ib];
    b.group = std::move(made);
    for (Id t : a.access.writes) b.access.writes.push_back(t);
    for (Id t : a.access.reads)
      if (!meets({t}, b.access.reads)) b.access.reads.push_back(t);
    std::erase_if(b.access.reads, [&](Id t) { return meets({t}, b.access.writes); });
    for (const Ids* list : {&a.access.writes, &a.access.reads})
      for (Id t : *list) replace(touching_[t], ia, ib);
    a.group.reset();
    ++a.version, ++b.version;
    order_->join(ia, ib);
    add_pairs(ib, false);
  }
  /// In a sorted list.
  static void replace(std::vector<uint32_t>& all, uint32_t old, uint32_t by) {
    auto at = std::lower_bound(all.begin(), all.end(), old);
    if (at != all.end() && *at == old) all.erase(at);
    at = std::lower_bound(all.begin(), all.end(), by);
    if (at == all.end() || *at != by) all.insert(at, by);
  }

  Schedule finish() {
    Schedule out;
    out.notes = std::move(notes_);
    for (uint32_t n : order_->steps()) {
      Node& node = nodes_[n];
      if (node.group) {
        out.items.push_back(
            make_kernel(program_, std::move(*node.group), needed_outside(n), options_));
        continue;
      }
      std::visit(
          [&](auto& step) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(step)>, Loop>)
              out.items.push_back(std::move(step));
          },
          *node.step);
    }
    return out;
  }

  std::vector<bool> needed_outside(uint32_t group) const {
    std::vector<bool> out;
    for (const Buffer& b : program_.buffers) out.push_back(b.place == Buffer::Place::input);
    for (const Output& o : program_.outputs)
      if (o.kind != Output::Kind::absent) out[o.view.buffer] = true;
    for (uint32_t n = 0; n < nodes_.size(); ++n)
      if (n != group && (nodes_[n].group || nodes_[n].step))
        for (Id t : nodes_[n].access.reads) out[t] = true;
    return out;
  }

  static constexpr size_t most_notes = 4096;
  Program& program_;
  Expressions& x_;
  const FusionOptions& options_;
  std::vector<Node> nodes_;
  std::optional<StepOrder> order_;
  std::vector<int> writers_;
  std::vector<std::vector<uint32_t>> touching_;  // by buffer: nodes that read or write it, sorted
  std::priority_queue<Pair> pairs_;  // not tried yet, most bytes first; some of older groups
  std::vector<FusionNote> notes_;
  const char* why_ = "";
};

}  // namespace

Schedule fuse(Program& program, const FusionOptions& options) {
  return Fusion(program, options).run();
}

}  // namespace loopir
