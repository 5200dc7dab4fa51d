// A list schedule over needs.
#include "branches.h"

#include "../executable.h"

#include <loopir/making/item_facts.h>

#include <algorithm>
#include <optional>
#include <set>

namespace inductor_cuda {

using tenon::plugin::check;

namespace {

constexpr size_t nothing = SIZE_MAX;

/// Which items need which: what wrote the memory that they read, what used the memory that they
/// write.
class Needs {
 public:
  explicit Needs(const Parts& parts)
      : parts_(parts), used_(parts.program.buffers.size() + 1), by_item_(items()) {}

  std::vector<std::set<size_t>> find() {
    for (size_t i = 0; i < items(); ++i) {
      if (!is_launched(i)) continue;
      if (barrier_ != nothing) by_item_[i].insert(barrier_);
      if (parts_.externs.contains(i))
        see_barrier(i);
      else
        see(i);
      seen_.push_back(i);
    }
    return std::move(by_item_);
  }
  bool is_launched(size_t i) const {
    return !parts_.is_static[i] && (!parts_.is_in_group[i] || parts_.groups.contains(i));
  }

 private:
  struct Use {
    size_t writer = nothing;
    std::vector<size_t> readers = {};  // since then
  };

  size_t items() const { return parts_.schedule.items.size(); }

  /// Where a buffer lies. All inputs are one memory, as far as anybody knows here.
  size_t memory_of(Id buffer) const {
    for (const Update& u : parts_.updates)
      if (u.buffer == buffer) return used_.size() - 1;
    bool is_input = parts_.program.buffers[buffer].place == loopir::Buffer::Place::input;
    return is_input ? used_.size() - 1 : parts_.program.owner_of_memory(buffer);
  }

  void see(size_t item) {
    const loopir::Access& access = parts_.accesses_of_launches[item];
    auto need = [&](size_t other) {
      if (other != nothing && other != item) by_item_[item].insert(other);
    };
    for (Id b : access.reads) {
      Use& use = used_[memory_of(b)];
      need(use.writer);
      use.readers.push_back(item);
    }
    for (Id b : access.writes) {
      Use& use = used_[memory_of(b)];
      need(use.writer);
      for (size_t reader : use.readers) need(reader);
      use = {item};
    }
  }

  void see_barrier(size_t item) {
    by_item_[item].insert(seen_.begin(), seen_.end());
    seen_.clear();
    barrier_ = item;
  }

  const Parts& parts_;
  std::vector<Use> used_;  // by memory
  std::vector<std::set<size_t>> by_item_;
  std::vector<size_t> seen_;  // since the barrier
  size_t barrier_ = nothing;
};

class Scheduler {
 public:
  Scheduler(const Parts& parts, uint32_t most)
      : parts_(parts), most_(most), items_(parts.schedule.items.size()) {
    Needs needs(parts);
    needs_ = needs.find();
    for (size_t i = 0; i < items_; ++i)
      if (needs.is_launched(i)) order_.push_back(i);
  }

  Branches run() {
    find_heirs();
    out_.of.assign(items_, 0);
    out_.after.resize(items_);
    is_placed_.assign(items_, false);
    out_.done_before.assign(items_, std::vector<bool>(items_, false));
    for (size_t item : order_) place(item);
    std::vector<bool> is_waited_for(items_, false);
    for (size_t item : order_)
      for (size_t before : out_.after[item]) is_waited_for[before] = true;
    for (size_t item : order_)
      if (!is_waited_for[item]) out_.ends.push_back(item);
    out_.count = static_cast<uint32_t>(std::max<size_t>(tails_.size(), 1));
    out_.order = std::move(order_);
    if (out_.count == 1) out_.done_before.clear();
    return std::move(out_);
  }

 private:
  /// About so many microseconds.
  double cost_of(size_t item) const {
    constexpr double launch = 1.5, bytes_per_us = 3e6, flops_per_us = 3e8;
    loopir::ItemFacts facts = loopir::facts_of(parts_.program, parts_.schedule.items[item],
                                               parts_.accesses_of_launches[item]);
    return launch + static_cast<double>(facts.bytes) / bytes_per_us +
           static_cast<double>(facts.flops) / flops_per_us;
  }

  /// Who goes on from an item: that on the longest way from there.
  void find_heirs() {
    std::vector<double> way(items_, 0);
    heirs_.assign(items_, nothing);
    for (size_t k = order_.size(); k-- > 0;) {
      size_t item = order_[k];
      way[item] += cost_of(item);
      for (size_t before : needs_[item]) {
        if (way[item] <= way[before]) continue;
        way[before] = way[item];
        heirs_[before] = item;
      }
    }
  }

