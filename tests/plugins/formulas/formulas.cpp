// A code generator in small: supports the ops that have a formula and interprets the scalar program
// for each element. It knows the primitives and no op.
#include <tenon/plugin.hpp>

#include <bit>
#include <cmath>
#include <limits>

using namespace tenon::plugin;

namespace {

/// A value of one element: floats are computed in double, as the rest in 64 bits.
struct Element {
  bool is_float = true;
  double f = 0;
  int64_t i = 0;
  double real() const { return is_float ? f : static_cast<double>(i); }
};
Element real(double f) { return {true, f, 0}; }
Element whole(int64_t i) { return {false, 0, i}; }

bool is_float(int32_t dtype) { return dtype == TN_F32 || dtype == TN_F64; }

Element converted(Element e, int32_t dtype) {
  if (dtype == TN_F32) return real(static_cast<float>(e.real()));
  if (dtype == TN_F64) return real(e.real());
  if (dtype == TN_BOOL) return whole(e.is_float ? e.f != 0 : e.i != 0);
  if (!e.is_float) return dtype == TN_I32 ? whole(static_cast<int32_t>(e.i)) : e;
  bool fits = e.f > -9.2e18 && e.f < 9.2e18;
  return whole(fits ? static_cast<int64_t>(e.f) : std::numeric_limits<int64_t>::min());
}

int64_t wrapped(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }

int64_t whole_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1;
  for (uint64_t b = bits(base); exponent; exponent >>= 1, b *= b)
    if (exponent & 1) result *= b;
  return wrapped(result);
}

int64_t divided(uint16_t code, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return code == TN_F_FMOD || code == TN_F_MOD ? 0 : wrapped(-bits(a));
  int64_t q = a / b, r = a % b;
  bool adjust = r != 0 && (r < 0) != (b < 0);
  switch (code) {
    case TN_F_TRUNCDIV:
      return q;
    case TN_F_FLOORDIV:
      return q - adjust;
    case TN_F_FMOD:
      return r;
    default:
      return adjust ? r + b : r;
  }
}

double real_mod(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double real_floordiv(double a, double b) {
  if (b == 0) return a / b;
  double q = std::floor((a - real_mod(a, b)) / b + 0.5);
  return q == 0 ? std::copysign(0.0, a / b) : q;
}

double digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (x < 0) {
    if (x == std::floor(x)) return NAN;
    return digamma(1 - x) - M_PI / std::tan(M_PI * x);
  }
  double sum = 0;
  for (; x < 20; ++x) sum -= 1 / x;
  double y = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y / 240)));
}

// Newton's method from a rough start.
double erfinv(double y) {
  if (std::fabs(y) >= 1) return std::fabs(y) == 1 ? std::copysign(INFINITY, y) : NAN;
  double l = std::log1p(-y * y), t = 2 / (M_PI * 0.147) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) / (2 / std::sqrt(M_PI) * std::exp(-x * x));
  return x;
}

double real_unary(uint16_t code, double a) {
  switch (code) {
    case TN_F_NEG:
      return -a;
    case TN_F_ABS:
      return std::fabs(a);
    case TN_F_SIGN:
      return a > 0 ? 1 : a < 0 ? -1 : 0;
    case TN_F_SQRT:
      return std::sqrt(a);
    case TN_F_RSQRT:
      return 1 / std::sqrt(a);
    case TN_F_EXP:
      return std::exp(a);
    case TN_F_EXP2:
      return std::exp2(a);
    case TN_F_EXPM1:
      return std::expm1(a);
    case TN_F_LOG:
      return std::log(a);
    case TN_F_LOG2:
      return std::log2(a);
    case TN_F_LOG10:
      return std::log10(a);
    case TN_F_LOG1P:
      return std::log1p(a);
    case TN_F_SIN:
      return std::sin(a);
    case TN_F_COS:
      return std::cos(a);
    case TN_F_TAN:
      return std::tan(a);
    case TN_F_ASIN:
      return std::asin(a);
    case TN_F_ACOS:
      return std::acos(a);
    case TN_F_ATAN:
      return std::atan(a);
    case TN_F_SINH:
      return std::sinh(a);
    case TN_F_COSH:
      return std::cosh(a);
    case TN_F_TANH:
      return std::tanh(a);
    case TN_F_ASINH:
      return std::asinh(a);
    case TN_F_ACOSH:
      return std::acosh(a);
    case TN_F_ATANH:
      return std::atanh(a);
    case TN_F_SIGMOID:
      return 1 / (1 + std::exp(-a));
    case TN_F_ERF:
      return std::erf(a);
    case TN_F_ERFC:
      return std::erfc(a);
    case TN_F_ERFINV:
      return erfinv(a);
    case TN_F_LGAMMA:
      return std::lgamma(a);
    case TN_F_DIGAMMA:
      return digamma(a);
    case TN_F_FLOOR:
      return std::floor(a);
    case TN_F_CEIL:
      return std::ceil(a);
    case TN_F_TRUNC:
      return std::trunc(a);
    case TN_F_ROUND:
      return std::nearbyint(a);
    default:
      throw declined(text("primitive {} is unknown", code));
  }
}

