// Plans as JSON: written, and read with all numbers checked.
#include "aot/saved_plan.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_text.h"
#include "formats/json.h"
#include "ops/op_table.h"

#include <tenon/plugin.h>

namespace tenon {

using formats::Json;
using formats::JsonView;

namespace {

using Kind = OutputRecipe::Kind;

// ---- writing

Json number(SymInt v, const Graph& graph) {
  if (!v.is_symbolic()) return v.word();
  return graph.shape_env->text(v.expr());
}

Json numbers(const Dims& dims, const Graph& graph) {
  Json::Array out;
  for (SymInt d : dims) out.push_back(number(d, graph));
  return out;
}

Json view(const TensorMeta& meta, SymInt offset, const Graph& graph) {
  return Json::Object{{"dtype", std::string(name_of(meta.dtype))},
                      {"sizes", numbers(meta.sizes, graph)},
                      {"strides", numbers(meta.strides, graph)},
                      {"offset", number(offset, graph)}};
}

// An argument of a view that is made again on the tape: its tag and content.
Json argument(const Value& v, const std::string& op, const Graph& graph) {
  Json::Array out{static_cast<int64_t>(v.tag)};
  switch (v.tag) {
    case Tag::none:
      break;
    case Tag::integer:
      out.push_back(number(v.number().sym_int(), graph));
      break;
    case Tag::boolean:
      out.emplace_back(static_cast<int64_t>(v.payload));
      break;
    case Tag::dtype:
      out.emplace_back(std::string(name_of(static_cast<Dtype>(v.payload))));
      break;
    case Tag::ints:
      for (SymInt n : arg_as<SymIntList>(v)) out.push_back(number(n, graph));
      break;
    default:
      fail(ErrorCode::unsupported, "an argument of the view {} has no text", op);
  }
  return out;
}

Json replayed(const std::vector<ViewStep>& steps, const Graph& graph) {
  Json::Array out;
  for (const ViewStep& step : steps) {
    Json::Array args;
    for (const Value& v : step.args) args.push_back(argument(v, step.op->name, graph));
    out.emplace_back(
        Json::Object{{"op", step.op->name}, {"args", args}, {"result", int64_t{step.result}}});
  }
  return out;
}

Json output(const OutputRecipe& recipe, const Graph& graph) {
  Json::Object out{{"kind", static_cast<int64_t>(recipe.kind)}, {"index", int64_t{recipe.index}}};
  if (recipe.kind == Kind::view_of_input || recipe.kind == Kind::view_of_result)
    out.push_back({"view", view(recipe.view, recipe.offset, graph)});
  if (recipe.requires_grad) out.push_back({"requires_grad", true});
  if (recipe.is_tracked) out.push_back({"tracked", true});
  if (recipe.is_older) out.push_back({"older", true});
  if (recipe.detached != no_value) {
    out.push_back({"detached", int64_t{recipe.detached}});
    out.push_back({"is_detached", recipe.is_detached});
  }
  if (!recipe.replay.empty()) out.push_back({"replay", replayed(recipe.replay, graph)});
  return out;
}

Json derivative(const Derivative& d, const Graph& graph) {
  Json::Array symbols, reached;
  for (const auto& [symbol, result] : d.symbols)
    symbols.emplace_back(
        Json::Object{{"symbol", graph.shape_env->text(symbol)}, {"result", int64_t{result}}});
  for (const std::vector<uint32_t>& gradients : d.reached)
    reached.push_back(formats::json_list(gradients));
  return Json::Object{{"primals", int64_t{d.n_primals}},
                      {"results", int64_t{d.n_results}},
                      {"tangents", formats::json_list(d.tangents)},
                      {"ranks", formats::json_list(d.ranks)},
                      {"gradients", formats::json_list(d.gradients)},
                      {"reached", reached},
                      {"symbols", symbols}};
}

// ---- reading

class PlanReader {
 public:
  explicit PlanReader(std::shared_ptr<Graph> graph) : graph_(std::move(graph)) {}

