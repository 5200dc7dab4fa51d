// The verifier of metadata: every node's meta function on fakes, against what the graph says.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_simplify.h"
#include "core/tensor/tensor_impl.h"
#include "graph/control_flow.h"
#include "graph/text/print.h"
#include "graph/verify.h"
#include "ops/op_table.h"
#include "ops/view/parts.h"

namespace tenon {

namespace {

struct MetaProblem {
  std::string text;
  ErrorCode code;
};

/// The symbols of a graph in an environment of their own, with what is known about them: a file
/// that is only looked at must not get guards, facts and symbols from the questions.
class TrialSymbols {
 public:
  explicit TrialSymbols(const ShapeEnv& of) : env_(ShapeEnv::make()) {
    for (const SymbolInfo& info : of.symbols()) {
      const Expr* made = env_->declare_symbol(info.name, info.kind, info.hint, info.checked,
                                              info.source, info.source_text);
      made_.emplace(info.expr, made);
      if (info.size_like) env_->mark_size_like(as_sym_int(made));
    }
    ShapeEnvScope scope(*env_);
    for (const Expr* condition : of.assumptions()) env_->check(here(condition));
  }

  ShapeEnv& env() { return *env_; }
  const Expr* here(const Expr* expr) const {
    return substitute(expr, [this](const Expr* symbol) {
      auto found = made_.find(symbol);
      return found == made_.end() ? nullptr : found->second;
    });
  }
  /// The graph's expression for one of this environment; symbols that meta functions made since get
  /// symbols of the graph's environment `of`.
  const Expr* there(const Expr* expr, ShapeEnv& of) {
    return substitute(expr, [&](const Expr* symbol) -> const Expr* {
      if (const Expr* original = original_of(symbol)) return original;
      SymInt count =
          of.create_unbacked(env_->range(symbol), {SymbolSource::Kind::node_value, 0, 0});
      of.mark_size_like(count);
      stand_for(count.expr(), symbol);
      return count.expr();
    });
  }
  /// The graph's symbol for one of this environment, or null.
  const Expr* original_of(const Expr* symbol) const {
    for (const auto& [original, made] : made_)
      if (made == symbol) return original;
    return nullptr;
  }
  void stand_for(const Expr* original, const Expr* made) { made_[original] = made; }
  SymInt here(SymInt v) const { return v.is_symbolic() ? as_sym_int(here(v.expr())) : v; }
  Number here(Number n) const {
    if (!n.is_symbolic()) return n;
    if (n.is_integer()) return here(n.sym_int());
    const Expr* expr = here(std::bit_cast<const Expr*>(n.word()));
    return n.is_floating() ? Number(as_sym_float(expr)) : Number(as_sym_bool(expr));
  }

 private:
  std::shared_ptr<ShapeEnv> env_;
  std::map<const Expr*, const Expr*> made_;
};

/// Values that an op gave other sizes or strides in place, and the result that says which.
using Restrided = std::map<ValueId, ValueId>;

/// What fakes are made of.
struct FakeSource {
  const Graph& graph;
  const TrialSymbols* symbols;  ///< null: the graph's own
  Restrided restrided;

  Number number(Number n) const { return symbols ? symbols->here(n) : n; }
  SymInt size(SymInt v) const { return symbols ? symbols->here(v) : v; }
  TensorMeta meta(TensorMeta meta) const {
    for (Dims* dims : {&meta.sizes, &meta.strides})
      for (SymInt& v : *dims) v = size(v);
    return meta;
  }
  // A fresh one for each use: what an op does to it in place is in `restrided` for later nodes.
  Tensor fake(ValueId id) const {
    auto moved = restrided.find(id);
    const GraphValue& value = graph.value(moved == restrided.end() ? id : moved->second);
    if (value.kind != ValueKind::tensor || !value.meta.defined) return Tensor();
    Tensor fake = make_fake(meta(value.meta), size(value.offset));
    if (value.source == ValueSource::constant && is_wrapped_number(graph.constant(id)))
      impl_of(fake)->ensure_extra().wrapped_number = true;
    return fake;
  }
};

/// The arguments of one node on fakes.
struct FakeArgs {
  std::vector<Value> args;
  std::deque<Tensor> tensors;
  ArgumentLists lists;

