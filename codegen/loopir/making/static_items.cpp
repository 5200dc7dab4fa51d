// A fixed point over the writers of buffers: one that also another kind of item writes is not static.
#include "static_items.h"

namespace loopir {

std::vector<bool> static_buffers(const Program& p) {
  std::vector<bool> out(p.buffers.size(), false);
  for (Id b = 0; b < p.buffers.size(); ++b)
    out[b] = p.buffers[b].place == Buffer::Place::constant ||
             (p.buffers[b].place == Buffer::Place::input && p.is_static_input[p.buffers[b].slot]);
  return out;
}

std::vector<bool> find_static_items(Program& p, const Schedule& schedule,
                                    const std::function<bool(size_t item)>& can) {
  std::vector<bool> changes(p.buffers.size(), false), out;  // by buffer: some writer is not static
  for (bool is_stable = false; !is_stable;) {
    is_stable = true;
    out.clear();
    std::vector<bool> is_static = static_buffers(p);
    for (const Item& item : schedule.items) {
      Access access = access_of(p, item);
      bool all = !access.reads.empty() && !std::holds_alternative<Extern>(item) &&
                 !std::holds_alternative<Attention>(item) &&
                 !std::holds_alternative<Recurrence>(item) && !reads_numbers(p, item) &&
                 (!can || can(out.size()));
      for (Id b : access.reads) all &= is_static[b];
      for (Id b : access.writes)
        all &= p.buffers[b].place == Buffer::Place::temporary && !changes[b];
      out.push_back(all);
      for (Id b : access.writes) {
        is_stable &= all || changes[b];
        is_static[b] = all;
        changes[b] = changes[b] || !all;
      }
    }
  }
  return out;
}

}  // namespace loopir
