// The arena: offsets for intervals.
//
// Problem: each buffer lives from the item that writes it first to the one that reads it last;
// buffers that live at the same time must not overlap. The least arena is NP-hard (dynamic storage
// allocation). Method: buffers by decreasing size, each at the offset that leaves the smallest gap
// among those that are free for all of its life. Cost: n^2 for n buffers, some µs for a hundred.
// Where items may run at once, a buffer is over before another one begins if all that use it are
// done before each that uses the other.
#include "memory.h"

#include <algorithm>
#include <limits>

namespace loopir {

namespace {

constexpr int64_t alignment = 64;  // a cache line; and as much padding, so that no line is shared

struct Life {
  Id buffer;
  int64_t first, last, bytes, offset = 0;
  std::vector<size_t> items = {};  // that use it, where items may run at once
};

bool is_over_before(const Life& a, const Life& b, const DoneBefore& done_before) {
  return std::all_of(b.items.begin(), b.items.end(), [&](size_t later) {
    return std::all_of(a.items.begin(), a.items.end(),
                       [&](size_t item) { return done_before[later][item]; });
  });
}

bool meet(const Life& a, const Life& b, const DoneBefore& done_before) {
  if (done_before.empty()) return a.first <= b.last && b.first <= a.last;
  return !is_over_before(a, b, done_before) && !is_over_before(b, a, done_before);
}

std::vector<Life> lives_of(const Program& program, std::span<const Access> accesses,
                           std::span<const int64_t> bytes, const std::vector<bool>& in_arena,
                           bool has_branches = false) {
  std::vector<Life> out;
  std::vector<size_t> at(program.buffers.size(), SIZE_MAX);
  for (size_t i = 0; i < accesses.size(); ++i)
    for (const Ids* list : {&accesses[i].writes, &accesses[i].reads})
      for (Id b : *list) {
        if (!in_arena[b]) continue;
        if (at[b] == SIZE_MAX) {
          at[b] = out.size();
          out.push_back({b, static_cast<int64_t>(i), static_cast<int64_t>(i),
                         (bytes[b] + 2 * alignment - 1) / alignment * alignment});
        }
        out[at[b]].last = static_cast<int64_t>(i);
        if (has_branches) out[at[b]].items.push_back(i);
      }
  return out;
}

// The smallest gap between placed neighbours in time that is wide enough.
int64_t best_offset(const Life& life, const std::vector<Life>& placed,
                    const DoneBefore& done_before) {
  std::vector<const Life*> others;
  for (const Life& p : placed)
    if (meet(p, life, done_before)) others.push_back(&p);
  std::sort(others.begin(), others.end(),
            [](const Life* a, const Life* b) { return a->offset < b->offset; });
  int64_t best = -1, smallest = INT64_MAX, end = 0;
  for (const Life* p : others) {
    int64_t gap = p->offset - end;
    if (gap >= life.bytes && gap < smallest) best = end, smallest = gap;
    end = std::max(end, p->offset + p->bytes);
  }
  return best < 0 ? end : best;
}

}  // namespace

namespace {

std::string joined(std::span<const int64_t> numbers) {
  std::string out;
  for (int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return out;
}

[[noreturn]] void fail_too_large(const Program& program, const Buffer& buffer,
                                 std::span<const int64_t> symbols) {
  std::vector<int64_t> sizes;
  for (Id size : buffer.sizes) sizes.push_back(program.expressions.evaluate(size, symbols));
  throw tenon::plugin::error(
      TN_INVALID_ARGUMENT,
      tenon::plugin::text(
          "a tensor of shape [{}] needs more bytes than 64 bits can count; pass smaller sizes",
          joined(sizes)));
}

}  // namespace

int64_t bytes_of(const Program& program, const Buffer& buffer, std::span<const int64_t> symbols) {
  int64_t end = 1, step = 0, bytes = 0;
  bool is_too_large = false, is_empty = false;
  for (size_t d = 0; d < buffer.sizes.size(); ++d) {
    int64_t size = program.expressions.evaluate(buffer.sizes[d], symbols),
            stride = program.expressions.evaluate(buffer.strides[d], symbols);
    is_empty |= size == 0;
    is_too_large |=
        __builtin_mul_overflow(size - 1, stride, &step) || __builtin_add_overflow(end, step, &end);
  }
  if (is_empty) return 0;
  is_too_large |= __builtin_mul_overflow(end, item_size(buffer.dtype), &bytes) ||
                  bytes > std::numeric_limits<int64_t>::max() - 2 * alignment;
  if (is_too_large) fail_too_large(program, buffer, symbols);
  return bytes;
}

std::vector<int64_t> bytes_of_arena(const Program& program, std::span<const int64_t> symbols,
                                    const std::vector<bool>& in_arena) {
  std::vector<int64_t> out(program.buffers.size());
  for (Id b = 0; b < out.size(); ++b)
    if (in_arena[b]) out[b] = bytes_of(program, program.buffers[b], symbols);
  return out;
}

namespace {

std::vector<bool> placed_in(const MemoryPlan& plan) {
  std::vector<bool> out;
  for (int64_t offset : plan.offsets) out.push_back(offset >= 0);
  return out;
}

}  // namespace

std::string json_of(const Program& program, std::span<const Access> accesses,
                    const MemoryPlan& plan, std::span<const int64_t> symbols) {
  std::string out = "[";
  std::vector<bool> in_arena = placed_in(plan);
  std::vector<int64_t> bytes = bytes_of_arena(program, symbols, in_arena);
  for (const Life& life : lives_of(program, accesses, bytes, in_arena))
    out +=
        tenon::plugin::text(R"({}{"name": {}, "offset": {}, "bytes": {}, "first": {}, "last": {}})",
                            out.size() > 1 ? ", " : "", quoted(program.buffers[life.buffer].name),
                            plan.offsets[life.buffer], life.bytes, life.first, life.last);
  return out + "]";
}

std::string text_of(const Program& program, std::span<const Access> accesses,
                    const MemoryPlan& plan, std::span<const int64_t> symbols) {
  std::vector<bool> in_arena = placed_in(plan);
  std::string out = tenon::plugin::text("arena {} bytes, {} without reuse, {} live at most\n",
                                        plan.bytes, plan.naive_bytes, plan.lower_bound);
  std::vector<int64_t> bytes = bytes_of_arena(program, symbols, in_arena);
  for (const Life& life : lives_of(program, accesses, bytes, in_arena))
    out += tenon::plugin::text("b{} {}: offset {}, {} bytes, items {} to {}\n", life.buffer,
                               program.buffers[life.buffer].name, plan.offsets[life.buffer],
                               life.bytes, life.first, life.last);
  return out;
}

namespace {

// Those in one memory live as one.
std::vector<Life> joined(const Program& program, std::vector<Life> lives) {
  std::vector<Life> out;
  std::vector<size_t> at(program.buffers.size(), SIZE_MAX);
  for (Life& life : lives) {
    life.buffer = program.owner_of_memory(life.buffer);
    size_t& place = at[life.buffer];
    if (place == SIZE_MAX) {
      place = out.size();
      out.push_back(std::move(life));
      continue;
    }
    Life& whole = out[place];
    whole.first = std::min(whole.first, life.first);
    whole.last = std::max(whole.last, life.last);
    whole.items.insert(whole.items.end(), life.items.begin(), life.items.end());
  }
  return out;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, std::span<const Access> accesses,
                       std::span<const int64_t> symbols, const std::vector<bool>& in_arena,
                       bool reuse, const DoneBefore& done_before) {
  return plan_bytes(program, accesses, bytes_of_arena(program, symbols, in_arena), in_arena, reuse,
                    done_before);
}

MemoryPlan plan_bytes(const Program& program, std::span<const Access> accesses,
                      std::span<const int64_t> bytes, const std::vector<bool>& in_arena, bool reuse,
                      const DoneBefore& done_before) {
  std::vector<Life> lives =
      joined(program, lives_of(program, accesses, bytes, in_arena, !done_before.empty()));
  std::vector<Life> placed;
  MemoryPlan plan;
  plan.offsets.assign(program.buffers.size(), -1);
  for (size_t i = 0; i < accesses.size(); ++i) {
    int64_t live = 0;
    for (const Life& l : lives)
      if (l.first <= static_cast<int64_t>(i) && static_cast<int64_t>(i) <= l.last)
        live = checked_add(live, l.bytes);
    plan.lower_bound = std::max(plan.lower_bound, live);
  }
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  for (Life& life : lives) {
    life.offset = reuse ? best_offset(life, placed, done_before) : plan.naive_bytes;
    plan.offsets[life.buffer] = life.offset;
    plan.bytes = std::max(plan.bytes, checked_add(life.offset, life.bytes));
    plan.naive_bytes = checked_add(plan.naive_bytes, life.bytes);
    placed.push_back(life);
  }
  for (Id b = 0; b < plan.offsets.size(); ++b)
    if (in_arena[b]) plan.offsets[b] = plan.offsets[program.owner_of_memory(b)];
  return plan;
}

}  // namespace loopir
