#include "call_lives.h"

#include <map>
#include <utility>

namespace inductor {

using loopir::Buffer;
using loopir::Id;

namespace {

constexpr size_t never = SIZE_MAX;

/// The items with which the step of each one begins and ends.
struct Steps {
  std::vector<size_t> first, last;
  Steps(size_t n, const std::vector<Region>& regions) : first(n), last(n) {
    for (size_t i = 0; i < n; ++i) first[i] = last[i] = i;
    for (const Region& region : regions)
      for (size_t i = region.first; i <= region.last; ++i)
        first[i] = region.first, last[i] = region.last;
  }
};

bool is_view_of_input(const loopir::Program& p, const loopir::Output& o) {
  return o.kind != loopir::Output::Kind::absent &&
         p.buffers[o.view.buffer].place == Buffer::Place::input;
}

}  // namespace

CallLives::CallLives(const loopir::Program& p, const std::vector<loopir::Access>& items,
                     const std::vector<bool>& is_prepacked, const std::vector<Region>& regions)
    : by_item_(items.size()) {
  Steps steps(items.size(), regions);
  std::vector<size_t> first_write(p.buffers.size(), never);
  std::map<uint32_t, size_t> last_use;  // by input
  for (size_t i = 0; i < items.size(); ++i) {
    if (is_prepacked[i]) continue;
    for (Id b : items[i].writes)
      if (first_write[b] == never) first_write[b] = steps.first[i];
    for (const loopir::Ids* list : {&items[i].reads, &items[i].writes})
      for (Id b : *list)
        if (p.buffers[b].place == Buffer::Place::input) last_use[p.buffers[b].slot] = steps.last[i];
  }
  for (const loopir::Output& o : p.outputs)
    if (is_view_of_input(p, o)) last_use.erase(p.buffers[o.view.buffer].slot);
  size_t output = 0;
  for (Id b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].place == Buffer::Place::output)
      (first_write[b] == never ? at_once_ : by_item_[first_write[b]].begin).push_back(output++);
  for (auto [input, item] : last_use) by_item_[item].end.push_back(input);
}

void CallLives::end_inputs(tn_call& c, size_t item) const {
  if (!(c.flags & TN_CALL_STEAL_INPUTS)) return;
  for (uint32_t input : by_item_[item].end)
    tenon::plugin::tensor released(std::exchange(c.inputs[input], nullptr));
}

}  // namespace inductor