double real_binary(uint16_t code, double a, double b) {
  switch (code) {
    case TN_F_ADD:
      return a + b;
    case TN_F_SUB:
      return a - b;
    case TN_F_MUL:
      return a * b;
    case TN_F_DIV:
      return a / b;
    case TN_F_TRUNCDIV:
      return std::trunc(a / b);
    case TN_F_FLOORDIV:
      return real_floordiv(a, b);
    case TN_F_FMOD:
      return std::fmod(a, b);
    case TN_F_MOD:
      return real_mod(a, b);
    case TN_F_MIN:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case TN_F_MAX:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case TN_F_POW:
      return std::pow(a, b);
    case TN_F_COPYSIGN:
      return std::copysign(a, b);
    case TN_F_ATAN2:
      return std::atan2(a, b);
    default:
      return real_unary(code, a);
  }
}

int64_t whole_binary(uint16_t code, int64_t a, int64_t b) {
  switch (code) {
    case TN_F_NEG:
      return wrapped(-bits(a));
    case TN_F_ABS:
      return a < 0 ? wrapped(-bits(a)) : a;
    case TN_F_SIGN:
      return a > 0 ? 1 : a < 0 ? -1 : 0;
    case TN_F_ADD:
      return wrapped(bits(a) + bits(b));
    case TN_F_SUB:
      return wrapped(bits(a) - bits(b));
    case TN_F_MUL:
      return wrapped(bits(a) * bits(b));
    case TN_F_TRUNCDIV:
    case TN_F_FLOORDIV:
    case TN_F_FMOD:
    case TN_F_MOD:
      return divided(code, a, b);
    case TN_F_MIN:
      return std::min(a, b);
    case TN_F_MAX:
      return std::max(a, b);
    case TN_F_POW:
      return whole_power(a, b);
    case TN_F_BAND:
      return a & b;
    case TN_F_BOR:
      return a | b;
    case TN_F_BXOR:
      return a ^ b;
    case TN_F_BNOT:
      return ~a;
    case TN_F_SHL:
      return bits(b) < 64 ? wrapped(bits(a) << b) : 0;
    case TN_F_SHR:
      return a >> (bits(b) < 64 ? b : 63);
    case TN_F_FLOOR:
    case TN_F_CEIL:
    case TN_F_TRUNC:
    case TN_F_ROUND:
      return a;
    default:
      throw declined(text("primitive {} is unknown for integers", code));
  }
}

bool truth_binary(uint16_t code, bool a, bool b) {
  switch (code) {
    case TN_F_ADD:
    case TN_F_BOR:
    case TN_F_MAX:
      return a || b;
    case TN_F_MUL:
    case TN_F_BAND:
    case TN_F_MIN:
      return a && b;
    case TN_F_SUB:
    case TN_F_BXOR:
      return a != b;
    case TN_F_BNOT:
      return !a;
    default:
      return a;
  }
}

template <class T>
bool compared(uint16_t code, T a, T b) {
  switch (code) {
    case TN_F_EQ:
      return a == b;
    case TN_F_NE:
      return a != b;
    case TN_F_LT:
      return a < b;
    case TN_F_LE:
      return a <= b;
    case TN_F_GT:
      return a > b;
    default:
      return a >= b;
  }
}

/// One op of the graph: its program and where its inputs are.
struct Step {
  std::vector<tn_instr> program;
  std::vector<uint32_t> outputs, results;
  std::vector<int32_t> result_dtypes;
  int32_t compute = TN_F32;
  struct Input {
    bool is_tensor = false, is_mask = false;
    uint32_t value = 0;
    Element number;
  };
  std::vector<Input> inputs;

