// What bodies must look like, and what results they promise.
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "graph/control_flow.h"
#include "graph/passes/aliasing.h"

#include <algorithm>

namespace tenon {

namespace {

using MetaList = std::vector<TensorMeta>;

TensorMeta row_by_row(const TensorMeta& meta) {
  return contiguous_meta(list_of(meta.sizes), meta.dtype, meta.device);
}

TensorMeta slice_of(const TensorMeta& meta) {
  Dims sizes(meta.sizes.begin() + (meta.sizes.empty() ? 0 : 1), meta.sizes.end());
  return contiguous_meta(list_of(sizes), meta.dtype, meta.device);
}

TensorMeta stacked(SymInt n, const TensorMeta& slice) {
  Dims sizes{n};
  for (SymInt s : slice.sizes) sizes.push_back(s);
  return contiguous_meta(list_of(sizes), slice.dtype, slice.device);
}

std::string text_of(const TensorMeta& meta) {
  return std::string(name_of(meta.dtype)) + symbolic_text(list_of(meta.sizes));
}

// Whether one can be given for the other: sizes that may be equal are left to the run.
bool may_stand_for(const TensorMeta& a, const TensorMeta& b) {
  if (a.dtype != b.dtype || !(a.device == b.device) || a.sizes.size() != b.sizes.size())
    return false;
  for (size_t d = 0; d < a.sizes.size(); ++d)
    if (!a.sizes[d].is_symbolic() && !b.sizes[d].is_symbolic() &&
        a.sizes[d].word() != b.sizes[d].word())
      return false;
  return true;
}

MetaList outputs_of(const Graph& body) {
  MetaList metas;
  for (ValueId v : body.outputs()) metas.push_back(body.value(v).meta);
  return metas;
}

/// The words of a kind: how its operands and bodies are called in messages.
struct Words {
  const char* bodies[2];
  const char* operands[3];
  size_t n_bodies, n_operands;
};

const Words& words_of(ControlFlow kind) {
  static constexpr Words words[] = {
      {{"", ""}, {"", "", ""}, 0, 0},
      {{"true_graph", "false_graph"}, {"operands", "", ""}, 2, 1},
      {{"cond_graph", "body_graph"}, {"carried", "extra", ""}, 2, 2},
      {{"body_graph", ""}, {"xs", "extra", ""}, 1, 2},
      {{"combine_graph", ""}, {"init", "xs", "extra"}, 1, 3},
      {{"combine_graph", ""}, {"xs", "extra", ""}, 1, 2},
  };
  return words[static_cast<size_t>(kind)];
}

// Which list of operands is cut into slices; none where the kind has no slices.
std::optional<size_t> sliced_list(ControlFlow kind) {
  switch (kind) {
    case ControlFlow::map:
    case ControlFlow::associative_scan:
      return 0;
    case ControlFlow::scan:
      return 1;
    default:
      return std::nullopt;
  }
}

std::string slices_problem(ControlFlow kind, const MetaList& xs) {
  if (xs.empty()) return "nothing to iterate over: xs is empty";
  for (const TensorMeta& x : xs) {
    if (x.sizes.empty()) return "a tensor of xs has no dimension 0 to iterate over";
    SymInt n = x.sizes[0], first = xs[0].sizes[0];
    if (!n.is_symbolic() && !first.is_symbolic() && n.word() != first.word())
      return message("tensors of xs have {} and {} slices; expected as many", first, n);
    if (kind == ControlFlow::associative_scan && !n.is_symbolic() && n.word() == 0)
      return "xs has no slices; expected one or more";
  }
  return "";
}

std::string inputs_problem(const Graph& body, std::string_view name, const MetaList& wanted) {
  if (body.inputs().size() != wanted.size())
    return message("{} takes {} inputs, but gets {} operands", name, body.inputs().size(),
                   wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const GraphValue& input = body.value(body.inputs()[i]);
    if (input.kind != ValueKind::tensor || !input.meta.defined)
      return message("input {} of {} is not a tensor", i, name);
    if (!may_stand_for(input.meta, wanted[i]))
      return message("input {} of {} is {}, but gets {}", i, name, text_of(input.meta),
                     text_of(wanted[i]));
  }
  AliasClasses classes(body);
  for (ValueId v = 0; v < body.values().size(); ++v)
    if (body.value(v).source != ValueSource::node && body.value(v).kind == ValueKind::tensor &&
        classes.is_written(v))
      return message("{} writes {}, which it does not own; copy it inside, and return the copy",
                     name,
                     body.value(v).source == ValueSource::input
                         ? message("its input {}", body.value(v).source_index)
                         : std::string("a constant"));
  for (ValueId v : body.outputs())
    if (v == no_value || body.value(v).kind != ValueKind::tensor || !body.value(v).meta.defined)
      return message("a result of {} is not a tensor", name);
  return "";
}

// `what` becomes `wanted`: the values of one iteration those of the next, and the like.
std::string same_problem(const MetaList& found, const MetaList& wanted, std::string_view who,
                         std::string_view as) {
  for (size_t i = 0; i < std::min(found.size(), wanted.size()); ++i)
    if (!may_stand_for(found[i], wanted[i]))
      return message("result {} of {} is {}; expected {} like {}", i, who, text_of(found[i]),
                     text_of(wanted[i]), as);
  return "";
}

std::string cond_problem(const MetaList& a, const MetaList& b) {
  if (a.size() != b.size())
    return message("true_graph gives {} results, false_graph {}; expected as many", a.size(),
                   b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    bool alike = a[i].dtype == b[i].dtype && a[i].device == b[i].device &&
                 a[i].sizes.size() == b[i].sizes.size();
    if (!alike)
      return message(
          "result {} is {} of true_graph and {} of false_graph; expected the same dtype, "
          "device and rank",
          i, text_of(a[i]), text_of(b[i]));
  }
  return "";
}

std::string while_problem(const MetaList& verdict, const MetaList& next, const MetaList& carried) {
  bool is_bool = verdict.size() == 1 && verdict[0].dtype == Dtype::bool_ &&
                 std::ranges::all_of(verdict[0].sizes,
                                     [](SymInt s) { return s.is_symbolic() || s.word() == 1; });
  if (!is_bool) return "cond_graph must give one bool with one element";
  if (carried.empty()) return "nothing is carried; expected one tensor or more";
  if (next.size() != carried.size())
    return message("body_graph gives {} results, {} values are carried; expected as many",
                   next.size(), carried.size());
  return same_problem(next, carried, "body_graph", "the value carried in");
}

std::string results_problem(ControlFlow kind, std::span<const Graph* const> bodies,
                            std::span<const MetaList> operands) {
  MetaList first = outputs_of(*bodies[0]);
  switch (kind) {
    case ControlFlow::cond:
      return cond_problem(first, outputs_of(*bodies[1]));
    case ControlFlow::while_loop:
      return while_problem(first, outputs_of(*bodies[1]), operands[0]);
    case ControlFlow::scan:
      if (first.size() < operands[0].size())
        return message(
            "combine_graph gives {} results, {} values are carried; expected as many or "
            "more",
            first.size(), operands[0].size());
      return same_problem(first, operands[0], "combine_graph", "the value carried in");
    case ControlFlow::associative_scan: {
      if (first.size() != operands[0].size())
        return message("combine_graph gives {} results for {} tensors; expected as many",
                       first.size(), operands[0].size());
      MetaList slices;
      for (const TensorMeta& x : operands[0]) slices.push_back(slice_of(x));
      return same_problem(first, slices, "combine_graph", "a slice");
    }
    default:
      return "";
  }
}

SymInt merged_size(SymInt a, SymInt b) {
  if (a.word() == b.word() || statically_known_true(a == b)) return a;
  ShapeEnv* env = current_shape_env();
  require(env,
          "cond: a result has size {} in one branch and {} in the other, and no recording is "
          "there to keep it open",
          a, b);
  SymInt either = env->create_unbacked(Range::at_least(0), {}, "a size that cond chooses");
  env->mark_size_like(either);
  return either;
}

MetaList cond_metas(const Graph& a, const Graph& b) {
  MetaList out;
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    const TensorMeta &x = a.value(a.outputs()[i]).meta, &y = b.value(b.outputs()[i]).meta;
    TensorMeta merged = x;
    bool same = same_layout(a, b, i);
    for (size_t d = 0; d < x.sizes.size(); ++d)
      merged.sizes[d] = merged_size(x.sizes[d], y.sizes[d]);
    out.push_back(same ? merged : row_by_row(merged));
  }
  return out;
}

}  // namespace

