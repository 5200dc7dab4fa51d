// The guards of a recording: what it took for granted about the arguments.
#include "capture/trace.h"
#include "config/flags.h"
#include "report/compile_record.h"

#include <algorithm>

namespace tenon {

void Trace::make_guards(const detail::Leaves& leaves) {
  report::PhaseScope phase("guards");
  guards.plain_list = !config::flags().dynamo.enable_cpp_guard_manager;
  guards.global = global_state();
  guards.structure = leaves.structure;
  guards.plain.assign(leaves.plain.span().begin(), leaves.plain.span().end());
  for (std::string_view text : leaves.texts.span()) guards.texts.emplace_back(text);
  guards.numbers = number_leaves_;
  bool repeated = false;
  for (size_t i = 0; i < leaves.tensors.size(); ++i) {
    const Tensor& real = *leaves.tensors[i];
    TensorGuard g{};
    g.defined = real.defined();
    size_t first = i;
    for (size_t j = 0; j < i && first == i; ++j)
      if (real.defined() && leaves.tensors[j]->is_same(real)) first = j;
    guards.same_as.push_back(static_cast<uint32_t>(first));
    repeated = repeated || first != i;
    if (real.defined()) {
      const detail::TensorHead* h = real.head();
      g = guard_of(real);
      g.any_requires_grad = any_grad_;
      SymIntList sizes = list_of(leaf_metas_[i].sizes), strides = list_of(leaf_metas_[i].strides);
      for (size_t d = 0; d < sizes.size() && d < 64; ++d) {
        if (sizes[d].is_symbolic()) g.free_sizes |= uint64_t{1} << d;
        bool steps_nowhere = h->sizes[d] == 1 && !sizes[d].is_symbolic();
        if (strides[d].is_symbolic() || steps_nowhere) g.free_strides |= uint64_t{1} << d;
      }
    }
    guards.tensors.push_back(std::move(g));
  }
  if (!repeated) guards.same_as.clear();

  std::vector<const Expr*> symbols, conditions, outputs_of_program;
  auto load_of = [](const SymbolSource& s) {
    auto kind = s.kind == SymbolSource::Kind::input_size     ? SymbolLoad::Kind::size
                : s.kind == SymbolSource::Kind::input_stride ? SymbolLoad::Kind::stride
                : s.kind == SymbolSource::Kind::input_item   ? SymbolLoad::Kind::item
                                                             : SymbolLoad::Kind::number;
    return SymbolLoad{kind, s.index, s.dim};
  };
  for (const SymbolInfo& s : shape_env->symbols()) {
    if (!s.is_from_input()) continue;
    symbols.push_back(s.expr);
    guards.loads.push_back(load_of(s.source));
  }
  auto is_from_input = [&](const Expr* symbol) { return shape_env->info(symbol).is_from_input(); };
  for (const RecordedGuard& g : shape_env->guard_conditions()) {
    // The others are about data of a body that was cut, which runs on every call.
    if (!std::ranges::all_of(free_symbols(g.condition), is_from_input)) continue;
    conditions.push_back(g.condition);
    guards.condition_texts.push_back(shape_env->source_text(g.condition) +
                                     (g.location.empty() ? "" : "  # " + g.location));
  }
  for (const SourceEquality& e : shape_env->source_equalities()) {
    guards.equal_loads.push_back(load_of(e.source));
    guards.equal_texts.push_back(e.source_text + " == " + shape_env->source_text(e.expr));
    outputs_of_program.push_back(e.expr);
  }
  guards.program = SymProgram::compile(symbols, conditions, outputs_of_program);
}

}  // namespace tenon