  Lowered read(const JsonView& plan, size_t n_inputs) {
    Lowered out;
    out.n_original_outputs = plan.field("outputs").size();
    for (const JsonView& s : plan.field("shared").items())
      out.shared.push_back({s.numbers_below(n_inputs)});
    for (size_t i = 0; i < out.shared.size(); ++i) {
      require(!out.shared[i].members.empty() && i < graph_->inputs().size(), ErrorCode::bad_file,
              "{}: memory that no input shows", plan);
      out.shared[i].dtype = graph_->value(graph_->inputs()[i]).meta.dtype;
    }
    out.kept = plan.field("kept").numbers_below(n_inputs);
    size_t n_inner = graph_->inputs().size();
    if (auto d = plan.optional_field("derivative")) out.derivative = derivative(*d);
    size_t n_results = out.derivative ? out.derivative->n_results : graph_->outputs().size();
    size_t n_primals = out.derivative ? out.derivative->n_primals : n_inner;
    size_t given = out.shared.empty() ? n_inputs : out.shared.size() + out.kept.size();
    require(given == n_primals, ErrorCode::bad_file, "{}: other inputs than those of the graph",
            plan);
    n_inner = n_primals;
    for (const JsonView& o : plan.field("outputs").items())
      out.outputs.push_back(
          output(o, n_inputs, n_results, out.outputs.size(), out.n_original_outputs));
    for (const JsonView& w : plan.field("write_backs").items())
      out.write_backs.push_back({w.field("output").number_below(n_results),
                                 w.field("input").number_below(n_inner),
                                 w.field("without_grad").boolean()});
    for (const JsonView& r : plan.field("restrides").items())
      out.restrides.push_back({r.field("input").number_below(n_inputs), meta(r.field("view")),
                               number(r.field("view").field("offset")),
                               r.field("without_grad").boolean()});
    for (const JsonView& s : plan.field("shown_symbols").items())
      out.shown_symbols.push_back(
          {expression(s.field("symbol")), s.field("output").number_below(n_results)});
    out.mutated_inputs = plan.field("mutated_inputs").numbers_below(n_inner);
    out.graph = std::move(graph_);
    return out;
  }

 private:
  const Expr* expression(const JsonView& v) const {
    ShapeEnv* env = graph_->shape_env.get();
    return parse_expr(v.text(), [&](std::string_view name) -> const Expr* {
      return env ? env->find_symbol(name) : nullptr;
    });
  }
  SymInt number(const JsonView& v) const {
    return v.is_integer() ? SymInt(v.integer()) : as_sym_int(expression(v));
  }
  Dims numbers(const JsonView& list) const {
    Dims out;
    for (const JsonView& v : list.items()) out.push_back(number(v));
    return out;
  }
  TensorMeta meta(const JsonView& v) const {
    TensorMeta out;
    auto dtype = parse_dtype(v.field("dtype").text());
    require(dtype.has_value(), ErrorCode::bad_file, "{}: no dtype", v);
    out.dtype = *dtype;
    out.sizes = numbers(v.field("sizes"));
    out.strides = numbers(v.field("strides"));
    require(out.sizes.size() == out.strides.size(), ErrorCode::bad_file,
            "{}: sizes without strides", v);
    return out;
  }
  OutputRecipe output(const JsonView& v, size_t n_inputs, size_t n_results, size_t earlier,
                      size_t n_outputs) const {
    OutputRecipe out;
    out.kind =
        static_cast<Kind>(v.field("kind").number_below(static_cast<size_t>(Kind::undefined) + 1));
    bool of_input = out.kind == Kind::input || out.kind == Kind::view_of_input;
    bool of_result = out.kind == Kind::result || out.kind == Kind::view_of_result;
    if (out.kind != Kind::undefined)
      out.index = v.field("index").number_below(of_input    ? n_inputs
                                                : of_result ? n_results
                                                            : earlier);
    if (out.kind == Kind::view_of_input || out.kind == Kind::view_of_result) {
      out.view = meta(v.field("view"));
      out.offset = number(v.field("view").field("offset"));
    }
    if (auto needs = v.optional_field("requires_grad")) out.requires_grad = needs->boolean();
    if (auto tracked = v.optional_field("tracked")) out.is_tracked = tracked->boolean();
    if (auto older = v.optional_field("older")) out.is_older = older->boolean();
    if (auto detached = v.optional_field("detached")) {
      out.detached = detached->number_below(n_outputs);
      out.is_detached = v.field("is_detached").boolean();
    }
    if (auto steps = v.optional_field("replay"))
      for (const JsonView& step : steps->items()) out.replay.push_back(view_step(step));
    return out;
  }
  // Argument 0 stands for the tensor.
  ViewStep view_step(const JsonView& v) const {
    const OpEntry* op = find_op(v.field("op").text());
    std::vector<JsonView> given = v.field("args").items();
    require(op && gives_views(*op) && !given.empty() && given.size() == op->n_args,
            ErrorCode::bad_file, "{}: not a call of a view", v);
    std::vector<std::vector<SymInt>> lists(given.size());
    std::vector<Value> args;
    for (size_t i = 0; i < given.size(); ++i) args.push_back(argument(given[i], lists[i]));
    size_t n_results = op->schema.returns_list() ? UINT32_MAX : 1;
    uint32_t result = v.field("result").number_below(n_results);
    return {op, graph_->intern_args(args), result};
  }
  Value argument(const JsonView& v, std::vector<SymInt>& list) const {
    std::vector<JsonView> parts = v.items();
    require(!parts.empty(), ErrorCode::bad_file, "{}: an argument without a tag", v);
    auto tag = static_cast<Tag>(parts[0].integer());
    if (tag == Tag::integer && parts.size() == 2) return Value::of(number(parts[1]));
    if (tag == Tag::boolean && parts.size() == 2) return Value::of(parts[1].integer() != 0);
    if (auto dtype = tag == Tag::dtype && parts.size() == 2 ? parse_dtype(parts[1].text())
                                                            : std::optional<Dtype>())
      return Value::of(*dtype);
    require(tag == Tag::ints || (tag == Tag::none && parts.size() == 1), ErrorCode::bad_file,
            "{}: no argument of a view", v);
    if (tag == Tag::none) return {};
    for (size_t i = 1; i < parts.size(); ++i) list.push_back(number(parts[i]));
    return Value::of(SymIntList(list.data(), list.size()));
  }
  Derivative derivative(const JsonView& v) const {
    size_t n_inputs = graph_->inputs().size(), n_outputs = graph_->outputs().size();
    Derivative out;
    out.n_primals = v.field("primals").number_below(n_inputs + 1);
    out.n_results = v.field("results").number_below(n_outputs + 1);
    out.tangents = v.field("tangents").numbers_below(out.n_results);
    out.ranks = v.field("ranks").numbers_below(UINT32_MAX);
    out.gradients = v.field("gradients").numbers_below(out.n_primals);
    if (auto reached = v.optional_field("reached"))
      for (const JsonView& gradients : reached->items())
        out.reached.push_back(gradients.numbers_below(out.gradients.size()));
    else
      out.reached.resize(out.tangents.size());
    for (const JsonView& s : v.field("symbols").items())
      out.symbols.emplace_back(expression(s.field("symbol")),
                               s.field("result").number_below(n_outputs));
    require(out.n_primals + out.tangents.size() <= n_inputs &&
                out.ranks.size() == out.tangents.size() &&
                out.reached.size() == out.tangents.size() &&
                out.n_results + out.gradients.size() <= n_outputs,
            ErrorCode::bad_file, "{}: fewer inputs or outputs than a derivative has", v);
    return out;
  }