  /// Blocks of a launch; of a library's about as many.
  int64_t blocks_of(size_t item) const {
    const loopir::Expressions& x = parts_.program.expressions;
    if (auto group = parts_.groups.find(item); group != parts_.groups.end()) {
      int64_t sum = 0;
      for (const CompiledKernel* m : group->second.members) sum += x.hint(m->plans[0].blocks);
      return sum;
    }
    if (auto kernel = parts_.kernels.find(item); kernel != parts_.kernels.end())
      return x.hint(kernel->second.plans[0].blocks);
    constexpr int64_t tile = 128 * 128;
    int64_t elements = 0;
    for (Id b : parts_.accesses_of_launches[item].writes) {
      int64_t all = 1;
      for (Id size : parts_.program.buffers[b].sizes) all *= x.hint(size);
      elements += all;
    }
    return (elements + tile - 1) / tile;
  }
  bool is_small(size_t item) const {
    return blocks_of(item) < static_cast<int64_t>(parts_.device.facts.multiprocessors);
  }

  /// How well an item goes behind the last one of a branch; 0 where it would wait for nothing else.
  int fitness(size_t item, size_t tail) const {
    enum { waits = 0, takes_anothers_place = 1, is_free = 2, is_heir = 3 };
    if (!out_.done_before[item][tail]) return waits;
    size_t heir = heirs_[tail];
    if (heir == item) return is_heir;
    return heir == nothing || is_placed_[heir] ? is_free : takes_anothers_place;
  }

  uint32_t branch_for(size_t item) {
    constexpr int free = 2;
    uint32_t best = 0;
    int fit = -1;
    for (uint32_t k = 0; k < tails_.size(); ++k)
      if (int f = fitness(item, tails_[k]); f > fit) best = k, fit = f;
    bool opens = tails_.empty() || (fit < free && tails_.size() < most_ && is_small(item));
    if (opens) {
      tails_.push_back(nothing);
      return static_cast<uint32_t>(tails_.size() - 1);
    }
    if (fit > 0 || needs_[item].empty()) return best;
    return out_.of[*needs_[item].rbegin()];  // behind the last one that it waits for
  }

  void wait_for(size_t item, size_t other) {
    std::vector<bool>& done = out_.done_before[item];
    const std::vector<bool>& before = out_.done_before[other];
    for (size_t i = 0; i < other; ++i)
      if (before[i]) done[i] = true;
    done[other] = true;
  }

  void place(size_t item) {
    for (size_t other : needs_[item]) wait_for(item, other);
    uint32_t branch = branch_for(item);
    std::set<size_t> after = needs_[item];
    if (size_t tail = tails_[branch]; tail != nothing) {
      wait_for(item, tail);
      after.insert(tail);
    }
    for (size_t a : after)
      if (std::ranges::none_of(after, [&](size_t b) { return out_.done_before[b][a]; }))
        out_.after[item].push_back(a);
    tails_[branch] = item;
    is_placed_[item] = true;
    out_.of[item] = branch;
  }

  const Parts& parts_;
  uint32_t most_;
  size_t items_;
  std::vector<size_t> order_;  // what is launched
  std::vector<std::set<size_t>> needs_;
  std::vector<size_t> heirs_, tails_;
  std::vector<bool> is_placed_;
  Branches out_;
};

}  // namespace

Branches branches_of(const Parts& parts, uint32_t most) {
  if (most <= 1) return {};
  return Scheduler(parts, most).run();
}

bool is_branched(const Branches& branches, const Device& device, tn_stream* stream) {
  const tn_cuda_api* api = device.api;
  return branches.count > 1 && TN_HAS(api, continue_from) && api->is_recording(stream);
}

void run_on_branches(const Branches& branches, const Device& device, tn_stream* stream,
                     const std::function<void(size_t)>& run_item) {
  const tn_cuda_api* api = device.api;
  std::vector<uint32_t> places(branches.of.size());
  uint32_t begin = 0;
  auto go_on_from = [&](std::span<const size_t> items) {
    std::vector<uint32_t> from;
    for (size_t item : items) from.push_back(places[item]);
    if (from.empty()) from.push_back(begin);
    check(api->continue_from(stream, from.data(), static_cast<uint32_t>(from.size())));
  };
  check(api->mark_place(stream, &begin));
  for (size_t item : branches.order) {
    go_on_from(branches.after[item]);
    run_item(item);
    check(api->mark_place(stream, &places[item]));
  }
  go_on_from(branches.ends);
}

}  // namespace inductor_cuda
