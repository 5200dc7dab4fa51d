#include "take_over.h"

#include <algorithm>
#include <map>

namespace loopir {

namespace {

class TakeOvers {
 public:
  explicit TakeOvers(const TakeOverRequest& request) : r(request), x(request.program.expressions) {
    size_t n = r.program.buffers.size();
    out_.assign(n, none);
    touching_.resize(n);
    writers_.resize(n);
    is_taken_.resize(n);
    for (Id b = 0; b < n; ++b)
      is_eligible_.push_back(r.program.buffers[b].place == Buffer::Place::temporary);
    for (size_t i = 0; i < r.items.size(); ++i) see_accesses(i);
    for (const Output& o : r.program.outputs)
      if (o.kind != Output::Kind::absent) is_eligible_[o.view.buffer] = false;
  }

  Ids run() {
    for (size_t i = 0; i < r.items.size(); ++i) {
      auto* kernel = std::get_if<Kernel>(&r.items[i]);
      if (kernel && !r.in_setup[i]) see(*kernel, i);
    }
    return std::move(out_);
  }

 private:
  /// Where a kernel reads a buffer: at this index only, last in statement `last`.
  struct Reading {
    Id index;
    size_t last;
    bool is_one_index = true;
  };

  void see_accesses(size_t item) {
    const Access& access = r.accesses[item];
    for (const Ids* list : {&access.reads, &access.writes})
      for (Id b : *list)
        if (touching_[b].empty() || touching_[b].back() != item) touching_[b].push_back(item);
    for (Id b : access.writes) {
      writers_[b].push_back(item);
      if (r.in_setup[item]) is_eligible_[b] = false;
    }
  }

  void see(const Kernel& kernel, size_t item) {
    std::map<Id, Reading> readings;
    std::vector<const Statement*> statements;
    for (const Stage& stage : kernel.stages)
      for (const Statement& s : stage.statements) {
        if (s.is_scan || s.is_scatter || s.store != Store::set) return;
        size_t at = statements.size();
        statements.push_back(&s);
        for_each_load(x, s.value, [&](const ValueNode& load) {
          Reading& r = readings.try_emplace(load.a, Reading{load.b, at}).first->second;
          r.is_one_index &= r.index == load.b;
          r.last = at;
        });
        if (s.buffer == none) continue;
        for_each_index_load(x, s.index, [&](const ValueNode& load) {
          readings.try_emplace(load.a, Reading{load.b, at}).first->second.is_one_index = false;
        });
      }
    for (size_t at = 0; at < statements.size(); ++at) {
      const Statement& s = *statements[at];
      if (s.buffer == none || !is_eligible_[s.buffer] || writers_[s.buffer].size() != 1) continue;
      for (const auto& [from, reading] : readings)
        if (reading.is_one_index && reading.index == s.index && reading.last <= at &&
            may_follow(from, s.buffer, item)) {
          out_[s.buffer] = out_[from] == none ? from : out_[from];
          is_taken_[from] = true;
          break;
        }
    }
  }

  bool may_follow(Id from, Id to, size_t item) const {
    const Buffer &a = r.program.buffers[from], &b = r.program.buffers[to];
    bool is_alike =
        item_size(a.dtype) == item_size(b.dtype) && a.sizes == b.sizes && a.strides == b.strides;
    if (from == to || !is_eligible_[from] || is_taken_[from] || !is_alike) return false;
    const std::vector<size_t>&touching = touching_[from], &writers = writers_[from];
    if (touching.back() != item || writers.empty() || writers.back() >= item) return false;
    bool is_of_this_step = r.steps[writers.front()] == r.steps[item];
    return is_of_this_step || touching.size() < 2 ||
           r.steps[touching[touching.size() - 2]] != r.steps[item];
  }

  const TakeOverRequest& r;
  Expressions& x;
  Ids out_;
  std::vector<bool> is_eligible_, is_taken_;             // by buffer
  std::vector<std::vector<size_t>> touching_, writers_;  // by buffer: items
};

}  // namespace

Ids find_take_overs(const TakeOverRequest& request) { return TakeOvers(request).run(); }

}  // namespace loopir
