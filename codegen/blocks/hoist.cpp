// Steps that give the same in each block of a loop are made once, before it.
//
// Problem: of lanes over several variables all but the slowest one have the same values in every
//   block. A bias by channel is spread over a block of pixels and channels again and again, as are
//   masks of what is padded.
// Method: a step stays in the loop if it reads what another one that stays gives, or the loop's
//   variable; else it goes into a body of its own, which runs for the first block. No later block is
//   longer. Loads go along unless the kernel writes the buffer.
// Cost: linear in the steps of each loop.
#include "check.h"
#include "scopes.h"

#include <algorithm>
#include <set>

namespace blocks {

namespace {

class Hoister {
 public:
  explicit Hoister(Code& code) : code_(code) {
    for (const Body& b : code.bodies)
      for (const Step& s : b.steps) {
        if (s.what == Do::store) written_.insert(s.buffer);
        if (s.out != none && s.what != Do::store && !numbers_of(s).out) ++writers_[s.out];
      }
  }

  void run() {
    size_t n = code_.bodies.size();
    for (size_t b = 0; b < n; ++b)
      for (size_t i = 0; i < code_.bodies[b].steps.size(); ++i) {
        const Step loop = code_.bodies[b].steps[i];
        bool has_tile = (loop.what == Do::lanes || loop.what == Do::some_blocks) && loop.inner > 1;
        if (!has_tile) continue;
        std::vector<Step> same = taken_from(loop);
        if (same.empty()) continue;
        Step first = loop;
        first.what = Do::first_block;
        first.out = code_.n_numbers++;
        first.number = static_cast<int64_t>(code_.bodies.size());
        code_.bodies.push_back({std::move(same)});
        std::vector<Step>& steps = code_.bodies[b].steps;
        steps.insert(steps.begin() + static_cast<int64_t>(i), first);
        ++i;
      }
  }

 private:
  /// The steps that leave the loop's body.
  std::vector<Step> taken_from(const Step& loop) {
    numbers_ = {loop.out}, values_.clear();
    std::vector<Step> out, kept;
    for (const Step& s : code_.bodies[static_cast<size_t>(loop.number)].steps) {
      if (!is_same(s)) vary(s);
      (is_same(s) ? out : kept).push_back(s);
    }
    code_.bodies[static_cast<size_t>(loop.number)].steps = std::move(kept);
    return out;
  }

  bool is_same(const Step& s) const {
    bool is_value = s.what >= Do::constant && s.what <= Do::join && s.what != Do::copy;
    bool can_leave = s.what <= Do::most || is_value || s.what == Do::number_of_value ||
                     ((s.what == Do::load || s.what == Do::point) && !written_.contains(s.buffer));
    if (!can_leave) return false;
    Kinds kinds = numbers_of(s);
    auto varies = [&](Id id, bool is_number) {
      return id != none && (is_number ? numbers_ : values_).contains(id);
    };
    bool reads = varies(s.a, kinds.a) || varies(s.b, kinds.b) || varies(s.c, false) ||
                 varies(s.d, false) || varies(s.out, kinds.out) || tile_varies(s);
    return !reads && (kinds.out || writers_.at(s.out) == 1);
  }
  bool tile_varies(const Step& s) const {
    bool is_tiled =
        s.what == Do::count || (s.what == Do::load && static_cast<Where>(s.code) == Where::tiled);
    if (!is_tiled) return false;
    const Tile& tile = code_.tiles[s.tile];
    return std::ranges::any_of(tile.steps, [&](Id step) { return numbers_.contains(step); });
  }
  // What it writes, and what the loops within it do.
  void vary(const Step& s) {
    if (s.out != none && s.what != Do::store)
      (numbers_of(s).out ? numbers_ : values_).insert(s.out);
    if (s.what == Do::fold_place) values_.insert(s.c);
    if (!is_loop(s)) return;
    for (const Step& inner : code_.bodies[static_cast<size_t>(s.number)].steps) vary(inner);
  }

  Code& code_;
  std::set<uint32_t> written_;
  std::map<Id, int> writers_;      // of a value, by register
  std::set<Id> numbers_, values_;  // that differ from block to block
};

}  // namespace

void hoist(Code& code) { Hoister(code).run(); }

}  // namespace blocks
