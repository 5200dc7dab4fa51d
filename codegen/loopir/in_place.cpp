#include "in_place.h"

#include <algorithm>
#include <map>

namespace loopir {

namespace {

class InPlaceReuse {
 public:
  explicit InPlaceReuse(const InPlaceRequest& request)
      : request_(request), x_(request.program.expressions) {
    size_t n = request_.program.buffers.size();
    out_.assign(n, none);
    touching_.resize(n);
    writers_.resize(n);
    is_taken_.resize(n);
    for (Id b = 0; b < n; ++b)
      is_eligible_.push_back(request_.program.buffers[b].place == Buffer::Place::temporary);
    for (size_t i = 0; i < request_.items.size(); ++i) see_accesses(i);
    for (const Output& o : request_.program.outputs)
      if (o.kind != Output::Kind::absent) is_eligible_[o.view.buffer] = false;
  }

  Ids run() {
    for (size_t i = 0; i < request_.items.size(); ++i) {
      auto* kernel = std::get_if<Kernel>(&request_.items[i]);
      if (kernel && !request_.is_prepacked[i]) see(*kernel, i);
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
    const Access& access = request_.accesses[item];
    for (const Ids* list : {&access.reads, &access.writes})
      for (Id b : *list)
        if (touching_[b].empty() || touching_[b].back() != item) touching_[b].push_back(item);
    for (Id b : access.writes) {
      writers_[b].push_back(item);
      if (request_.is_prepacked[item]) is_eligible_[b] = false;
    }
  }

  void see(const Kernel& kernel, size_t item) {
    std::map<Id, Reading> readings;
    std::vector<const Statement*> statements;
    auto see_elsewhere = [&](const ValueNode& load) {
      size_t at = statements.size();
      readings.try_emplace(load.a, Reading{load.b, at}).first->second.is_one_index = false;
    };
    for (const Stage& stage : kernel.stages) {
      for_each_extent_load(x_, stage.inner, see_elsewhere);
      for (const Statement& s : stage.statements) {
        if (s.is_scan || s.is_scatter || s.store != Store::set) return;
        size_t at = statements.size();
        statements.push_back(&s);
        for_each_load(x_, s.value, [&](const ValueNode& load) {
          Reading& r = readings.try_emplace(load.a, Reading{load.b, at}).first->second;
          r.is_one_index &= r.index == load.b;
          r.last = at;
        });
        if (s.buffer == none) continue;
        for_each_index_load(x_, s.index, see_elsewhere);
      }
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
    const Buffer &a = request_.program.buffers[from], &b = request_.program.buffers[to];
    bool is_alike =
        item_size(a.dtype) == item_size(b.dtype) && a.sizes == b.sizes && a.strides == b.strides;
    if (from == to || !is_eligible_[from] || is_taken_[from] || !is_alike) return false;
    const std::vector<size_t>&touching = touching_[from], &writers = writers_[from];
    if (touching.back() != item || writers.empty() || writers.back() >= item) return false;
    bool is_of_this_step = request_.steps[writers.front()] == request_.steps[item];
    return is_of_this_step || touching.size() < 2 ||
           request_.steps[touching[touching.size() - 2]] != request_.steps[item];
  }

  const InPlaceRequest& request_;
  Expressions& x_;
  Ids out_;
  std::vector<bool> is_eligible_, is_taken_;             // by buffer
  std::vector<std::vector<size_t>> touching_, writers_;  // by buffer: items
};

}  // namespace

Ids find_in_place_reuse(const InPlaceRequest& request) { return InPlaceReuse(request).run(); }

}  // namespace loopir
