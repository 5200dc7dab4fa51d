#include "chains.h"

#include "check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

namespace blocks {

namespace {

/// One primitive of two or one, or a choice; operands are registers, or, from `n_registers` on, what
/// a step of two primitives has in its middle.
struct Operation {
  uint16_t code;
  bool is_choice = false;
  std::array<Id, 4> operands{none, none, none, none};
  uint8_t singles = 0;
  Id out = none;

  bool is_single(size_t k) const { return (singles >> k & 1) != 0; }
};

bool is_chained(const Step& s) {
  bool is_plain = s.is_block && s.rows == 0 && s.from == Type::f32 && s.to == Type::f32;
  if (!is_plain) return false;
  const Elements& e = elements();
  if (s.what == Do::join) {
    if (s.then == TN_F_SELECT) return e.chained(ChainForm::compared, s.code) != nullptr;
    return e.chained(ChainForm::first, s.code) && e.chained(ChainForm::first, s.then);
  }
  if (s.what != Do::apply || s.c != none) return false;
  return e.chained(s.b == none ? ChainForm::alone : ChainForm::first, s.code) != nullptr;
}

std::array<Id, 4> operands_of(const Step& s) { return {s.a, s.b, s.c, s.d}; }

uint16_t turned(uint16_t comparison) {
  switch (comparison) {
    case TN_F_LT:
      return TN_F_GT;
    case TN_F_LE:
      return TN_F_GE;
    case TN_F_GT:
      return TN_F_LT;
    case TN_F_GE:
      return TN_F_LE;
    default:
      return comparison;
  }
}

std::vector<Operation> operations_of(const std::vector<Step>& steps, Id n_registers) {
  std::vector<Operation> out;
  for (const Step& s : steps) {
    if (s.what == Do::apply) {
      out.push_back({s.code, false, {s.a, s.b, none, none}, s.singles, s.out});
    } else if (s.then == TN_F_SELECT) {
      out.push_back({s.code, true, operands_of(s), s.singles, s.out});
    } else {
      Id middle = n_registers + static_cast<Id>(out.size());
      out.push_back({s.code, false, {s.a, s.b, none, none}, s.singles, middle});
      bool is_single = (s.singles & c_is_single) != 0;
      uint8_t bit = s.is_second ? a_is_single : b_is_single;
      std::array<Id, 4> operands{middle, s.c, none, none};
      if (s.is_second) std::swap(operands[0], operands[1]);
      out.push_back({s.then, false, operands, is_single ? bit : uint8_t{0}, s.out});
    }
  }
  return out;
}

/// Which operand the accumulator is, and what is asked of it.
struct Taking {
  ChainForm form;
  uint16_t code;
  std::array<size_t, 3> others{4, 4, 4};  // operands that come from places; 4: none
  int n_taken = 1;                        // operands that are the accumulator
};

std::optional<Taking> taking(const Operation& o, Id accumulator) {
  auto is = [&](size_t k) { return o.operands[k] == accumulator && !o.is_single(k); };
  if (o.is_choice) {
    for (size_t k : {size_t{0}, size_t{1}}) {
      if (!is(k)) continue;
      size_t other = 1 - k;
      uint16_t code = k == 0 ? o.code : turned(o.code);
      if (!is(2) && !is(3)) return Taking{ChainForm::compared, code, {other, 2, 3}};
      using enum ChainForm;
      size_t chosen = is(2) ? 3 : 2;
      bool are_single = o.is_single(other) && o.is_single(chosen);
      ChainForm form = is(2)        ? are_single ? compared_if_true_and_singles : compared_if_true
                       : are_single ? compared_if_false_and_singles
                                    : compared_if_false;
      return Taking{form, code, {other, chosen, 4}, 2};
    }
    if (is(2)) return Taking{ChainForm::if_true, o.code, {0, 1, 3}};
    if (is(3)) return Taking{ChainForm::if_false, o.code, {0, 1, 2}};
    return std::nullopt;
  }
  if (o.operands[1] == none)
    return is(0) ? std::optional(Taking{ChainForm::alone, o.code}) : std::nullopt;
  if (is(0) && is(1)) return Taking{ChainForm::both, o.code, {4, 4, 4}, 2};
  auto form = [&](size_t k, ChainForm block, ChainForm single) {
    return Taking{o.is_single(k) ? single : block, o.code, {k, 4, 4}};
  };
  if (is(0)) return form(1, ChainForm::first, ChainForm::first_and_single);
  if (is(1)) return form(0, ChainForm::second, ChainForm::second_and_single);
  return std::nullopt;
}

bool is_of_numbers(ChainForm form) {
  return form <= ChainForm::both || form == ChainForm::compared_if_true_and_singles ||
         form == ChainForm::compared_if_false_and_singles;
}

/// The accumulator's program for a list of operations.
class Writer {
 public:
  Writer(Chain& out, std::vector<Operation> operations, Id n_registers)
      : out_(out), operations_(std::move(operations)), n_registers_(n_registers) {
    for (const Operation& o : operations_) count_uses(o, 1);
  }