bool same_layout(const Graph& a, const Graph& b, size_t index) {
  const TensorMeta &x = a.value(a.outputs()[index]).meta, &y = b.value(b.outputs()[index]).meta;
  auto same = [](const Dims& p, const Dims& q) {
    return std::ranges::equal(p, q, [](SymInt s, SymInt t) { return s.word() == t.word(); });
  };
  return same(x.sizes, y.sizes) && same(x.strides, y.strides);
}

std::vector<TensorMeta> body_inputs(ControlFlow kind, size_t index,
                                    std::span<const std::vector<TensorMeta>> operands) {
  (void)index;  // the two bodies of cond, and of while_loop, take the same
  MetaList out;
  for (size_t l = 0; l < operands.size(); ++l)
    for (const TensorMeta& meta : operands[l]) {
      bool carried = l == 0 && (kind == ControlFlow::while_loop || kind == ControlFlow::scan);
      out.push_back(sliced_list(kind) == l ? slice_of(meta) : carried ? row_by_row(meta) : meta);
    }
  if (kind != ControlFlow::associative_scan) return out;
  // Left and right before what is extra.
  MetaList left(out.begin(), out.begin() + static_cast<ptrdiff_t>(operands[0].size()));
  out.insert(out.begin(), left.begin(), left.end());
  return out;
}

