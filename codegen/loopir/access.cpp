// Which buffers steps and items read and write.
#include "kernel.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace loopir {

namespace {

/// The values that are a part of an index.
void add_values(const Expressions& x, Id index, std::vector<Id>& out) {
  if (!x.reads_data(index)) return;
  const IndexNode& n = x.index_at(index);
  if (n.kind == IndexKind::value) out.push_back(static_cast<Id>(n.number));
  for (Id o : n.operands) add_values(x, o, out);
}

}  // namespace

void for_each_index_load(Expressions& x, Id index,
                         const std::function<void(const ValueNode&)>& see) {
  std::vector<Id> values;
  add_values(x, index, values);
  for (Id v : values) for_each_load(x, v, see);
}

void for_each_extent_load(Expressions& x, const Ids& variables,
                          const std::function<void(const ValueNode&)>& see) {
  for (Id v : variables) for_each_index_load(x, x.extent_of(v), see);
}

void for_each_load(Expressions& x, Id value, const std::function<void(const ValueNode&)>& see) {
  std::vector<Id> open{value};
  std::unordered_map<Id, bool> seen;
  while (!open.empty()) {
    Id v = open.back();
    open.pop_back();
    if (!seen.emplace(v, true).second) continue;
    const ValueNode n = x.value_at(v);
    if (n.code == value_load) see(n);
    Operands read = operands_of(n);
    for (Id o : read.values)
      if (o != none) open.push_back(o);
    if (read.index != none) add_values(x, read.index, open);
  }
}

namespace {

auto buffers_into(Ids& out) {
  return [&](const ValueNode& load) {
    if (std::find(out.begin(), out.end(), load.a) == out.end()) out.push_back(load.a);
  };
}

}  // namespace

void add_loads(Expressions& x, Id value, Ids& out) { for_each_load(x, value, buffers_into(out)); }
void add_index_loads(Expressions& x, Id index, Ids& out) {
  for_each_index_load(x, index, buffers_into(out));
}
void add_extent_loads(Expressions& x, const Ids& variables, Ids& out) {
  for_each_extent_load(x, variables, buffers_into(out));
}

namespace {

struct Accesses {
  Program& program;

  Access operator()(const Loop& loop) const {
    Access out{{}, {loop.buffer}};
    add_loads(program.expressions, loop.value, out.reads);
    add_index_loads(program.expressions, loop.index, out.reads);
    add_extent_loads(program.expressions, loop.reduced, out.reads);
    return out;
  }
  Access operator()(const Kernel& kernel) const {
    Access out;
    for (const Stage& stage : kernel.stages) {
      add_extent_loads(program.expressions, stage.inner, out.reads);
      for (const Statement& s : stage.statements) {
        add_loads(program.expressions, s.value, out.reads);
        if (s.buffer == none) continue;
        out.writes.push_back(s.buffer);
        add_index_loads(program.expressions, s.index, out.reads);
      }
    }
    return out;
  }
  Access operator()(const Product& p) const {
    Access out{{p.left.buffer, p.right.buffer}, {p.result.buffer}};
    return finished(std::move(out), p.bias, p.epilogue);
  }
  Access operator()(const Convolution& c) const {
    Access out{{c.source.buffer, c.weights.buffer}, {c.result.buffer}};
    return finished(std::move(out), c.bias, c.epilogue);
  }
  Access operator()(const ConvolutionGradient& g) const {
    return {{g.gradient.buffer, g.operand.buffer}, {g.result.buffer}};
  }
  Access operator()(const Attention& a) const {
    Access out{{a.query.buffer, a.key.buffer, a.value.buffer}, {a.result.buffer}};
    if (a.mask) out.reads.push_back(a.mask->buffer);
    if (a.log_sums) out.writes.push_back(a.log_sums->buffer);
    return out;
  }
  Access operator()(const AttentionGradient& g) const {
    Access out{{g.gradient.buffer, g.of.query.buffer, g.of.key.buffer, g.of.value.buffer,
                g.of.result.buffer, g.of.log_sums->buffer},
               {g.of_query.buffer, g.of_key.buffer, g.of_value.buffer}};
    if (g.of.mask) out.reads.push_back(g.of.mask->buffer);
    return out;
  }
  Access operator()(const Recurrence& r) const {
    Access out;
    auto add = [](const View& v, Ids& list) {
      if (std::find(list.begin(), list.end(), v.buffer) == list.end()) list.push_back(v.buffer);
    };
    for (const RecurrentDirection& d : r.directions) {
      for (const View* v : {&d.input, &d.weights, &d.state}) add(*v, out.reads);
      for (const auto* v : {&d.bias, &d.cell})
        if (*v) add(**v, out.reads);
      for (const View* v : {&d.result, &d.last_state}) add(*v, out.writes);
      if (d.last_cell) add(*d.last_cell, out.writes);
    }
    return out;
  }
  Access operator()(const Extern& e) const {
    Access out;
    for (const auto& [id, view] : e.tensors) out.reads.push_back(view.buffer);
    for (Id r : e.results)
      if (r != none) out.writes.push_back(r);
    return out;
  }

