// fused: chains of pointwise ops become one loop over blocks that stay in the cache.
//
// Problem. Run node by node, each pointwise op reads its operands from memory and writes its result
// back, so that a chain of ten is ten times as slow as memory allows.
// Model. `supports` takes the nodes whose op has a formula (a program of scalar primitives) that
// only needs f32 and bool; the host hands over regions of them. Nodes with equal sizes share a
// loop. Method. A loop runs over blocks of 256 elements. A value of the loop is a register: 256
// floats, masks as 0 and 1. Each instruction is one vectorised pass over registers; only what
// another loop or the caller needs is written to memory. Cost. Memory traffic of a loop is its
// loads and stores, however many ops it has.
#include <tenon/plugin.hpp>
#include <tenon/plugin_program.hpp>

#include <bit>
#include <cmath>
#include <map>
#include <type_traits>

using namespace tenon::plugin;

namespace {

constexpr int64_t block = 256;

// ---- primitives ----

using Kernel = void (*)(float* out, const float* a, const float* b, const float* c, int64_t n);

// One pass of `F`, a lambda without captures, over blocks.
template <class F>
Kernel pass(F) {
  return [](float* out, const float* a, const float* b, const float* c, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_invocable_v<F, float>)
        out[i] = F{}(a[i]);
      else if constexpr (std::is_invocable_v<F, float, float>)
        out[i] = F{}(a[i], b[i]);
      else
        out[i] = F{}(a[i], b[i], c[i]);
    }
  };
}

const std::map<uint16_t, Kernel> arithmetic = {
    {TN_F_NEG, pass([](float a) { return -a; })},
    {TN_F_ABS, pass([](float a) { return std::fabs(a); })},
    {TN_F_ADD, pass([](float a, float b) { return a + b; })},
    {TN_F_SUB, pass([](float a, float b) { return a - b; })},
    {TN_F_MUL, pass([](float a, float b) { return a * b; })},
    {TN_F_DIV, pass([](float a, float b) { return a / b; })},
    // NaN in either operand gives NaN.
    {TN_F_MIN, pass([](float a, float b) { return a < b || a != a ? a : b; })},
    {TN_F_MAX, pass([](float a, float b) { return a > b || a != a ? a : b; })},
    {TN_F_POW, pass([](float a, float b) { return std::pow(a, b); })},
    {TN_F_SQRT, pass([](float a) { return std::sqrt(a); })},
    {TN_F_RSQRT, pass([](float a) { return 1 / std::sqrt(a); })},
    {TN_F_EXP, pass([](float a) { return std::exp(a); })},
    {TN_F_LOG, pass([](float a) { return std::log(a); })},
    {TN_F_SIN, pass([](float a) { return std::sin(a); })},
    {TN_F_COS, pass([](float a) { return std::cos(a); })},
    {TN_F_TANH, pass([](float a) { return std::tanh(a); })},
    {TN_F_ERF, pass([](float a) { return std::erf(a); })},
    {TN_F_SIGMOID, pass([](float a) {
       float e = std::exp(-std::fabs(a));
       return (a < 0 ? e : 1) / (1 + e);
     })},
};

const std::map<uint16_t, Kernel> logic = {
    {TN_F_EQ, pass([](float a, float b) { return a == b; })},
    {TN_F_NE, pass([](float a, float b) { return a != b; })},
    {TN_F_LT, pass([](float a, float b) { return a < b; })},
    {TN_F_LE, pass([](float a, float b) { return a <= b; })},
    {TN_F_GT, pass([](float a, float b) { return a > b; })},
    {TN_F_GE, pass([](float a, float b) { return a >= b; })},
    {TN_F_BAND, pass([](float a, float b) { return a * b; })},
    {TN_F_BNOT, pass([](float a) { return 1 - a; })},
};

// Null for what a loop cannot do. A cast is one between a mask and the compute type, f32.
Kernel kernel_of(const tn_instr& i) {
  bool computes = i.dtype == TN_F_COMPUTE_TYPE || i.dtype == TN_F32;
  if (i.code == TN_F_SELECT)
    return pass([](float mask, float a, float b) { return mask != 0 ? a : b; });
  if (i.code == TN_F_CAST && i.dtype == TN_BOOL) return pass([](float a) { return a != 0; });
  if (i.code == TN_F_CAST && computes) return pass([](float a) { return a; });
  if (!computes && i.dtype != TN_BOOL) return nullptr;
  const auto& known = computes ? arithmetic : logic;
  auto found = known.find(i.code);
  return found == known.end() ? nullptr : found->second;
}

