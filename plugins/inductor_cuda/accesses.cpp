// Walks over the values and indices of a nest.
#include "accesses.h"

#include <lanes/lane_ops.h>
#include <lanes/vector_math.h>
#include <loopir/making/nest_key.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace inductor_cuda {

using loopir::IndexKind;
using loopir::IndexNode;
using loopir::Stage;
using loopir::Statement;
using loopir::ValueNode;

namespace {

/// Every value and index below some, once.
class Walk {
 public:
  explicit Walk(loopir::Expressions& x) : x_(x) {}
  std::function<void(const ValueNode&)> at_value = [](const ValueNode&) {};
  std::function<void(Id)> at_id = [](Id) {};
  std::function<void(const IndexNode&)> at_index = [](const IndexNode&) {};

  void value(Id v) {
    if (v == none || !values_.insert(v).second) return;
    const ValueNode n = x_.value_at(v);
    at_value(n);
    at_id(v);
    loopir::Operands read = loopir::operands_of(n);
    for (Id o : read.values) value(o);
    index(read.index);
  }
  void index(Id i) {
    if (i == none || !indices_.insert(i).second) return;
    const IndexNode n = x_.index_at(i);
    at_index(n);
    if (n.kind == IndexKind::value) value(static_cast<Id>(n.number));
    for (Id o : n.operands) index(o);
  }
  void statement(const Statement& s) {
    value(s.value);
    index(s.index);
    index(s.position);
  }

 private:
  loopir::Expressions& x_;
  std::set<Id> values_, indices_;
};

}  // namespace

std::vector<Access> accesses_of(loopir::Program& program, const loopir::Nest& nest) {
  std::vector<Access> out;
  for (size_t i = 0; i < nest.kernel.stages.size(); ++i) {
    Id lanes = nest.lanes != none ? nest.lanes : nest.lanes_of_stage[i];
    Walk walk(program.expressions);
    walk.at_value = [&](const ValueNode& n) {
      if (n.code == loopir::value_load) out.push_back({n.a, n.b, lanes, n.c != none});
    };
    for (const Statement& s : nest.kernel.stages[i].statements) {
      if (s.buffer != none) {
        bool is_one = s.fold != loopir::Fold::none && !s.is_scan;
        out.push_back({s.buffer, s.index, is_one && nest.lanes == none ? none : lanes,
                       s.store != loopir::Store::set || s.is_scatter,
                       s.store != loopir::Store::set});
      }
      walk.statement(s);
    }
  }
  return out;
}

size_t rows_folded(loopir::Program& program, const loopir::Nest& nest) {
  loopir::Expressions& x = program.expressions;
  auto varies = [&](Id index, const Ids& over) {
    const Ids& all = x.variables_of_index(index);
    return std::ranges::any_of(over, [&](Id v) { return std::ranges::find(all, v) != all.end(); });
  };
  std::set<Id> out;
  for (const Stage& stage : nest.kernel.stages) {
    Walk walk(x);
    walk.at_value = [&](const ValueNode& n) {
      bool is_memory = n.code == loopir::value_load &&
                       program.buffers[n.a].place != loopir::Buffer::Place::scratch;
      if (is_memory && !stage.inner.empty() && varies(n.b, stage.inner)) out.insert(n.a);
    };
    for (const Statement& s : stage.statements)
      if (s.fold != loopir::Fold::none) walk.statement(s);
  }
  return out.size();
}

namespace {

/// Functions that are computed in single precision, on a GPU by few instructions.
bool is_short_function(uint16_t code) {
  constexpr uint16_t all[] = {TN_F_EXP, TN_F_EXP2, TN_F_LOG, TN_F_SIGMOID, TN_F_TANH, TN_F_ERF};
  return std::ranges::find(all, code) != std::end(all);
}

}  // namespace

bool needs_few_registers(loopir::Program& program, const loopir::Nest& nest) {
  constexpr size_t most_accesses = 4;
  if (accesses_of(program, nest).size() > most_accesses) return false;
  bool out = true;
  Walk walk(program.expressions);
  walk.at_value = [&](const ValueNode& n) {
    bool is_load = n.code == loopir::value_load && n.c == none;
    bool is_plain = is_load || n.code == loopir::value_constant || n.code < loopir::value_constant;
    bool is_short =
        lanes::is_math(n.code) ? is_short_function(n.code) : !lanes::is_called(n.code, n.dtype);
    out = out && is_plain && is_short && loopir::item_size(n.dtype) <= 4;
  };
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements) walk.statement(s);
  return out;
}