  /// `is_needed`: by register, whether other steps read it.
  template <class F>
  void run(F is_needed) {
    Id accumulator = none;
    for (size_t i = 0; i < operations_.size(); ++i) {
      const Operation& o = operations_[i];
      auto take = taking(o, accumulator);
      if (!take) take = load_for(o);
      emit(*take, o);
      count_uses(o, -1);
      accumulator = o.out;
      keep(i, o.out < n_registers_ && is_needed(o.out));
    }
    add(ChainForm::end, 0);
    number_places();
  }

 private:
  // Kinds of places, until it is known how many there are of each.
  enum Kind : uint32_t { block, saved, vector, number };
  static uint32_t place(Kind kind, size_t index) {
    return kind << 24 | static_cast<uint32_t>(index);
  }
  static uint32_t place_in(std::vector<Id>& list, Kind kind, Id id) {
    auto at = std::ranges::find(list, id);
    size_t index = static_cast<size_t>(at - list.begin());
    if (at == list.end()) list.push_back(id);
    return place(kind, index);
  }
  uint32_t block_place(Id id, bool reads) {
    uint32_t p = place_in(out_.blocks, block, id);
    size_t index = p & 0xFFFFFF;
    out_.is_read.resize(out_.blocks.size()), out_.is_written.resize(out_.blocks.size());
    if (!reads)
      out_.is_written[index] = true;
    else if (!out_.is_written[index])
      out_.is_read[index] = true;
    return p;
  }
  // What the chain has made and not written lies among what it has saved.
  uint32_t place_of(Id id) {
    auto at = std::ranges::find(saved_, id);
    if (at != saved_.end()) return place(saved, static_cast<size_t>(at - saved_.begin()));
    return block_place(id, true);
  }

  void count_uses(const Operation& o, int by) {
    for (size_t k = 0; k < o.operands.size(); ++k)
      if (o.operands[k] != none && !o.is_single(k)) uses_[o.operands[k]] += by;
  }
  void add(ChainForm form, uint16_t code, std::array<uint32_t, 3> places = {}) {
    out_.operations.push_back({elements().chained(form, code), places[0], places[1], places[2]});
  }
  Taking load_for(const Operation& o) {
    size_t k = o.is_single(0) && !o.is_choice ? 1 : 0;
    if (o.is_choice)
      while (k < 3 && o.is_single(k)) ++k;
    if (o.is_single(k)) {
      add(ChainForm::load_single, 0, {place_in(out_.numbers, number, o.operands[k])});
      Operation whole = o;
      whole.singles = static_cast<uint8_t>(whole.singles & ~(1u << k));
      return *taking(whole, o.operands[k]);
    }
    add(ChainForm::load, 0, {place_of(o.operands[k])});
    return *taking(o, o.operands[k]);
  }
  void emit(const Taking& take, const Operation& o) {
    std::array<uint32_t, 3> places{};
    for (size_t i = 0; i < 3 && take.others[i] < 4; ++i) {
      Id id = o.operands[take.others[i]];
      bool is_single = o.is_single(take.others[i]);
      places[i] = !is_single                 ? place_of(id)
                  : is_of_numbers(take.form) ? place_in(out_.numbers, number, id)
                                             : place_in(out_.vectors, vector, id);
    }
    add(take.form, take.code, places);
  }
  // What the next operation does not take, or another one needs, too.
  void keep(size_t i, bool is_needed) {
    Id id = operations_[i].out;
    auto next = i + 1 < operations_.size() ? taking(operations_[i + 1], id) : std::nullopt;
    bool is_used_later = uses_[id] > (next ? next->n_taken : 0);
    std::ranges::replace_if(
        saved_, [&](Id s) { return s != none && uses_[s] == 0; }, none);
    if (is_needed) return add(ChainForm::save, 0, {block_place(id, false)});
    if (!is_used_later) return;
    auto free = std::ranges::find(saved_, none);
    size_t index = static_cast<size_t>(free - saved_.begin());
    if (free == saved_.end()) saved_.push_back(none);
    saved_[index] = id;
    add(ChainForm::save, 0, {place(saved, index)});
  }

  void number_places() {
    out_.n_saved = static_cast<uint32_t>(saved_.size());
    size_t first[] = {0, out_.blocks.size(), out_.blocks.size() + out_.n_saved,
                      out_.blocks.size() + out_.n_saved + out_.vectors.size()};
    for (ChainStep& s : out_.operations)
      for (uint32_t* p : {&s.a, &s.b, &s.c})
        *p = static_cast<uint32_t>(first[*p >> 24]) + (*p & 0xFFFFFF);
  }