  FakeArgs(const FakeSource& source, const Node& node) : args(node.args.begin(), node.args.end()) {
    auto fake = [&](ValueId id) {
      const GraphValue& value = source.graph.value(id);
      if (value.kind == ValueKind::tensor) return Value::of(tensors.emplace_back(source.fake(id)));
      return value.kind == ValueKind::none ? Value{} : Value::of(source.number(value.scalar));
    };
    map_arguments(args, lists, fake, [&](Number n) { return source.number(n); });
  }
};

/// Results that are dropped on every way out.
struct Results {
  static constexpr uint32_t most = 8;
  Value values[most];
  ~Results() {
    for (Value& v : values) drop(v);
  }
};

bool same(SymInt a, SymInt b) { return a.word() == b.word() || statically_known_true(a == b); }

bool same(SymIntList a, SymIntList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i])) return false;
  return true;
}

// Whether two sizes are one for some values of the symbols, the example values among them.
bool may_be_same(SymInt a, SymInt b) {
  if (!a.is_symbolic() && !b.is_symbolic()) return a.word() == b.word();
  const ShapeEnv* env = current_shape_env();
  if (!env) return true;
  auto hint_a = env->int_hint(a), hint_b = env->int_hint(b);
  return !hint_a || !hint_b || *hint_a == *hint_b;
}

bool may_be_same(SymIntList a, SymIntList b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!may_be_same(a[i], b[i])) return false;
  return true;
}

// Whether the graph writes to memory, and says of any result which memory it has: then the groups are
// what the writes go by.
bool writes_by_groups(const Graph& graph) {
  bool tells = std::ranges::any_of(graph.values(), [](const GraphValue& v) {
    return v.source == ValueSource::node && v.alias_group != 0;
  });
  return tells && std::ranges::any_of(graph.nodes(),
                                      [](const Node& node) { return written_args(node) != 0; });
}

class MetaVerifier {
  // What a graph says wrongly by more than that is not worth making: some 450 bytes a part.
  static constexpr int64_t few_parts = 4096;

 public:
  /// Without `trial` for a pass of ours, which must say it all. With it for a file, whose sizes may
  /// be written in another way and whose strides are put right.
  MetaVerifier(const Graph& graph, TrialSymbols* trial, Graph* editable = nullptr)
      : graph_(graph), editable_(editable), trial_(trial), source_{graph, trial, {}} {}

  bool has_restated() const { return !restated_.empty(); }

  std::vector<MetaProblem> run() {
    for (ValueId v = 0; v < graph_.values().size(); ++v)
      if (graph_.value(v).source != ValueSource::node) groups_.insert(graph_.value(v).alias_group);
    std::optional<ShapeEnvScope> scope;
    if (trial_)
      scope.emplace(trial_->env());  // also for sizes that the file gives plain numbers
    else if (graph_.shape_env)
      scope.emplace(*graph_.shape_env);
    for (NodeId n = 0; n < graph_.nodes().size() && problems_.size() < 20; ++n) {
      try {
        check(n);
      } catch (const Error& error) {
        // What depends on data is settled when it is lowered, or by the run.
        bool open = error.code() == ErrorCode::data_dependent;
        if (!open || !trial_) problem(n, error.what(), error.code());
      }
    }
    for (const auto& sub : graph_.subgraphs)
      for (MetaProblem& inner : MetaVerifier(*sub, trial_).run())
        problems_.push_back({"in a sub-graph: " + inner.text, inner.code});
    return std::move(problems_);
  }

 private:
  void problem(NodeId n, std::string_view what, ErrorCode code = ErrorCode::bad_file) {
    const Node& node = graph_.node(n);
    std::string name = node.name.empty() ? message("{}", n) : message("{} {}", n, node.name);
    problems_.push_back({message("node {} ({}): {}", name, name_of(node.op), what), code});
  }

  // What differs, or empty.
  std::string difference(const GraphValue& value, const Tensor& fake) const {
    if (!fake.defined())
      return value.kind == ValueKind::none || !value.meta.defined ? "" : "the result is undefined";
    if (value.kind != ValueKind::tensor || !value.meta.defined) return "the result is a tensor";
    if (fake.dtype() != value.meta.dtype) return message("dtype is {}", to_text(fake.dtype()));
    if (!(fake.device() == value.meta.device))
      return message("device is {}", to_text(fake.device()));
    TensorMeta said = source_.meta(value.meta);
    bool fits = trial_ ? may_be_same(fake.sizes(), list_of(said.sizes))
                       : same(fake.sizes(), list_of(said.sizes));
    if (!fits) return message("shape is {}", symbolic_text(fake.sizes()));
    return trial_ ? "" : layout_difference(value, fake);
  }