std::vector<AlikeStatements> alike_statements(loopir::Program& program, const loopir::Nest& nest) {
  std::map<std::string, AlikeStatements> by_code;
  const std::vector<Statement>& all = nest.kernel.stages[0].statements;
  loopir::Nest alone = nest;
  for (size_t n = 0; n < all.size(); ++n) {
    alone.kernel.stages[0].statements = {all[n]};
    Ids buffers;
    for (const Access& a : accesses_of(program, alone))
      if (std::ranges::find(buffers, a.buffer) == buffers.end()) buffers.push_back(a.buffer);
    std::string code = loopir::key_of(
        program, alone, {.head = "", .buffers = buffers, .scratch_offsets = {}, .past_caches = {}});
    AlikeStatements& alike = by_code[code];
    alike.numbers.push_back(n);
    alike.buffers.push_back(std::move(buffers));
  }
  std::vector<AlikeStatements> out;
  for (auto& [code, alike] : by_code) out.push_back(std::move(alike));
  return out;
}

std::vector<Access> draws_of(loopir::Program& program, const loopir::Nest& nest) {
  std::vector<Access> out;
  for (size_t i = 0; i < nest.kernel.stages.size(); ++i) {
    Id lanes = nest.lanes != none ? nest.lanes : nest.lanes_of_stage[i];
    Walk walk(program.expressions);
    walk.at_value = [&](const ValueNode& n) {
      if (n.code == loopir::value_drawn) out.push_back({none, n.b, lanes});
    };
    for (const Statement& s : nest.kernel.stages[i].statements) walk.statement(s);
  }
  return out;
}

namespace {

/// The outer variable over which an index counts by ones, where lanes are apart; or none.
Id crossing(loopir::Expressions& x, const loopir::Nest& nest, Id index) {
  auto of_lanes = x.coefficient(index, nest.lanes);
  if (!of_lanes || x.is(*of_lanes, 0) || x.is(*of_lanes, 1)) return none;
  for (Id v : nest.kernel.outer) {
    auto step = v == nest.lanes ? std::nullopt : x.coefficient(index, v);
    if (step && x.is(*step, 1)) return v;
  }
  return none;
}

}  // namespace

Ids crossed_loads(loopir::Program& program, const loopir::Nest& nest, Id& across) {
  loopir::Expressions& x = program.expressions;
  Ids out;
  Walk walk(x);
  walk.at_id = [&](Id v) {
    const ValueNode n = x.value_at(v);
    if (n.code != loopir::value_load || n.c != none || x.reads_data(n.b)) return;
    Id over = crossing(x, nest, n.b);
    if (over == none || (across != none && over != across)) return;
    across = over;
    out.push_back(v);
  };
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements) walk.statement(s);
  return out;
}

bool has_checks(loopir::Program& program, const loopir::Nest& nest) {
  bool out = false;
  Walk walk(program.expressions);
  walk.at_value = [&](const ValueNode& n) {
    out = out || n.code == loopir::value_checked || n.code == loopir::value_divisor;
  };
  for (const Stage& stage : nest.kernel.stages)
    for (const Statement& s : stage.statements) walk.statement(s);
  return out;
}

namespace {

/// Whether an index is a multiple of `of` where all variables but lanes are anything and lanes is
/// one.
class Multiples {
 public:
  Multiples(loopir::Expressions& x, Id lanes, int64_t of) : x_(x), lanes_(lanes), of_(of) {}
  Ids conditions;

  bool holds(Id i) {
    const IndexNode n = x_.index_at(i);
    switch (n.kind) {
      case IndexKind::constant:
        return n.number % of_ == 0;
      case IndexKind::variable:
        return i == lanes_;
      case IndexKind::symbol:
        conditions.push_back(i);
        return true;
      case IndexKind::sum:
        return n.number % of_ == 0 && all(n.operands);
      case IndexKind::min:
      case IndexKind::max:
        return all(n.operands);
      case IndexKind::product:
        if (n.number % of_ == 0 || some(n.operands)) return true;
        return is_number(i) && (conditions.push_back(i), true);
      default:
        return is_number(i) && (conditions.push_back(i), true);
    }
  }

 private:
  bool all(const Ids& operands) {
    return std::all_of(operands.begin(), operands.end(), [&](Id o) { return holds(o); });
  }
  // One that is known, or one that a call tells.
  bool some(const Ids& operands) {
    bool all_numbers =
        std::all_of(operands.begin(), operands.end(), [&](Id o) { return is_number(o); });
    for (bool asks : {false, true})
      for (Id o : operands) {
        size_t before = conditions.size();
        if (asks && (all_numbers || !is_number(o))) continue;
        if (holds(o) && (asks || conditions.size() == before)) return true;
        conditions.resize(before);
      }
    return false;
  }
  bool is_number(Id i) { return x_.variables_of_index(i).empty() && !x_.reads_data(i); }

