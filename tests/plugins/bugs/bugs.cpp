// Backends that run graphs node by node and have one bug each, of the kinds that backends have. What
// the minifier leaves of a model must still show it, and bisect must name it.
#include <tenon/plugin_program.hpp>

#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <thread>

using namespace tenon::plugin;

namespace {

// ---- what bugs read and write

std::span<float> numbers_of(const tn_tensor* t) {
  bool has_some = t && t->dtype == TN_F32 && t->numel > 0;
  if (!has_some) return {};
  return {static_cast<float*>(t->data), size_t(t->numel)};
}
std::span<float> result_of(const step& s) {
  return s.results().empty() ? std::span<float>() : numbers_of(s.results()[0]);
}
const tn_tensor* operand_of(const step& s, size_t i) {
  bool is_value = i < s.args.size() && s.args[i].kind == TN_ARG_VALUE;
  return is_value ? s.values[s.args[i].u.value] : nullptr;
}
bool is_op(const step& s, std::string_view name) { return s.node.op_name.starts_with(name); }
bool is_softmax(const step& s) {
  return is_op(s, "aten._softmax") || is_op(s, "aten._safe_softmax");
}

bool is_contiguous(const tn_tensor& t) {
  int64_t expected = 1;
  for (int32_t d = t.ndim; d-- > 0; expected *= t.sizes[d])
    if (t.sizes[d] > 1 && t.strides[d] != expected) return false;
  return true;
}

/// What a backend finds out while it compiles, by node.
struct Found {
  bool is_backward = false;
  std::set<uint32_t> after_add;  ///< whose first operand an addition gives
  std::map<uint32_t, std::pair<size_t, int64_t>> lengths;  ///< the first dynamic size, as it was

  explicit Found(const tn_compile_request& request) {
    graph g(request);
    is_backward = request.stage == TN_STAGE_BACKWARD;
    for (uint32_t i = 0; i < g.size(); ++i) look_at(g, i);
  }

 private:
  void look_at(const graph& g, uint32_t i) {
    node n = g.at(i);
    if (n.n_args && n.args[0].kind == TN_ARG_VALUE) {
      value v = g.value_at(n.args[0].u.value);
      bool is_sum =
          v.source == TN_SRC_NODE && sv(g.at(v.source_index).op_name) == "aten.add.Tensor";
      if (is_sum) after_add.insert(i);
    }
    if (n.n_results == 0) return;
    std::span<const tn_dim> dims = g.value_at(n.first_result).dims();
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d].expr != TN_EXPR_STATIC) {
        lengths.emplace(i, std::pair(d, g.expr(dims[d].expr).hint));
        return;
      }
  }
};

// ---- the bugs

void crash_at_tanh(const step& s, const Found&) {
  if (is_op(s, "aten.tanh.default")) std::raise(SIGSEGV);
}
void fail_at_softmax(const step& s, const Found&) {
  if (is_softmax(s))
    throw error(TN_UNIMPLEMENTED, text("rows of {} are not aligned", s.results()[0]->numel));
}
void round_mm(const step& s, const Found&) {
  if (!is_op(s, "aten.mm.default") && !is_op(s, "aten.addmm.default")) return;
  if (auto x = result_of(s); !x.empty()) x[0] = x[0] * 1.5f + 1;
}
void lose_gelu(const step& s, const Found&) {
  if (!is_op(s, "aten.gelu.default")) return;
  if (auto x = result_of(s); !x.empty()) x[0] = NAN;
}
void lower_gelu_as_silu(const step& s, const Found&) {
  if (!is_op(s, "aten.gelu.default")) return;
  std::span<float> out = result_of(s), in = numbers_of(operand_of(s, 0));
  for (size_t i = 0; i < std::min(out.size(), in.size()); ++i)
    out[i] = in[i] / (1 + std::exp(-in[i]));
}
// The sum is taken twice where the normalisation is fused with it.
void fuse_add_with_norm(const step& s, const Found& found) {
  if (!is_op(s, "aten.native_layer_norm") || !found.after_add.contains(s.index)) return;
  for (float& x : result_of(s)) x *= 2;
}
// Reads an operand in the order in which it lies, as if the graph promised rows.
void take_operand_for_rows(const step& s, const Found&) {
  if (!is_op(s, "aten.clone")) return;
  const tn_tensor* in = operand_of(s, 0);
  std::span<float> out = result_of(s), read = numbers_of(in);
  if (!out.empty() && !is_contiguous(*in)) std::ranges::copy(read, out.begin());
}
// One row too many of a table.
void read_beyond_table(const step& s, const Found&) {
  if (!is_op(s, "aten.embedding")) return;
  const tn_tensor* table = operand_of(s, 0);
  if (numbers_of(table).empty()) return;
  const volatile float* behind = static_cast<const float*>(table->data) + table->numel;
  for (auto& x : result_of(s)) x += 0 * behind[0];
}
// Code for the size that was seen, without a guard.
void forget_later_rows(const step& s, const Found& found) {
  auto known = found.lengths.find(s.index);
  if (!is_op(s, "aten.gelu.default") || known == found.lengths.end()) return;
  auto [dim, length] = known->second;
  const tn_tensor& t = *s.results()[0];
  int64_t inner = 1;
  for (auto d = int32_t(dim) + 1; d < t.ndim; ++d) inner *= t.sizes[d];
  std::span<float> x = result_of(s);
  for (size_t i = 0; i < x.size(); ++i)
    if (int64_t(i) / inner % t.sizes[dim] >= length) x[i] = 0;
}
// The result keeps the bits that a half has: the cast back to f32 is lost in what it stands for.
void keep_half(const step& s, const Found&) {
  if (!is_op(s, "aten.native_layer_norm")) return;
  for (float& x : result_of(s)) {
    auto bits = std::bit_cast<uint32_t>(x);
    x = std::bit_cast<float>(bits & 0xFFFF0000u);
  }
}
void wait_for_ever(const step& s, const Found&) {
  while (is_op(s, "aten.tanh.default")) std::this_thread::sleep_for(std::chrono::seconds(1));
}
void refuse_sixteen(const step& s, const Found&) {
  if (!is_op(s, "aten.embedding")) return;
  for (int64_t size : sizes(s.results()[0]))
    if (size == 16) throw error(TN_UNIMPLEMENTED, "tiles of 16 rows overlap");
}
// The dimension before the one that the graph names.
void reduce_wrong_axis(const step& s, const Found&) {
  if (!is_softmax(s) || s.results()[0]->ndim < 2) return;
  std::vector<tn_arg> args(s.args.begin(), s.args.end());
  args[1].u.i -= 1;
  tn_tensor* other = nullptr;
  run_op(s.node.op, args, s.values, std::span(&other, 1));
  tensor owned(other);
  std::ranges::copy(numbers_of(other), result_of(s).begin());
}
// Of gelu, whose derivative is made of an error function among others.
void double_gradient(const step& s, const Found& found) {
  if (!found.is_backward || !is_op(s, "aten.erf.default")) return;
  for (float& x : result_of(s)) x *= 2;
}

