// A group of loops as stages: what runs together, what is kept in registers, in a row, in memory.
#include "kernel.h"

#include <algorithm>

namespace loopir {

namespace {

class Builder {
 public:
  Builder(Program& program, const Group& group, const std::vector<bool>& needed,
          const FusionOptions& options)
      : program_(program),
        x_(program.expressions),
        group_(group),
        needed_(needed),
        options_(options) {
    kernel_.outer = common_outer(group_);
  }

  Kernel run() {
    for (const Loop& loop : group_.loops) add(loop);
    for (Stage& stage : kernel_.stages) {
      std::erase_if(stage.statements, [](const Statement& s) {
        return s.fold == Fold::none && s.buffer == none;  // only ever read in place
      });
      if (!stage.statements.empty()) kept_.push_back(std::move(stage));
    }
    kernel_.stages = std::move(kept_);
    kernel_.n_loops = static_cast<uint32_t>(group_.loops.size());
    for (const Loop& loop : group_.loops)
      kernel_.nodes.insert(loop.nodes.begin(), loop.nodes.end());
    name_kernel();
    return std::move(kernel_);
  }

 private:
  struct Made {
    const Loop* loop;
    Id value;  // with loads of the group's buffers replaced
    size_t stage;
    size_t statement;
    Id folded = none;
    Ids inner;
  };

  Ids inner_of(const Loop& loop) const {
    Ids out;
    for (const Ids* list : {&loop.outer, &loop.reduced})
      for (Id v : *list)
        if (std::find(kernel_.outer.begin(), kernel_.outer.end(), v) == kernel_.outer.end())
          out.push_back(v);
    std::sort(out.begin(), out.end());
    return out;
  }

  void add(const Loop& loop) {
    Made made{&loop, none, 0, 0, none, inner_of(loop)};
    made.stage = stage_for(loop, made.inner);
    made.value =
        x_.replace_loads(loop.value, [&](const ValueNode& n) { return forwarded(n, made); });
    Statement s;
    s.fold = loop.fold;
    s.is_scan = loop.is_scan;
    s.is_scatter = loop.is_scatter();
    s.store = loop.store;
    s.value = made.value;
    s.dtype = program_.buffers[loop.buffer].dtype;
    s.position = loop.position;
    if (loop.fold != Fold::none) s.folded = made.folded = kernel_.n_folds++;
    if (needed_[loop.buffer]) {
      s.buffer = loop.buffer;
      s.index = x_.replace_loads_of_index(loop.index,
                                          [&](const ValueNode& n) { return forwarded(n, made); });
    }
    Stage& stage = kernel_.stages[made.stage];
    made.statement = stage.statements.size();
    stage.statements.push_back(s);
    made_.emplace(loop.buffer, made);
  }

  // The first stage over these variables in which all that the loop reads is there.
  size_t stage_for(const Loop& loop, const Ids& inner) {
    size_t first = 0;
    Ids loads;
    add_loads(x_, loop.value, loads);
    add_index_loads(x_, loop.index, loads);
    for (Id t : loads) {
      auto producer = made_.find(t);
      if (producer == made_.end()) continue;
      const Made& p = producer->second;
      bool same_pass = p.folded == none && p.inner == inner;
      first = std::max(first, p.stage + !same_pass);
    }
    for (size_t s = first; s < kernel_.stages.size(); ++s)
      if (kernel_.stages[s].inner == inner) return s;
    kernel_.stages.push_back({inner, {}});
    return kernel_.stages.size() - 1;
  }

  bool is_cheap(Id value) {
    int left = 10;
    std::vector<Id> open{value};
    while (!open.empty()) {
      const ValueNode n = x_.value_at(open.back());
      open.pop_back();
      bool hard = (n.code >= TN_F_EXP && n.code <= TN_F_DIGAMMA) || n.code == TN_F_POW ||
                  n.code == TN_F_DIV || n.code == value_drawn;
      if (hard || --left < 0) return false;
      for (Id o : operands_of(n).values)
        if (o != none) open.push_back(o);
    }
    return true;
  }

  /// What stands for a load of a tensor that the group makes, or none.
  Id forwarded(const ValueNode& n, const Made& reader) {
    auto producer = made_.find(n.a);
    if (producer == made_.end()) return none;
    Id made = made_for(producer->second, n, reader);
    if (n.c == none || made == none) return made;
    return x_.apply(TN_F_SELECT, n.dtype, n.c, made, x_.number(int64_t{0}, n.dtype));
  }
  Id made_for(Made& p, const ValueNode& n, const Made& reader) {
    if (p.folded != none) return x_.value({value_folded, n.dtype, p.folded});
    bool in_place = p.stage == reader.stage || p.inner.empty();
    bool is_repeated = options_.repeats_long_rows && is_long(p);
    if (in_place || is_repeated || is_cheap(p.value)) return p.value;
    Statement& s = kernel_.stages[p.stage].statements[p.statement];
    if (s.buffer == none) keep_row(p, s);
    if (program_.buffers[s.buffer].place != Buffer::Place::scratch) return none;
    return x_.load(s.buffer, s.index, n.dtype);
  }

  // Whether rows of the tensor are too long for scratch memory.
  bool is_long(const Made& p) {
    Id size = x_.constant(1);
    for (Id v : p.inner) size = x_.multiply(size, x_.extent_of(v));
    return x_.range(size).upper > options_.scratch_bytes / 8;
  }

  // A row of the tensor in scratch memory, or all of it where rows are too long for that.
  void keep_row(const Made& p, Statement& s) {
    Id size = x_.constant(1), index = x_.constant(0);
    Ids extents;
    for (size_t i = p.inner.size(); i-- > 0;) {
      index = x_.add(index, x_.multiply(p.inner[i], size));
      size = x_.multiply(size, x_.extent_of(p.inner[i]));
      extents.insert(extents.begin(), x_.extent_of(p.inner[i]));
    }
    if (is_long(p)) {
      s.buffer = p.loop->buffer, s.index = p.loop->index;
      return;
    }
    Buffer b{Buffer::Place::scratch,
             static_cast<uint32_t>(kernel_.scratch.size()),
             s.dtype,
             extents,
             {},
             "row"};
    s.buffer = program_.add_buffer(std::move(b));
    s.index = index;
    kernel_.scratch.push_back(s.buffer);
  }

  void name_kernel() {
    for (size_t i = 0; i < group_.loops.size() && kernel_.name.size() < 40; ++i)
      kernel_.name += (i ? "_" : "") + group_.loops[i].name;
    for (char& c : kernel_.name)
      if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }

  Program& program_;
  Expressions& x_;
  const Group& group_;
  const std::vector<bool>& needed_;
  const FusionOptions& options_;
  Kernel kernel_;
  std::vector<Stage> kept_;
  std::map<Id, Made> made_;  // by buffer
};

}  // namespace

Kernel make_kernel(Program& program, Group group, const std::vector<bool>& needed_outside,
                   const FusionOptions& options) {
  return Builder(program, group, needed_outside, options).run();
}

}  // namespace loopir