  loopir::Expressions& x_;
  Id lanes_;
  int64_t of_;
};

}  // namespace

namespace {

bool is_multiple(loopir::Expressions& x, Id index, Id lanes, unsigned of,
                 std::vector<Multiple>& multiples) {
  Multiples known(x, lanes, of);
  if (!known.holds(index)) return false;
  for (Id i : known.conditions)
    if (std::ranges::find(multiples, Multiple{i, of}) == multiples.end())
      multiples.push_back({i, of});
  return true;
}

}  // namespace

unsigned widest_access(loopir::Program& program, const Access& access, unsigned most,
                       std::vector<Multiple>& multiples) {
  loopir::Expressions& x = program.expressions;
  auto step = x.coefficient(access.index, access.lanes);
  if (!step || !x.is(*step, 1)) return 1;
  for (unsigned width = most; width > 1; width /= 2)
    if (is_multiple(x, access.index, access.lanes, width, multiples)) return width;
  return 1;
}

bool is_multiple(loopir::Program& program, Id index, unsigned of,
                 std::vector<Multiple>& multiples) {
  return is_multiple(program.expressions, index, none, of, multiples);
}

namespace {

loopir::Substitution renaming(const Stage& stage, Id row) {
  return stage.inner.empty() || stage.inner[0] == row ? loopir::Substitution{}
                                                      : loopir::Substitution{{stage.inner[0], row}};
}

}  // namespace

Id common_row(loopir::Program& program, const loopir::Nest& nest) {
  loopir::Expressions& x = program.expressions;
  Id row = none;
  for (const Stage& stage : nest.kernel.stages) {
    if (stage.inner.empty()) continue;
    if (stage.inner.size() > 1) return none;
    if (row == none) row = stage.inner[0];
    if (x.extent_of(stage.inner[0]) != x.extent_of(row)) return none;
  }
  if (row == none) return none;
  loopir::Nest named = nest;
  name_rows(program, row, named);
  std::map<Id, Id> written;  // rows in scratch: at which index
  bool is_same = true;
  for (const Stage& stage : named.kernel.stages)
    for (const Statement& s : stage.statements) {
      Walk walk(x);
      walk.at_value = [&](const ValueNode& n) {
        bool is_load = n.code == loopir::value_load;
        if (!is_load || program.buffers[n.a].place != loopir::Buffer::Place::scratch) return;
        auto at = written.find(n.a);
        is_same = is_same && at != written.end() && at->second == n.b && n.c == none;
      };
      walk.statement(s);
      if (s.buffer != none) written[s.buffer] = s.index;
    }
  return is_same ? row : none;
}

void name_rows(loopir::Program& program, Id row, loopir::Nest& nest) {
  loopir::Expressions& x = program.expressions;
  for (size_t i = 0; i < nest.kernel.stages.size(); ++i) {
    Stage& stage = nest.kernel.stages[i];
    loopir::Substitution by = renaming(stage, row);
    if (stage.inner.empty()) continue;
    stage.inner = {row};
    nest.lanes_of_stage[i] = row;
    if (by.empty()) continue;
    for (Statement& s : stage.statements) {
      s.value = x.substitute(s.value, by);
      if (s.index != none) s.index = x.substitute_index(s.index, by);
      if (s.position != none) s.position = x.substitute_index(s.position, by);
    }
  }
}

void add_numbers(loopir::Program& program, const loopir::Nest& nest, const Ids& indices,
                 std::vector<uint32_t>& out) {
  loopir::Expressions& x = program.expressions;
  std::set<uint32_t> seen;
  Walk walk(x);
  walk.at_index = [&](const IndexNode& n) {
    if (n.kind == IndexKind::symbol) seen.insert(static_cast<uint32_t>(n.number));
  };
  walk.at_value = [&](const ValueNode& n) {
    if (n.code == loopir::value_real) seen.insert(n.a);
    if (n.code == loopir::value_drawn) seen.insert({n.a, n.a + 1});
  };
  for (Id i : indices) walk.index(i);
  for (Id v : nest.kernel.outer) walk.index(x.extent_of(v));
  for (const Stage& stage : nest.kernel.stages) {
    for (Id v : stage.inner) walk.index(x.extent_of(v));
    for (const Statement& s : stage.statements) walk.statement(s);
  }
  out.assign(seen.begin(), seen.end());
}

}  // namespace inductor_cuda