  int32_t type_of(const tn_instr& instr) const {
    return instr.dtype == TN_F_COMPUTE_TYPE ? compute : instr.dtype;
  }
  Element run(const tn_instr& instr, const std::vector<Element>& v) const {
    if (instr.code == TN_F_CONST) {
      uint64_t word = instr.a | uint64_t{instr.b} << 32;
      return converted(
          instr.dtype == TN_F64 ? real(std::bit_cast<double>(word)) : whole(wrapped(word)),
          compute);
    }
    Element a = v[instr.a], b = instr.code == TN_F_SELECT || instr.b < v.size() ? v[instr.b] : a;
    if (instr.code == TN_F_CAST) return converted(a, type_of(instr));
    if (instr.code == TN_F_SELECT) return a.i ? b : v[instr.c];
    if (instr.code >= TN_F_EQ && instr.code <= TN_F_GE)
      return whole(a.is_float ? compared(instr.code, a.f, b.f) : compared(instr.code, a.i, b.i));
    if (type_of(instr) == TN_BOOL) return whole(truth_binary(instr.code, a.i, b.i));
    if (!a.is_float) return converted(whole(whole_binary(instr.code, a.i, b.i)), type_of(instr));
    return converted(real(real_binary(instr.code, a.f, b.f)), type_of(instr));
  }
};

Element load(const tn_tensor* t, int64_t at) {
  switch (t->dtype) {
    case TN_F32:
      return real(static_cast<const float*>(t->data)[at]);
    case TN_F64:
      return real(static_cast<const double*>(t->data)[at]);
    case TN_I64:
      return whole(static_cast<const int64_t*>(t->data)[at]);
    case TN_I32:
      return whole(static_cast<const int32_t*>(t->data)[at]);
    default:
      return whole(static_cast<const bool*>(t->data)[at]);
  }
}

void store(const tensor& t, int64_t at, Element e) {
  switch (t->dtype) {
    case TN_F32:
      t.data<float>()[at] = static_cast<float>(e.real());
      break;
    case TN_F64:
      t.data<double>()[at] = e.real();
      break;
    case TN_I64:
      t.data<int64_t>()[at] = e.i;
      break;
    case TN_I32:
      t.data<int32_t>()[at] = static_cast<int32_t>(e.i);
      break;
    default:
      t.data<bool>()[at] = e.i != 0;
      break;
  }
}

bool is_known(int32_t dtype) {
  return is_float(dtype) || dtype == TN_I64 || dtype == TN_I32 || dtype == TN_BOOL;
}

struct Program {
  std::vector<Step> steps;
  std::vector<std::pair<uint32_t, tensor>> constants;
  std::vector<uint32_t> inputs, outputs;
  std::vector<std::vector<int64_t>> sizes;  // by value

  void call(tn_call& c) {
    std::vector<tensor> values(sizes.size());
    for (size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = tensor::share(c.inputs[i]);
    for (const auto& [id, t] : constants) values[id] = tensor::share(t.get());
    for (const Step& step : steps) run(step, values);
    for (size_t i = 0; i < outputs.size(); ++i)
      c.outputs[i] = tensor::share(values[outputs[i]].get()).release();
  }

  // Offset of element `index` of a shape in a tensor that broadcasts to it.
  static int64_t offset(const tn_tensor* t, std::span<const int64_t> shape, int64_t index) {
    int64_t at = 0;
    for (size_t d = shape.size(); d-- > 0; index /= shape[d]) {
      auto own = static_cast<int64_t>(d) - static_cast<int64_t>(shape.size()) + t->ndim;
      if (own >= 0 && t->sizes[own] != 1) at += index % shape[d] * t->strides[own];
    }
    return at;
  }

  void run(const Step& step, std::vector<tensor>& values) const {
    const std::vector<int64_t>& shape = sizes[step.results[0]];
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    for (size_t r = 0; r < step.results.size(); ++r)
      values[step.results[r]] = tensor::empty(shape, step.result_dtypes[r]);
    std::vector<Element> v;
    for (int64_t e = 0; e < n; ++e) {
      v.clear();
      for (const Step::Input& in : step.inputs) {
        Element given = in.is_tensor
                            ? load(values[in.value].get(), offset(values[in.value].get(), shape, e))
                            : in.number;
        v.push_back(converted(given, in.is_mask ? int32_t{TN_BOOL} : step.compute));
      }
      for (const tn_instr& instr : step.program) v.push_back(step.run(instr, v));
      for (size_t r = 0; r < step.results.size(); ++r)
        store(values[step.results[r]], e, v[step.outputs[r]]);
    }
  }
};

struct Formulas : Backend {
  // The types of the tensors that are computed with, or -1 where one is none of ours.
  static int32_t compute_type(const graph& g, const node& n, const formula& f) {
    int32_t widest = -1, rank = -1;
    for (uint32_t i = 0; i < f.n_inputs; ++i) {
      const tn_arg& a = n.arguments()[f.input_args[i]];
      if (a.kind != TN_ARG_VALUE) {
        if (a.kind != TN_ARG_INT && a.kind != TN_ARG_FLOAT && a.kind != TN_ARG_BOOL) return -1;
        continue;
      }
      value v = g.value_at(a.u.value);
      if (!v.is_tensor() || !is_known(v.dtype) || !v.is_static()) return -1;
      if (f.input_dtypes[i] == TN_BOOL) continue;
      int32_t own = v.dtype == TN_BOOL  ? 0
                    : v.dtype == TN_I32 ? 1
                    : v.dtype == TN_I64 ? 2
                    : v.dtype == TN_F32 ? 3
                                        : 4;
      if (own > rank) rank = own, widest = v.dtype;
    }
    if (f.promote == TN_PROMOTE_TO_FLOAT && !is_float(widest)) return TN_F32;
    return widest;
  }