void crash_in_codegen(const tn_compile_request& request) {
  graph g(request);
  for (uint32_t i = 0; i < g.size(); ++i)
    if (sv(g.at(i).op_name) == "aten.gelu.default") std::raise(SIGSEGV);
}
void refuse_gelu(const tn_compile_request& request) {
  graph g(request);
  for (uint32_t i = 0; i < g.size(); ++i)
    if (sv(g.at(i).op_name) == "aten.gelu.default")
      g.fail_at(i, TN_INTERNAL, text("no register is left for value {}", i));
}
void compile_nothing_special(const tn_compile_request&) {}

struct Bug {
  std::string_view backend;
  void (*after)(const step& s, const Found& found) = [](const step&, const Found&) {};
  void (*while_compiling)(const tn_compile_request& request) = compile_nothing_special;
};

constexpr Bug bugs[] = {
    {.backend = "bug_crash", .after = crash_at_tanh},
    {.backend = "bug_codegen", .while_compiling = crash_in_codegen},
    {.backend = "bug_compile", .while_compiling = refuse_gelu},
    {.backend = "bug_error", .after = fail_at_softmax},
    {.backend = "bug_wrong", .after = round_mm},
    {.backend = "bug_nan", .after = lose_gelu},
    {.backend = "bug_lowering", .after = lower_gelu_as_silu},
    {.backend = "bug_fusion", .after = fuse_add_with_norm},
    {.backend = "bug_stride", .after = take_operand_for_rows},
    {.backend = "bug_beyond", .after = read_beyond_table},
    {.backend = "bug_guard", .after = forget_later_rows},
    {.backend = "bug_cast", .after = keep_half},
    {.backend = "bug_hang", .after = wait_for_ever},
    {.backend = "bug_size", .after = refuse_sixteen},
    {.backend = "bug_axis", .after = reduce_wrong_axis},
    {.backend = "bug_vjp", .after = double_gradient},
    {.backend = "bug_region", .after = crash_at_tanh},
};

struct Buggy {
  program steps;
  Found found;
  const Bug& bug;

  void call(tn_call& c) {
    steps.run(c, [this](const step& s, auto&& run) {
      run();
      bug.after(s, found);
    });
  }
};

struct Bugs : Backend {
  explicit Bugs(std::string_view name) : bug(*std::ranges::find(bugs, name, &Bug::backend)) {}
  std::unique_ptr<Buggy> compile(const tn_compile_request& request) {
    bug.while_compiling(request);
    return std::make_unique<Buggy>(Buggy{program(request), Found(request), bug});
  }
  const Bug& bug;
};

/// Leaves attention to its fallback, which cuts graphs into regions.
struct Picky : Bugs {
  using Bugs::Bugs;
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    graph g(request);
    for (uint32_t i = 0; i < g.size(); ++i) {
      std::string_view name = sv(g.at(i).op_name);
      bool is_left = name.find("softmax") != name.npos || name.find("attention") != name.npos;
      verdicts[i] = is_left ? TN_NOT_SUPPORTED : TN_SUPPORTED;
    }
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Bugs, "bug_crash"), (Bugs, "bug_codegen"), (Bugs, "bug_compile"),
                      (Bugs, "bug_error"), (Bugs, "bug_wrong"), (Bugs, "bug_nan"),
                      (Bugs, "bug_lowering"), (Bugs, "bug_fusion"), (Bugs, "bug_stride"),
                      (Bugs, "bug_beyond"), (Bugs, "bug_guard"), (Bugs, "bug_cast"),
                      (Bugs, "bug_hang"), (Bugs, "bug_size"), (Bugs, "bug_axis"), (Bugs, "bug_vjp"),
                      (Picky, "bug_region"))
