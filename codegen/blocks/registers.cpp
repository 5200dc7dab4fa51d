// Memory of registers, by linear scan.
//
// Problem: a chain of a hundred operations needs three blocks at a time; a hundred blocks would not
//   stay in the first cache.
// Method: steps are numbered as they run. A register lives from the first step that writes it to
//   the last one that reads it; where that is in a loop that the first one is not in, to the end of
//   that loop, since its next round reads it again. Blocks of one size whose lives do not meet
//   share memory. Registers of one element have 8 bytes each.
// Cost: linear in the steps times the depth of loops.
#include "scopes.h"

#include <algorithm>

namespace blocks {

namespace {

struct Life {
  int64_t first = -1, last = -1;
  bool is_memory = false;  // of a buffer
};

bool reads_values(const Step& s) {
  return s.what >= Do::expand && s.what <= Do::scan && s.what != Do::start && s.what != Do::point;
}

class Lives {
 public:
  Lives(const Code& code, size_t n) : code_(code), lives_(n) {}

  std::vector<Life> run() {
    walk(0);
    return std::move(lives_);
  }

 private:
  void walk(size_t body) {
    for (const Step& s : code_.bodies[body].steps) {
      ++now_;
      if (s.what >= Do::loop) {
        open_.push_back({now_, end_of(s), false});
        walk(static_cast<size_t>(s.number));
        open_.pop_back();
        continue;
      }
      see(s);
    }
  }
  int64_t end_of(const Step& s) const { return now_ + steps_in(static_cast<size_t>(s.number)); }
  int64_t steps_in(size_t body) const {
    int64_t n = 0;
    for (const Step& s : code_.bodies[body].steps)
      n += 1 + (s.what >= Do::loop ? steps_in(static_cast<size_t>(s.number)) : 0);
    return n;
  }
  void see(const Step& s) {
    if (s.what == Do::number_of_value || s.what == Do::fill || reads_values(s)) {
      bool is_memory = s.what == Do::load;  // whose a is a number
      if (!is_memory && s.what != Do::store) use(s.a);
      if (s.what == Do::store) use(s.out);
      bool has_places = static_cast<Where>(s.code) == Where::places;
      bool is_access = is_memory || s.what == Do::store;
      if (s.what != Do::check && (!is_access || has_places)) use(s.b);
      use(s.c);
      use(s.d);
    }
    if (s.what >= Do::constant && s.what != Do::store) use(s.out);
    if (s.what == Do::point) lives_[s.out].is_memory = true;
  }
  void use(Id value) {
    if (value == none) return;
    Life& life = lives_[value];
    if (life.first < 0) life.first = now_;
    life.last = std::max(life.last, now_);
    for (const Life& loop : open_)
      if (loop.first > life.first) life.last = std::max(life.last, loop.last);
  }

  const Code& code_;
  std::vector<Life> lives_;
  std::vector<Life> open_;
  int64_t now_ = 0;
};

// Blocks that began at the same place of a page would lie in the same sets of the cache, and a load
// of one would wait for a store to another.
constexpr int64_t apart = 5 * 64;

}  // namespace

void place_registers(Code& code, const std::vector<Register>& registers) {
  std::vector<Life> lives = Lives(code, registers.size()).run();
  std::vector<Id> order;
  for (Id r = 0; r < registers.size(); ++r) order.push_back(r);
  std::ranges::stable_sort(order, {}, [&](Id r) { return lives[r].first; });
  struct Slot {
    int64_t offset, busy_until;
    size_t bytes;
  };
  std::vector<Slot> slots;
  code.offsets.assign(registers.size(), 0);
  int64_t end = 0;
  for (Id r : order) {
    if (lives[r].is_memory || lives[r].first < 0) continue;
    size_t bytes = registers[r].is_block ? static_cast<size_t>(code.width) * registers[r].bytes : 8;
    bytes = registers[r].is_block ? (bytes + 63) / 64 * 64 : bytes;
    auto free = std::ranges::find_if(slots, [&](const Slot& s) {
      return registers[r].is_block && s.bytes == bytes && s.busy_until < lives[r].first;
    });
    if (free == slots.end()) {
      if (registers[r].is_block) end = (end + 63) / 64 * 64;
      slots.push_back({end, 0, bytes});
      end += static_cast<int64_t>(bytes) + (registers[r].is_block ? apart : 0);
      free = slots.end() - 1;
    }
    free->busy_until = lives[r].last;
    code.offsets[r] = free->offset;
  }
  code.value_bytes = end;
}

}  // namespace blocks