float constant_of(const tn_instr& i) {
  uint64_t bits = i.a | uint64_t{i.b} << 32;
  return i.dtype == TN_I64 ? float(int64_t(bits)) : float(std::bit_cast<double>(bits));
}

std::optional<float> number_of(const tn_arg& a) {
  if (a.kind == TN_ARG_FLOAT) return float(a.u.f);
  if (a.kind == TN_ARG_INT || a.kind == TN_ARG_BOOL) return float(a.u.i);
  return std::nullopt;
}

// ---- which nodes ----

bool is_tensor_of(const graph& g, uint32_t id, int32_t dtype) {
  value v = g.value_at(id);
  return v.is_tensor() && v.dtype == dtype && v.device_type == TN_DEV_CPU;
}

bool is_fusible(const graph& g, const node& n) {
  if (n.n_results != 1 || (n.tags & TN_TAG_INPLACE)) return false;
  if (!is_tensor_of(g, n.first_result, TN_F32) && !is_tensor_of(g, n.first_result, TN_BOOL))
    return false;
  auto f = formula_of(n.op, n.arguments());
  if (!f || f->n_outputs != 1) return false;
  if (f->promote != TN_PROMOTE_SAME && f->promote != TN_PROMOTE_TO_FLOAT) return false;
  for (uint32_t i = 0; i < f->n_inputs; ++i) {
    const tn_arg& a = n.args[f->input_args[i]];
    int32_t wanted = f->input_dtypes[i] == TN_BOOL ? TN_BOOL : TN_F32;
    bool is_value = a.kind == TN_ARG_VALUE;
    if (is_value ? !is_tensor_of(g, a.u.value, wanted) : !number_of(a)) return false;
  }
  for (const tn_instr& i : f->program())
    if (i.code != TN_F_CONST && !kernel_of(i)) return false;
  return true;
}

// ---- loops ----

struct Step {
  Kernel kernel;  // null: the register is filled with `constant`
  float constant;
  uint32_t out, a, b, c;
};

struct Access {
  uint32_t value, reg;
  bool is_mask;
};

/// Nodes with equal sizes, as steps over registers.
struct Loop {
  std::vector<tn_dim> sizes;
  std::vector<Access> loads, stores;
  std::vector<Step> steps;
  std::map<uint32_t, uint32_t> register_of;  // by value
  uint32_t n_registers = 0;

  bool fits(std::span<const tn_dim> dims) const {
    return std::equal(dims.begin(), dims.end(), sizes.begin(), sizes.end(),
                      [](const tn_dim& a, const tn_dim& b) {
                        return a.expr == b.expr && (a.expr != TN_EXPR_STATIC || a.value == b.value);
                      });
  }
  uint32_t load(const graph& g, uint32_t value) {
    auto [at, added] = register_of.try_emplace(value, n_registers);
    if (!added) return at->second;
    loads.push_back({value, n_registers, is_tensor_of(g, value, TN_BOOL)});
    return n_registers++;
  }
  uint32_t fill(float constant) {
    steps.push_back({nullptr, constant, n_registers, 0, 0, 0});
    return n_registers++;
  }
  void add(const graph& g, const node& n) {
    formula f = *formula_of(n.op, n.arguments());
    std::vector<uint32_t> at;  // register of each value of the formula
    for (uint32_t i = 0; i < f.n_inputs; ++i) {
      const tn_arg& a = n.args[f.input_args[i]];
      at.push_back(a.kind == TN_ARG_VALUE ? load(g, a.u.value) : fill(*number_of(a)));
    }
    for (const tn_instr& i : f.program()) {
      if (i.code == TN_F_CONST) {
        at.push_back(fill(constant_of(i)));
        continue;
      }
      auto operand = [&](uint32_t id) { return id < at.size() ? at[id] : 0; };
      steps.push_back({kernel_of(i), 0, n_registers, operand(i.a), operand(i.b), operand(i.c)});
      at.push_back(n_registers++);
    }
    register_of[n.first_result] = at[f.outputs[0]];
  }
};

// ---- running a loop ----

/// Where an access of a loop lies: strides in elements, 0 where it is broadcast.
struct Pointer {
  char* data;
  std::vector<int64_t> strides;
  bool is_mask;
};

class Nest {
 public:
  Nest(const Loop& loop, std::span<const int64_t> sizes, std::span<tn_tensor* const> values)
      : loop_(loop), sizes_(sizes.begin(), sizes.end()) {
    for (const Access& a : loop.loads) add(a, values[a.value]);
    for (const Access& a : loop.stores) add(a, values[a.value]);
    if (sizes_.empty()) sizes_.push_back(1);
    merge_dims();
  }