  // Mixed kinds of operands follow promotion rules that this plugin does not know: those it leaves.
  static bool is_plain(const graph& g, const node& n, const formula& f, int32_t compute) {
    for (uint32_t i = 0; i < f.n_inputs; ++i) {
      const tn_arg& a = n.arguments()[f.input_args[i]];
      if (a.kind == TN_ARG_FLOAT && !is_float(compute)) return false;
      if (a.kind != TN_ARG_BOOL && a.kind != TN_ARG_VALUE && compute == TN_BOOL) return false;
      if (a.kind == TN_ARG_VALUE && f.input_dtypes[i] != TN_BOOL &&
          f.promote != TN_PROMOTE_TO_FLOAT && g.value_at(a.u.value).dtype != compute)
        return false;
    }
    return true;
  }

  static std::optional<formula> usable(const graph& g, uint32_t i) {
    node n = g.at(i);
    if (n.tags & TN_TAG_INPLACE) return std::nullopt;
    auto f = formula_of(n.op, n.arguments());
    if (!f || f->n_outputs != n.n_results) return std::nullopt;
    int32_t compute = compute_type(g, n, *f);
    if (compute < 0 || !is_plain(g, n, *f, compute)) return std::nullopt;
    for (uint32_t r = 0; r < n.n_results; ++r) {
      value v = g.value_at(n.first_result + r);
      if (!v.is_static() || !is_known(v.dtype)) return std::nullopt;
    }
    return f;
  }

  void supports(const tn_compile_request& rq, std::span<uint8_t> verdicts) {
    graph g(rq);
    for (uint32_t i = 0; i < verdicts.size(); ++i)
      verdicts[i] = usable(g, i) ? TN_SUPPORTED : TN_NOT_SUPPORTED;
  }

  std::unique_ptr<Program> compile(const tn_compile_request& rq) {
    graph g(rq);
    auto program = std::make_unique<Program>();
    for (uint32_t i = 0; i < g.values(); ++i) {
      value v = g.value_at(i);
      auto& sizes = program->sizes.emplace_back();
      for (const tn_dim& d : v.dims()) sizes.push_back(d.value);
      if (v.source == TN_SRC_CONSTANT) program->constants.emplace_back(i, g.constant(i));
    }
    for (uint32_t i = 0; i < g.size(); ++i) {
      auto f = usable(g, i);
      if (!f) throw declined("a node without a formula");
      program->steps.push_back(step_of(g, g.at(i), *f));
    }
    program->inputs.assign(g.inputs().begin(), g.inputs().end());
    program->outputs.assign(g.outputs().begin(), g.outputs().end());
    return program;
  }

  static Step step_of(const graph& g, const node& n, const formula& f) {
    Step step;
    step.program.assign(f.program().begin(), f.program().end());
    step.outputs.assign(f.results().begin(), f.results().end());
    step.compute = compute_type(g, n, f);
    for (uint32_t i = 0; i < f.n_inputs; ++i) {
      const tn_arg& a = n.arguments()[f.input_args[i]];
      Step::Input in{a.kind == TN_ARG_VALUE, f.input_dtypes[i] == TN_BOOL, a.u.value, {}};
      if (a.kind == TN_ARG_FLOAT) in.number = real(a.u.f);
      if (a.kind == TN_ARG_INT || a.kind == TN_ARG_BOOL) in.number = whole(a.u.i);
      step.inputs.push_back(in);
    }
    for (uint32_t r = 0; r < n.n_results; ++r) {
      step.results.push_back(n.first_result + r);
      step.result_dtypes.push_back(g.value_at(n.first_result + r).dtype);
    }
    return step;
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Formulas, "formulas"))