  std::string layout_difference(const GraphValue& value, const Tensor& fake) const {
    const TensorMeta& said = value.meta;
    for (size_t d = 0; d < said.sizes.size(); ++d)  // by the stride of a single element nobody goes
      if (!same(fake.strides()[d], said.strides[d]) && !same(said.sizes[d], 1))
        return message("strides are {}", symbolic_text(fake.strides()));
    if (!same(sym_offset_of(fake), value.offset))
      return message("offset is {}", symbolic_text(sym_offset_of(fake)));
    return "";
  }

  // Its results have sizes or values that only the run knows, and a new run would make new symbols.
  // Bodies know the graph's own symbols, where it has some, and lowering makes their results anew.
  bool is_left_out(const Node& node) const {
    if (trial_) return is_control_flow(entry_of(node.op)) && graph_.shape_env;
    for (const SymbolBinding& b : graph_.symbols)
      if (b.value >= node.first_result && b.value < node.first_result + node.n_results) return true;
    return entry_of(node.op).tags & TN_TAG_DATA_DEPENDENT;
  }

  void check(NodeId n) {
    const Node& node = graph_.node(n);
    const OpEntry& op = entry_of(node.op);
    bool is_list = op.schema.returns_list();
    uint32_t n_results = is_list ? 1 : node.n_results;
    if (is_left_out(node)) return;
    if (n_results > Results::most)
      return problem(n, message("it has {} results; {} are supported", n_results, Results::most));
    FakeArgs fakes(source_, node);
    Results results;
    {
      FakeScope meta_only;
      std::optional<PartLimit> limit;
      if (is_list) limit.emplace(std::max<int64_t>(node.n_results, few_parts));
      run_meta({&op, fakes.args.data(), results.values, static_cast<uint32_t>(fakes.args.size()),
                n_results});
    }
    std::vector<Tensor> tensors;
    if (is_list) tensors = take<std::vector<Tensor>>(results.values[0]);
    if (is_list && tensors.size() != node.n_results)
      return problem(
          n, message("it gives {} parts, the graph says {}", tensors.size(), node.n_results));
    for (uint32_t r = 0; r < node.n_results; ++r) {
      if (!is_list && results.values[r].is_number()) continue;
      Tensor fake = is_list ? tensors[r] : take<Tensor>(results.values[r]);
      compare(n, r, fake);
      if (tells_memory_) compare_memory(n, r, fake, fakes.args);
      if (trial_) check_own_memory(n, r, fake, fakes.tensors);
      if (!is_list) note_restriding(node, op, r);
    }
    for (uint32_t r = 0; r < node.n_results; ++r)
      groups_.insert(graph_.value(node.first_result + r).alias_group);
  }

  // What an op makes anew has no memory that was there before.
  void check_own_memory(NodeId n, uint32_t r, const Tensor& fake,
                        const std::deque<Tensor>& arguments) {
    const Node& node = graph_.node(n);
    const Schema& schema = entry_of(node.op).schema;
    bool may_share = !schema.returns[schema.returns_list() ? 0 : r].alias.empty();
    uint32_t group = graph_.value(node.first_result + r).alias_group;
    if (may_share || group == 0 || !fake.defined() || !groups_.contains(group)) return;
    if (std::ranges::none_of(
            arguments, [&](const Tensor& a) { return a.defined() && shares_storage(a, fake); }))
      problem(n, message("result {} has memory of its own, the graph says alias {}, which an "
                         "earlier value has",
                         r, group));
  }

  // A write reaches what the graph says to share memory, so that must hold of views and of what is
  // written in place.
  void compare_memory(NodeId n, uint32_t r, const Tensor& fake, std::span<const Value> args) {
    const Node& node = graph_.node(n);
    uint32_t group = graph_.value(node.first_result + r).alias_group;
    for (size_t i = 0; fake.defined() && i < args.size(); ++i) {
      if (args[i].tag != Tag::tensor || node.args[i].tag != Tag::ref) continue;
      auto id = static_cast<ValueId>(node.args[i].payload);
      if (!shares_storage(*args[i].as<Tensor>(), fake)) continue;
      if (group == 0 || group != graph_.value(id).alias_group)
        problem(n,
                message("result {} shares the memory of argument {}, the graph says alias {} and "
                        "alias {}",
                        r, i, group, graph_.value(id).alias_group));
    }
  }