  void run(int64_t grain) const {
    int64_t per_row = (sizes_.back() + block - 1) / block, rows = 1;
    for (size_t d = 0; d + 1 < sizes_.size(); ++d) rows *= sizes_[d];
    parallel_for(0, rows * per_row, grain, [&](int64_t begin, int64_t end) {
      std::vector<float> registers(size_t(loop_.n_registers) * block);
      fill_constants(registers.data());
      for (int64_t i = begin; i < end; ++i) run_block(registers.data(), i / per_row, i % per_row);
    });
  }

 private:
  void add(const Access& access, const tn_tensor* t) {
    Pointer p{static_cast<char*>(t->data), std::vector<int64_t>(sizes_.size()), access.is_mask};
    size_t skipped = sizes_.size() - size_t(t->ndim);
    for (size_t d = skipped; d < sizes_.size(); ++d)
      p.strides[d] = t->sizes[d - skipped] == 1 ? 0 : t->strides[d - skipped];
    if (sizes_.empty()) p.strides.push_back(0);
    pointers_.push_back(std::move(p));
  }
  // Neighbours that every access walks as one dimension become one: long rows, few of them.
  void merge_dims() {
    for (size_t d = sizes_.size() - 1; d-- > 0;) {
      bool together = true;
      for (const Pointer& p : pointers_)
        together = together && p.strides[d] == p.strides[d + 1] * sizes_[d + 1];
      if (!together) continue;
      sizes_[d + 1] *= sizes_[d];
      sizes_.erase(sizes_.begin() + std::ptrdiff_t(d));
      for (Pointer& p : pointers_) p.strides.erase(p.strides.begin() + std::ptrdiff_t(d));
    }
  }
  void fill_constants(float* registers) const {
    for (const Step& s : loop_.steps)
      if (!s.kernel) std::fill_n(registers + s.out * block, block, s.constant);
  }
  int64_t offset(const Pointer& p, int64_t row, int64_t column) const {
    int64_t at = column * p.strides.back();
    for (size_t d = sizes_.size() - 1; d-- > 0; row /= sizes_[d])
      at += row % sizes_[d] * p.strides[d];
    return at;
  }
  void run_block(float* registers, int64_t row, int64_t block_of_row) const {
    int64_t column = block_of_row * block, n = std::min(block, sizes_.back() - column);
    for (size_t i = 0; i < loop_.loads.size(); ++i)
      load(registers + loop_.loads[i].reg * block, pointers_[i], row, column, n);
    for (const Step& s : loop_.steps)
      if (s.kernel)
        s.kernel(registers + s.out * block, registers + s.a * block, registers + s.b * block,
                 registers + s.c * block, n);
    for (size_t i = 0; i < loop_.stores.size(); ++i)
      store(registers + loop_.stores[i].reg * block, pointers_[loop_.loads.size() + i], row, column,
            n);
  }
  void load(float* out, const Pointer& p, int64_t row, int64_t column, int64_t n) const {
    int64_t at = offset(p, row, column), stride = p.strides.back();
    if (p.is_mask)
      for (int64_t i = 0; i < n; ++i) out[i] = p.data[at + i * stride] != 0;
    else
      for (int64_t i = 0; i < n; ++i)
        out[i] = reinterpret_cast<const float*>(p.data)[at + i * stride];
  }
  void store(const float* in, const Pointer& p, int64_t row, int64_t column, int64_t n) const {
    int64_t at = offset(p, row, column), stride = p.strides.back();
    if (p.is_mask)
      for (int64_t i = 0; i < n; ++i) p.data[at + i * stride] = in[i] != 0;
    else
      for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(p.data)[at + i * stride] = in[i];
  }

  const Loop& loop_;
  std::vector<int64_t> sizes_;
  std::vector<Pointer> pointers_;  // of the loads, then of the stores
};

// ---- the program ----

/// A tensor that the program makes: sizes and strides are numbers or kept expressions.
struct Made {
  std::vector<tn_dim> sizes, strides;
  int32_t dtype;
};

