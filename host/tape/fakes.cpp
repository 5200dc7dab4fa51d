// Making fakes for what nodes keep.
#include "tape/fakes.h"

#include "autograd/saved/saved_tensor.h"
#include "autograd/saved/saved_tensor_hooks.h"
#include "core/error.h"
#include "core/sym/sym_expr.h"
#include "core/tensor/tensor_impl.h"
#include "graph/symbol_use.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace tenon::tape {

using autograd::Collector;
using autograd::GradMeta;
using autograd::TensorLayout;

namespace {

IntList plain(const int64_t* words, const Tensor& t) {
  return {words, static_cast<size_t>(t.head()->ndim)};
}

Dims permuted_strides(const Dims& sizes, uint64_t order) {
  Dims strides(sizes.size());
  SymInt running = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    size_t dim = order >> (4 * i) & 0xf;
    strides[dim] = running;
    running = running * sym_max(sizes[dim], 1);
  }
  return strides;
}

// Sizes that follow from the key.
std::set<uint32_t> fixed_numbers(const Collector& collected) {
  std::set<uint32_t> fixed;
  for (const Collector::SizePlace& p : collected.size_places)
    for (uint32_t i = 0; p.is_fixed && i < p.count; ++i) fixed.insert(p.first + i);
  return fixed;
}

}  // namespace

TapeFakes::TapeFakes(const TapeWalk& walk, ShapeEnv& env, const std::vector<bool>* changed)
    : walk_(walk), env_(env) {
  ShapeEnvScope scope(env);
  make_numbers(changed);
  const Collector& c = walk.collected;
  for (size_t i = 0; i < c.tensors.size(); ++i)
    lifted_.push_back(fake_like(c.tensors[i], c.first_numbers[i]));
  make_stand_ins();
}

// Every size is a symbol of its own, from 0 on; the pass itself shows which of them are equal.
void TapeFakes::make_numbers(const std::vector<bool>* changed) {
  const std::vector<int64_t>& words = walk_.collected.numbers;
  SymbolOptions options = SymbolOptions::for_number();
  options.is_size = true;
  std::set<uint32_t> floating;
  for (const Collector::ScalarPlace& p : walk_.collected.scalar_places)
    if (p.is_floating) floating.insert(p.number);
  std::set<uint32_t> fixed = fixed_numbers(walk_.collected);
  for (uint32_t n = 0; n < words.size(); ++n) {
    bool is_symbol = !fixed.contains(n) && (!changed || (n < changed->size() && (*changed)[n]));
    if (floating.contains(n)) {
      auto value = std::bit_cast<double>(words[n]);
      SymbolSource source{SymbolSource::Kind::input_value, n, 0};
      floats_.emplace(n, is_symbol ? env_.create_float(value, source, message("number[{}]", n))
                                   : SymFloat(value));
      numbers_.emplace_back(0);
      continue;
    }
    is_symbol = is_symbol && words[n] >= 0;  // negative ones are in the key
    numbers_.push_back(is_symbol
                           ? env_.create_symbol(words[n], {SymbolSource::Kind::input_value, n, 0},
                                                message("sizes[{}]", n), options)
                           : SymInt(words[n]));
  }
}

Tensor TapeFakes::fake_like(const Tensor& real, uint32_t at) const {
  TensorMeta meta;
  meta.dtype = real.dtype();
  meta.device = real.device();
  const detail::TensorHead* head = real.head();
  for (int32_t d = 0; d < head->ndim; ++d) meta.sizes.push_back(number(at++));
  TensorLayout layout = autograd::layout_of(plain(head->sizes, real), plain(head->strides, real),
                                            head->flags & TN_T_CONTIGUOUS);
  if (layout.kind == TensorLayout::Kind::contiguous)
    meta.strides = contiguous_strides(list_of(meta.sizes));
  else if (layout.kind == TensorLayout::Kind::permuted)
    meta.strides = permuted_strides(meta.sizes, layout.order);
  else
    for (int64_t stride : plain(head->strides, real))
      meta.strides.push_back(stride == 0 || stride == 1 ? SymInt(stride) : number(at++));
  SymInt offset = head->storage_offset ? number(at) : SymInt(0);
  Tensor fake = make_fake(meta, offset);
  impl_of(fake)->flags |= head->flags & (TN_T_CONJ | TN_T_NEG);
  if (is_wrapped_number(real)) impl_of(fake)->ensure_extra().wrapped_number = true;
  return fake;
}