  void note_restriding(const Node& node, const OpEntry& op, uint32_t r) {
    int arg = op.schema.returned_arg(r);
    if (arg >= 0 && node.args[static_cast<size_t>(arg)].tag == Tag::ref)
      source_.restrided[static_cast<ValueId>(node.args[static_cast<size_t>(arg)].payload)] =
          node.first_result + r;
  }

  void compare(NodeId n, uint32_t r, const Tensor& fake) {
    const Node& node = graph_.node(n);
    const GraphValue& value = graph_.value(node.first_result + r);
    std::string what = difference(value, fake);
    if (what.empty()) return put_strides_right(node.first_result + r, fake);
    if (trial_ && !is_read(node.first_result + r)) return;
    if (may_restate(node, value, fake))
      restate(node.first_result + r, fake);
    else
      problem(n, message("{} of result {} by its meta function, the graph says {}", what, r,
                         to_text(value)));
  }

  // PyTorch's own descriptions of results that nobody reads, such as the bags of embedding_bag, are
  // not always those of what it computes.
  bool is_read(ValueId v) {
    if (is_read_.empty()) {
      std::vector<std::vector<NodeId>> users = graph_.users();
      for (const std::vector<NodeId>& u : users) is_read_.push_back(!u.empty());
      for (ValueId output : graph_.outputs())
        if (output != no_value) is_read_[output] = true;
    }
    return is_read_[v];
  }

  // PyTorch describes some results that depend on data with a wrong rank, and what it computes from
  // them likewise. What such an op gives is right.
  bool may_restate(const Node& node, const GraphValue& value, const Tensor& fake) const {
    if (!editable_ || !editable_->shape_env || !fake.defined() || value.kind != ValueKind::tensor ||
        !value.meta.defined || fake.dtype() != value.meta.dtype ||
        !(fake.device() == value.meta.device))
      return false;
    bool follows = entry_of(node.op).tags & TN_TAG_DATA_DEPENDENT;
    Graph::for_each_use(node, [&](ValueId v) { follows |= restated_.contains(v); });
    return follows;
  }

  void restate(ValueId id, const Tensor& fake) {
    ShapeEnv& env = *editable_->shape_env;
    GraphValue& value = editable_->value(id);
    TensorMeta meta = meta_of(fake);
    auto is_free = [&](size_t d) { return meta.sizes[d].is_symbolic() && is_new(meta.sizes[d]); };
    // What the graph calls a size goes on to be called so.
    for (const SymbolBinding& b : editable_->symbols)
      if (b.value == id && b.dim >= 0 && !b.stride &&
          static_cast<size_t>(b.dim) < meta.sizes.size() && is_free(static_cast<size_t>(b.dim)))
        trial_->stand_for(b.symbol, meta.sizes[static_cast<size_t>(b.dim)].expr());
    for (size_t d = 0; d < meta.sizes.size(); ++d) {
      bool is_first = is_free(d);
      for (SymInt* v : {&meta.sizes[d], &meta.strides[d]})
        if (v->is_symbolic()) *v = as_sym_int(trial_->there(v->expr(), env));
      if (is_first)
        editable_->symbols.push_back({meta.sizes[d].expr(), id, static_cast<int32_t>(d), false});
    }
    value.meta = std::move(meta);
    restated_.insert(id);
  }
  // Whether a meta function made the symbol, so that nothing binds it yet.
  bool is_new(SymInt v) const { return v.expr()->is_symbol() && !trial_->original_of(v.expr()); }

  // The file's strides are those of another implementation, or of nobody: what runs has those of
  // the meta function, and outputs are laid out by them.
  void put_strides_right(ValueId id, const Tensor& fake) {
    if (!editable_ || !fake.defined()) return;
    GraphValue& value = editable_->value(id);
    for (size_t d = 0; d < value.meta.strides.size(); ++d) {
      SymInt stride = fake.strides()[d];
      if (same(stride, source_.size(value.meta.strides[d]))) continue;
      if (std::optional<SymInt> known = in_sizes_of(value.meta, fake, stride))
        value.meta.strides[d] = *known;
    }
  }