class Program {
 public:
  explicit Program(const tn_compile_request& request) : values_(graph(request).values()) {
    graph g(request);
    grain_ = options(request).get<int64_t>("grain");
    inputs_.assign(g.inputs().begin(), g.inputs().end());
    outputs_.assign(g.outputs().begin(), g.outputs().end());
    for (uint32_t i = 0; i < g.values(); ++i)
      if (g.value_at(i).source == TN_SRC_CONSTANT) constants_.emplace_back(i, g.constant(i));
    for (uint32_t i = 0; i < g.size(); ++i) add(g, g.at(i));
    for (uint32_t id : outputs_) need(g, id, nullptr);
    for (const Loop& loop : loops_)
      for (const Access& a : loop.loads) need(g, a.value, &loop);
    for (Loop& loop : loops_) keep(g, loop.sizes);
  }

  void call(tn_call& c) {
    std::vector<int64_t> numbers = expressions_.evaluate(c.syms);
    std::vector<tn_tensor*> values(values_);
    std::vector<tensor> owned;
    for (size_t i = 0; i < inputs_.size(); ++i) values[inputs_[i]] = c.inputs[i];
    for (const auto& [id, constant] : constants_) values[id] = constant.get();
    for (const Loop& loop : loops_) {
      for (const Access& a : loop.stores) {
        const Made& made = made_.at(a.value);
        owned.push_back(tensor::strided(at_call(made.sizes, numbers),
                                        at_call(made.strides, numbers), made.dtype));
        values[a.value] = owned.back().get();
      }
      if (loop.stores.empty() || values[loop.stores[0].value]->numel == 0) continue;
      Nest(loop, at_call(loop.sizes, numbers), values).run(grain_);
    }
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i] != TN_NO_VALUE) c.outputs[i] = tensor::share(values[outputs_[i]]).release();
  }

  std::string describe(int32_t what) const {
    if (what != TN_DESC_STATS_JSON) return "";
    size_t ops = 0;
    for (const Loop& loop : loops_) ops += loop.steps.size();
    return text(R"({"kernels":{},"extern_calls":0,"fused_nodes":{},"planned_bytes":0,)"
                R"("naive_bytes":0,"compile_ms":0,"codegen_ms":0,"from_cache":false})",
                loops_.size(), ops);
  }

 private:
  void add(const graph& g, const node& n) {
    if (!is_fusible(g, n)) throw declined(text("{} is not taken", sv(n.op_name)));
    value result = g.value_at(n.first_result);
    if (loops_.empty() || !loops_.back().fits(result.dims()))
      loops_.emplace_back().sizes.assign(result.dims().begin(), result.dims().end());
    loops_.back().add(g, n);
  }
  // A value that `reader` (null: the caller) finds in memory is stored by the loop that makes it.
  void need(const graph& g, uint32_t id, const Loop* reader) {
    if (id == TN_NO_VALUE || made_.contains(id)) return;
    value v = g.value_at(id);
    for (Loop& loop : loops_) {
      auto at = loop.register_of.find(id);
      bool loads = std::any_of(loop.loads.begin(), loop.loads.end(),
                               [&](const Access& a) { return a.value == id; });
      if (v.source != TN_SRC_NODE || &loop == reader || at == loop.register_of.end() || loads)
        continue;
      loop.stores.push_back({id, at->second, v.dtype == TN_BOOL});
      Made& made = made_[id];
      made.sizes.assign(v.dims().begin(), v.dims().end());
      made.strides.assign(v.stride_dims().begin(), v.stride_dims().end());
      made.dtype = v.dtype;
      keep(g, made.sizes);
      keep(g, made.strides);
    }
  }
  // From here on `expr` is the position of the kept expression.
  void keep(const graph& g, std::vector<tn_dim>& dims) {
    for (tn_dim& d : dims)
      if (d.expr != TN_EXPR_STATIC) d.expr = expressions_.keep(g, d.expr);
  }
  static std::vector<int64_t> at_call(const std::vector<tn_dim>& dims,
                                      const std::vector<int64_t>& numbers) {
    std::vector<int64_t> out;
    for (const tn_dim& d : dims)
      out.push_back(d.expr == TN_EXPR_STATIC ? d.value : numbers[d.expr]);
    return out;
  }

  std::vector<Loop> loops_;
  std::vector<uint32_t> inputs_, outputs_;
  std::vector<std::pair<uint32_t, tensor>> constants_;
  std::map<uint32_t, Made> made_;  // by value
  kept_expressions expressions_;
  size_t values_;
  int64_t grain_ = 1;
};

struct Fused : Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdict) {
    graph g(request);
    for (uint32_t i = 0; i < g.size(); ++i)
      verdict[i] = is_fusible(g, g.at(i)) ? TN_SUPPORTED : TN_NOT_SUPPORTED;
  }
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    return std::make_unique<Program>(request);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Fused, "fused"))