  Chain& out_;
  std::vector<Operation> operations_;
  const Id n_registers_;
  std::vector<Id> saved_;  // by place; none: it is free
  std::map<Id, int> uses_;
};

}  // namespace

// ---- running them

int64_t Chain::scratch_bytes() const {
  const Elements& e = elements();
  auto count = [](size_t n) { return static_cast<int64_t>(n); };
  return count(blocks.size() + n_saved) * e.chain_elements * 4 +
         count(vectors.size()) * e.vector_bytes;
}

void Chain::run(void* const* registers, std::byte* scratch, int64_t n) const {
  const Elements& e = elements();
  ChainPlace places[most_places];
  ChainPlace* p = places;
  int64_t group = e.chain_elements * 4;
  auto at = [&](Id r) { return static_cast<std::byte*>(registers[r]); };
  for (Id r : blocks) *p++ = {at(r), -1, e.vector_bytes};
  for (uint32_t i = 0; i < n_saved; ++i, scratch += group) *p++ = {scratch, 0, e.vector_bytes};
  for (Id r : vectors) {
    auto* to = reinterpret_cast<float*>(scratch);
    std::fill_n(to, e.vector_bytes / 4, *reinterpret_cast<const float*>(at(r)));
    *p++ = {scratch, 0, 0};
    scratch += e.vector_bytes;
  }
  for (Id r : numbers) *p++ = {at(r), 0, 0};
  int64_t whole = n / e.chain_elements, done = whole * group;
  e.run_chain(operations.data(), places, whole);
  auto rest = static_cast<size_t>(n * 4 - done);
  if (rest == 0) return;
  // What is left goes through memory of its own.
  for (size_t b = 0; b < blocks.size(); ++b, scratch += group) {
    places[b] = {scratch, 0, e.vector_bytes};
    std::memset(scratch, 0, static_cast<size_t>(group));
    if (is_read[b]) std::memcpy(scratch, at(blocks[b]) + done, rest);
  }
  e.run_chain(operations.data(), places, 1);
  for (size_t b = 0; b < blocks.size(); ++b)
    if (is_written[b]) std::memcpy(at(blocks[b]) + done, places[b].at, rest);
}

// ---- finding them

ChainMaker::ChainMaker(const Code& code)
    : code_(code),
      mentions_(code.offsets.size()),
      writers_(code.offsets.size()),
      stores_(code.n_buffers + code.scratch_offsets.size()) {
  for (const Body& body : code.bodies)
    for (const Step& s : body.steps) {
      Kinds kinds = numbers_of(s);
      if (s.what == Do::store) stores_[s.buffer] = true;
      for (Id id : {kinds.a ? none : s.a, kinds.b ? none : s.b, s.c, s.d})
        if (id != none) ++mentions_[id];
      if (s.out == none || kinds.out) continue;
      // Where a result is to be is not a use of it.
      if (s.what != Do::point) ++mentions_[s.out];
      if (s.what != Do::point && s.what != Do::store) ++writers_[s.out];
    }
}

// Whether it may run before the steps of a group that it stands behind.
bool ChainMaker::can_wait(const Step& s, const Group& group) const {
  if (s.what <= Do::most) return true;
  bool is_number = s.what == Do::constant || s.what == Do::real || s.what == Do::value_of_number;
  bool is_single = s.what == Do::apply && !s.is_block;
  bool is_load = s.what == Do::load && s.c == none && !stores_[s.buffer] &&
                 static_cast<Where>(s.code) != Where::places;
  if (!is_number && !is_single && !is_load && s.what != Do::point) return false;
  if (s.what != Do::point && writers_[s.out] != 1) return false;
  // Registers whose lives do not meet share memory.
  auto is_touched = [&](Id r) {
    if (r == none) return false;
    bool is_same = r == s.out;
    return is_same ||
           (s.is_block && s.what != Do::point && code_.offsets[r] == code_.offsets[s.out]);
  };
  return std::ranges::none_of(group.steps, [&](const Step& step) {
    std::array<Id, 4> operands = operands_of(step);
    return is_touched(step.out) || std::ranges::any_of(operands, is_touched);
  });
}

bool ChainMaker::has_others(const Group& group, Id value) const {
  int own = 0;
  for (const Step& s : group.steps) {
    own += s.out == value;
    for (Id id : operands_of(s)) own += id == value;
  }
  return mentions_[value] > own;
}

void ChainMaker::close(Group& group, Chained& out) const {
  out.steps.insert(out.steps.end(), group.before.begin(), group.before.end());
  if (group.steps.size() > 1) {
    Chain chain;
    chain.n_steps = group.steps.size();
    auto n_registers = static_cast<Id>(code_.offsets.size());
    Writer writer(chain, operations_of(group.steps, n_registers), n_registers);
    writer.run([&](Id value) { return has_others(group, value); });
    int64_t room = 3 * ((code_.width * 8 + 63) / 64 * 64);
    if (chain.n_places() <= most_places && chain.scratch_bytes() <= room)
      out.chains.emplace_back(out.steps.size(), std::move(chain));
  }
  out.steps.insert(out.steps.end(), group.steps.begin(), group.steps.end());
  group = {};
}

Chained ChainMaker::chained(size_t body) const {
  Chained out;
  Group group;
  for (const Step& s : code_.bodies[body].steps) {
    if (is_chained(s) && writers_[s.out] == 1) {
      group.steps.push_back(s);
      continue;
    }
    if (!group.steps.empty() && can_wait(s, group)) {
      group.before.push_back(s);
      continue;
    }
    close(group, out);
    out.steps.push_back(s);
  }
  close(group, out);
  return out;
}

}  // namespace blocks