  // A stride in the graph's symbols; what the meta function has just made is the size beside it.
  std::optional<SymInt> in_sizes_of(const TensorMeta& meta, const Tensor& fake,
                                    SymInt stride) const {
    if (!stride.is_symbolic()) return stride;
    const Expr* found = substitute(stride.expr(), [&](const Expr* symbol) -> const Expr* {
      if (const Expr* original = trial_->original_of(symbol)) return original;
      for (size_t d = 0; d < meta.sizes.size(); ++d)
        if (SymInt s = fake.sizes()[d]; s.is_symbolic() && s.expr() == symbol)
          return as_expr(meta.sizes[d]);
      return nullptr;
    });
    std::vector<const Expr*> symbols = free_symbols(found);
    bool is_known = std::ranges::all_of(symbols, [&](const Expr* s) {
      return editable_->shape_env && editable_->shape_env->owns(s);
    });
    return is_known ? std::optional(as_sym_int(found)) : std::nullopt;
  }

  const Graph& graph_;
  Graph* editable_;            ///< the same, where wrong descriptions may be put right
  std::set<uint32_t> groups_;  // of memory that is there before a node
  std::set<ValueId> restated_;
  std::vector<bool> is_read_;  // by value, once one differs
  TrialSymbols* trial_;
  FakeSource source_;
  std::vector<MetaProblem> problems_;
  bool tells_memory_ = trial_ && writes_by_groups(graph_);
};

/// A result that is said to need a gradient, though nothing that it can depend on does; else
/// no_value. A write of what needs one may reach anything that is read later.
ValueId gradient_of_nothing(const Graph& graph) {
  std::vector<bool> needs(graph.values().size());
  for (ValueId v = 0; v < needs.size(); ++v)
    needs[v] = graph.value(v).source != ValueSource::node && graph.value(v).flags.requires_grad;
  bool is_everywhere = false;
  for (const Node& node : graph.nodes()) {
    bool reads = is_everywhere;
    Graph::for_each_use(node, [&](ValueId v) { reads = reads || needs[v]; });
    is_everywhere = is_everywhere || (reads && written_args(node) != 0);
    for (uint32_t r = 0; r < node.n_results; ++r) {
      if (!reads && graph.value(node.first_result + r).flags.requires_grad)
        return node.first_result + r;
      needs[node.first_result + r] = reads;
    }
  }
  return no_value;
}

}  // namespace

std::vector<std::string> meta_problems_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (MetaProblem& p : MetaVerifier(graph, nullptr).run()) texts.push_back(std::move(p.text));
  return texts;
}

namespace {

std::vector<MetaProblem> problems_in_file(const Graph& graph, Graph* editable, bool& has_restated) {
  TrialSymbols trial(graph.shape_env ? *graph.shape_env : *ShapeEnv::make());
  MetaVerifier verifier(graph, &trial, editable);
  std::vector<MetaProblem> found = verifier.run();
  has_restated = verifier.has_restated();
  return found;
}

}  // namespace

void admit_graph(Graph& graph, std::string_view file) {
  auto check_form = [&] {
    std::vector<std::string> form = problems_of(graph);
    require(form.empty(), ErrorCode::bad_file, "{}: {}", file, form.empty() ? "" : form.front());
  };
  check_form();
  ValueId lone = gradient_of_nothing(graph);
  require(lone == no_value, ErrorCode::bad_file,
          "{}: %{} is said to need a gradient, nothing that it is computed from does", file,
          lone == no_value ? "" : display_name(graph, lone));
  bool has_restated = false;
  std::vector<MetaProblem> found = problems_in_file(graph, &graph, has_restated);
  // What was put right has to fit what the file says elsewhere.
  if (found.empty() && has_restated) found = problems_in_file(graph, nullptr, has_restated);
  if (found.empty()) return check_form();
  bool is_unsupported = found.front().code == ErrorCode::unsupported;
  fail(is_unsupported ? ErrorCode::unsupported : ErrorCode::bad_file, "{}: {}", file,
       found.front().text);
}

}  // namespace tenon