void TapeFakes::make_stand_ins() {
  const Collector& c = walk_.collected;
  for (const Collector::SavedPlace& p : c.saved_places)
    stand_ins_.tensors[p.owner] = lifted_[p.tensor];
  for (const Collector::PackedPlace& p : c.packed_places) {
    unpacked_.push_back(fake_like(p.owner->packed()->like, p.first));
    stand_ins_.tensors[p.owner] = unpacked_.back();
  }
  for (const Collector::ListPlace& p : c.list_places) {
    auto& words = stand_ins_.lists[p.owner];
    for (uint32_t i = 0; i < p.count; ++i)
      words.push_back(static_cast<uint64_t>(number(p.first + i).word()));
  }
  for (const Collector::ScalarPlace& p : c.scalar_places)
    stand_ins_.scalars.emplace(
        p.owner, p.is_floating ? Value::of(floats_.at(p.number)) : Value::of(number(p.number)));
  for (const Collector::MetaPlace& p : c.meta_places)
    stand_ins_.metas[p.owner].push_back(p.meta.defined() ? fake_like(p.meta, p.first) : Tensor());
  for (const Visit& v : walk_.visits) {
    uint32_t at = v.first_number;
    auto& inputs = stand_ins_.inputs[v.node];
    for (const GradMeta& meta : v.node->inputs) {
      GradMeta& own = inputs.emplace_back(meta);
      for (SymInt& size : own.sizes) size = number(at++);
    }
  }
}

const Tensor* TapeFakes::find_lifted(const Tensor& real) const {
  const std::vector<Tensor>& reals = walk_.collected.tensors;
  auto at = std::ranges::find_if(reals, [&](const Tensor& t) { return t.is_same(real); });
  return at == reals.end() ? nullptr : &lifted_[static_cast<size_t>(at - reals.begin())];
}

const Tensor& TapeFakes::lifted_of(const Tensor& real) const {
  const Tensor* fake = find_lifted(real);
  ensure(fake, "a tensor of the pass was not collected");
  return *fake;
}

std::vector<const Expr*> TapeFakes::symbols() const {
  std::vector<const Expr*> out;
  for (uint32_t n = 0; n < numbers_.size(); ++n) out.push_back(symbol(n));
  return out;
}

const Expr* TapeFakes::symbol(uint32_t n) const {
  if (auto real = floats_.find(n); real != floats_.end())
    return real->second.is_symbolic() ? real->second.expr() : nullptr;
  return numbers_[n].is_symbolic() ? numbers_[n].expr() : nullptr;
}

bool TapeFakes::always_holds(const Expr* condition) const {
  if (condition->op != SymOp::le || condition->n_operands != 2) return false;
  const Expr *low = condition->operand(0), *high = condition->operand(1);
  return low->is_constant() && low->integer() == 0 && high->is_symbol();
}

Tensor TapeFakes::gradient(const GradMeta& meta) const {
  ShapeEnvScope scope(env_);
  return make_fake(contiguous_meta(list_of(meta.sizes), meta.dtype, meta.device));
}

namespace {

ValueId add_number(Graph& graph, Number number, const std::string& name) {
  GraphValue value;
  value.kind = number.is_floating() ? ValueKind::sym_float : ValueKind::sym_int;
  value.scalar = number;
  value.name = name;
  return graph.add_input(std::move(value));
}

std::map<const Expr*, std::pair<ValueId, int32_t>> sizes_of_inputs(const Graph& graph) {
  std::map<const Expr*, std::pair<ValueId, int32_t>> out;
  for (ValueId in : graph.inputs()) {
    const Dims& sizes = graph.value(in).meta.sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d].is_symbolic() && sizes[d].expr()->is_symbol())
        out.try_emplace(sizes[d].expr(), in, static_cast<int32_t>(d));
  }
  return out;
}

}  // namespace

std::vector<uint32_t> TapeFakes::bind_symbols(Graph& graph) const {
  std::set<const Expr*> used = mentioned_symbols(graph);
  // Lowering writes equal symbols as one of them.
  for (const Expr* symbol : std::set(used))
    for (const Expr* same : free_symbols(env_.simplify(symbol))) used.insert(same);
  auto shown = sizes_of_inputs(graph);
  std::vector<SymbolBinding> known;
  std::vector<uint32_t> numbers;
  for (uint32_t n = 0; n < numbers_.size(); ++n) {
    const Expr* own = symbol(n);
    if (!own || !used.contains(own)) continue;
    auto at = shown.find(own);
    if (at != shown.end())
      known.push_back({own, at->second.first, at->second.second});
    else
      known.push_back({own, add_number(graph, number_over(own), env_.info(own).name), -1});
    numbers.push_back(n);
  }
  // Symbols that nodes of the graph compute stand there already; callers know those that follow.
  graph.symbols.insert(graph.symbols.begin(), known.begin(), known.end());
  return numbers;
}

}  // namespace tenon::tape