  std::shared_ptr<Graph> graph_;
};

}  // namespace

std::string plan_text(const Lowered& lowered) {
  const Graph& graph = *lowered.graph;
  Json::Array shared, outputs, write_backs, restrides, shown;
  for (const SharedInput& s : lowered.shared) shared.push_back(formats::json_list(s.members));
  for (const OutputRecipe& recipe : lowered.outputs) outputs.push_back(output(recipe, graph));
  for (const Lowered::WriteBack& w : lowered.write_backs)
    write_backs.push_back(Json::Object{{"output", int64_t{w.output}},
                                       {"input", int64_t{w.input}},
                                       {"without_grad", w.without_grad}});
  for (const Lowered::Restride& r : lowered.restrides)
    restrides.push_back(Json::Object{{"input", int64_t{r.input}},
                                     {"view", view(r.view, r.offset, graph)},
                                     {"without_grad", r.without_grad}});
  for (const Lowered::ShownSymbol& s : lowered.shown_symbols)
    shown.push_back(
        Json::Object{{"symbol", graph.shape_env->text(s.symbol)}, {"output", int64_t{s.output}}});
  Json plan(Json::Object{{"shared", shared},
                         {"kept", formats::json_list(lowered.kept)},
                         {"outputs", outputs},
                         {"write_backs", write_backs},
                         {"restrides", restrides},
                         {"shown_symbols", shown},
                         {"mutated_inputs", formats::json_list(lowered.mutated_inputs)}});
  if (lowered.derivative)
    std::get<Json::Object>(plan.value())
        .push_back({"derivative", derivative(*lowered.derivative, graph)});
  return plan.dump();
}

Lowered read_plan(std::string_view text, std::shared_ptr<Graph> graph, size_t n_inputs,
                  const std::string& subject) {
  formats::JsonDocument document = formats::parse_json(text, subject);
  return PlanReader(std::move(graph)).read(document.view(), n_inputs);
}

}  // namespace tenon