 private:
  static Access finished(Access out, const std::optional<View>& bias,
                         const std::vector<EpilogueOp>& epilogue) {
    if (bias) out.reads.push_back(bias->buffer);
    for (const EpilogueOp& op : epilogue)
      if (op.operand.buffer != none) out.reads.push_back(op.operand.buffer);
    return out;
  }
};

}  // namespace

namespace {

/// Who reads a view that the host makes reads the memory that it shows.
Access with_shown(const Program& program, Access access) {
  for (size_t i = 0; i < access.reads.size(); ++i)
    if (Id shown = program.buffers[access.reads[i]].shows; shown != none)
      access.reads.push_back(shown);
  return access;
}

}  // namespace

Access access_of(Program& program, const Step& step) {
  return with_shown(program, std::visit(Accesses{program}, step));
}
Access access_of(Program& program, const Item& item) {
  return with_shown(program, std::visit(Accesses{program}, item));
}

namespace {

/// Whether the numbers of a call, sizes or real ones, are a part of what an item computes.
struct NumbersRead {
  Program& program;

  bool operator()(const Kernel& kernel) const {
    if (reads_any(kernel.outer)) return true;
    for (const Stage& stage : kernel.stages) {
      if (reads_any(stage.inner)) return true;
      for (const Statement& s : stage.statements)
        if (reads(s.value) || (s.index != none && reads_in_index(s.index)) ||
            (s.position != none && reads_in_index(s.position)))
          return true;
    }
    return false;
  }
  bool operator()(const Product& p) const {
    return in_views({&p.left, &p.right, &p.result}, p.bias, p.epilogue);
  }
  bool operator()(const Convolution& c) const {
    return in_views({&c.source, &c.weights, &c.result}, c.bias, c.epilogue);
  }
  bool operator()(const ConvolutionGradient& g) const {
    return in_views({&g.gradient, &g.operand, &g.result}, std::nullopt, {});
  }
  bool operator()(const Attention& a) const {
    return in_views({&a.query, &a.key, &a.value, &a.result}, a.mask, {});
  }
  bool operator()(const AttentionGradient& g) const {
    return (*this)(g.of) || in_views({&g.gradient, &g.of_query, &g.of_key, &g.of_value}, {}, {});
  }
  bool operator()(const Recurrence& r) const {
    return std::any_of(r.directions.begin(), r.directions.end(), [&](const auto& d) {
      return in_views({&d.input, &d.state, &d.result}, std::nullopt, {});
    });
  }
  bool operator()(const Extern&) const { return true; }

 private:
  bool has_symbols(Id index) const {
    std::set<uint32_t> symbols;
    program.expressions.add_symbols(index, symbols);
    return !symbols.empty();
  }
  bool reads_any(const Ids& variables) const {
    return std::any_of(variables.begin(), variables.end(),
                       [&](Id v) { return reads_in_index(program.expressions.extent_of(v)); });
  }
  bool reads(Id value) const {
    Expressions& x = program.expressions;
    std::vector<Id> open{value};
    std::set<Id> seen;
    while (!open.empty()) {
      Id v = open.back();
      open.pop_back();
      if (!seen.insert(v).second) continue;
      const ValueNode n = x.value_at(v);
      Operands read = operands_of(n);
      bool is_number = n.code == value_real || n.code == value_drawn;
      if (is_number || (read.index != none && has_symbols(read.index))) return true;
      for (Id o : read.values)
        if (o != none) open.push_back(o);
      if (read.index != none) add_values(x, read.index, open);
    }
    return false;
  }
  bool reads_in_index(Id index) const {
    std::vector<Id> values;
    add_values(program.expressions, index, values);
    return has_symbols(index) ||
           std::any_of(values.begin(), values.end(), [&](Id v) { return reads(v); });
  }
  bool in_view(const View& v) const {
    auto any = [&](const Ids& ids) {
      return std::any_of(ids.begin(), ids.end(), [&](Id i) { return has_symbols(i); });
    };
    return has_symbols(v.offset) || any(v.sizes) || any(v.strides);
  }
  bool in_views(std::initializer_list<const View*> views, const std::optional<View>& more,
                const std::vector<EpilogueOp>& epilogue) const {
    return std::any_of(views.begin(), views.end(), [&](const View* v) { return in_view(*v); }) ||
           (more && in_view(*more)) ||
           std::any_of(epilogue.begin(), epilogue.end(), [&](const EpilogueOp& op) {
             return op.operand.buffer != none && in_view(op.operand);
           });
  }
};

}  // namespace

bool reads_numbers(Program& program, const Item& item) {
  return std::visit(NumbersRead{program}, item);
}

}  // namespace loopir