std::string control_flow_problem(ControlFlow kind, std::span<const Graph* const> bodies,
                                 std::span<const std::vector<TensorMeta>> operands) {
  const Words& words = words_of(kind);
  ensure(bodies.size() == words.n_bodies && operands.size() == words.n_operands,
         "control flow with another number of bodies or lists than its schema");
  if (std::optional<size_t> sliced = sliced_list(kind))
    if (std::string problem = slices_problem(kind, operands[*sliced]); !problem.empty())
      return problem;
  for (size_t i = 0; i < bodies.size(); ++i) {
    if (!bodies[i]) return message("{} is missing", words.bodies[i]);
    MetaList wanted = body_inputs(kind, i, operands);
    std::string problem = inputs_problem(*bodies[i], words.bodies[i], wanted);
    if (!problem.empty()) return problem;
  }
  return results_problem(kind, bodies, operands);
}

std::vector<TensorMeta> control_flow_metas(ControlFlow kind, std::span<const Graph* const> bodies,
                                           std::span<const std::vector<TensorMeta>> operands) {
  std::string problem = control_flow_problem(kind, bodies, operands);
  require(problem.empty(), "{}", problem);
  if (kind == ControlFlow::cond) return cond_metas(*bodies[0], *bodies[1]);
  MetaList out;
  if (kind == ControlFlow::while_loop || kind == ControlFlow::scan)
    for (const TensorMeta& meta : operands[0]) out.push_back(row_by_row(meta));
  if (kind == ControlFlow::while_loop) return out;
  const MetaList& xs = operands[*sliced_list(kind)];
  for (const TensorMeta& x : xs)
    sym_check(x.sizes[0] == xs[0].sizes[0], "tensors that are iterated over have as many slices");
  MetaList results = outputs_of(*bodies[0]);
  for (size_t i = out.size(); i < results.size(); ++i)
    out.push_back(stacked(xs[0].sizes[0], results[i]));
  return out;
}

}  // namespace tenon
