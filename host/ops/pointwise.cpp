// Running formulas: which program, which compute type, which operands.
//
// Problem: every pointwise row has only a formula; a call brings tensors of mixed dtypes and
// shapes, numbers, and strings or absent arguments that choose among formulas. Method: the program
// of a formula is recorded once. A call binds it for (compute type, numbers that are 0 or 1), which
// is cached in a list that only grows, then runs it over the broadcast operands. Cost: a call with
// one shape, contiguous, takes no meta function and about 60 ns besides the loop.
#include "ops/pointwise.h"

#include "core/pointwise_loop.h"
#include "ops/complex_arithmetic.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <mutex>

namespace tenon {

/// What is kept with a row: its recorded programs and their bound plans.
struct PointwiseState {
  struct Plan {
    uint8_t entry;
    Dtype compute;
    uint32_t ones, zeros;  // bit i: number input i is 1, 0
    BoundProgram program;
    Plan* next;
  };
  ScalarProgram programs[Formula::max_entries];
  std::atomic<Plan*> plans{nullptr};
  std::mutex binding;
};

namespace {

constexpr size_t max_inputs = formula::max_inputs;

PointwiseState& state_of(const OpEntry& op) {
  if (PointwiseState* known = op.pointwise.load(std::memory_order_acquire)) return *known;
  auto* fresh = new PointwiseState;
  for (int i = 0; i < op.def->formula.n_entries; ++i)
    fresh->programs[i] = record(op.def->formula.entries[i].formula);
  PointwiseState* expected = nullptr;
  if (op.pointwise.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel))
    return *fresh;
  delete fresh;
  return *expected;
}

/// A call seen as inputs of a formula.
struct Inputs {
  int entry = 0;
  size_t n = 0;
  const Tensor* tensors[max_inputs] = {};  // null: a number
  ScalarLiteral numbers[max_inputs];
  Dtype promoted = Dtype::f32;     // dtype of results of the compute type
  Tensor tensor_list[max_inputs];  // the tensors only, for shape rules
  size_t n_tensors = 0;
};

// Numbers under these names take part in promotion; others (alpha, negative_slope, ...) only
// convert.
bool promotes(const SchemaArg& arg) {
  return arg.type.base == BaseType::scalar &&
         (arg.name == "other" || arg.name == "exponent" || arg.name == "self" ||
          arg.name == "min" || arg.name == "max");
}

int choose_entry(const CallArgs& call) {
  const Formula& f = call.op->def->formula;
  if (f.choice == Formula::Choice::single) return 0;
  if (f.choice == Formula::Choice::by_presence) {
    unsigned present = 0, index = 0;
    for (uint32_t i = 0; i < call.n_args; ++i)
      if (call.op->schema.args[i].type.optional)
        present |= unsigned{!call.args[i].is_none()} << index++;
    int entry = f.find_present(present);
    require(entry >= 0, "{}: at least one of the optional arguments must be given", call.op->name);
    return entry;
  }
  int index = call.op->schema.find_arg(f.argument);
  ensure(index >= 0, "a formula is chosen by an argument that its schema lacks");
  std::string_view value =
      call.args[index].is_none() ? "none" : arg_as<std::string_view>(call.args[index]);
  int entry = f.find(value);
  if (entry < 0) {
    std::string known;
    for (int i = 0; i < f.n_entries; ++i)
      known += (i ? ", " : "") + std::string(f.entries[i].value);
    fail("{}: argument {} must be one of {}, found '{}'", call.op->name, f.argument, known, value);
  }
  return entry;
}

ScalarLiteral literal_of(Number n) {
  if (n.is_floating()) return ScalarLiteral::of(n.to_double());
  return ScalarLiteral::of(n.to_int());
}

bool type_allowed(formula::Types types, Dtype dtype) {
  if (is_floating(dtype)) return types & formula::floats;
  return dtype == Dtype::bool_ ? (types & 4) != 0 : (types & 2) != 0;
}

Dtype promoted_type(const CallArgs& call, const formula::PointwiseFormula& f,
                    const Promotion& promotion) {
  Dtype dtype = promotion.result();
  Promote rule = call.op->def->promote;
  if (rule == Promote::automatic)
    rule = f.types == formula::floats ? Promote::to_float : Promote::same;
  if (rule == Promote::to_float) dtype = to_float_type(dtype);
  require(is_computing(dtype), ErrorCode::unsupported,
          "{} does not compute on dtype {}; cast the input to a real dtype", call.op->name, dtype);
  require(type_allowed(f.types, dtype), "{} is not defined for dtype {}", call.op->name, dtype);
  return dtype;
}

// `with_values` false: only what the meta function needs, so that symbolic numbers stay symbolic.
Inputs read_inputs(const CallArgs& call, bool with_values) {
  Inputs in;
  in.entry = choose_entry(call);
  const formula::PointwiseFormula& f = call.op->def->formula.entries[in.entry].formula;
  Promotion promotion;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& a = call.args[i];
    if (a.tag == Tag::tensor) {
      const Tensor& t = *a.as<Tensor>();
      in.tensors[in.n] = &t;
      in.tensor_list[in.n_tensors++] = t;
      bool is_mask = f.mask_inputs >> in.n & 1;
      if (!is_mask)
        promotion.add(t);
      else
        require(t.dtype() == Dtype::bool_ || t.dtype() == Dtype::u8,
                "{}: argument {} must be bool, found {}", call.op->name,
                call.op->schema.args[i].name, t.dtype());
      ++in.n;
    } else if (a.is_number()) {
      if (promotes(call.op->schema.args[i])) promotion.add(a.number());
      if (with_values) in.numbers[in.n] = literal_of(a.number());
      ++in.n;
    }
    ensure(in.n <= max_inputs, "a formula has at most twelve inputs");
  }
  ensure(in.n == f.n_inputs, "a formula's parameters do not match its schema");
  in.promoted = promoted_type(call, f, promotion);
  return in;
}

const BoundProgram& bound_program(const OpEntry& op, const Inputs& in) {
  PointwiseState& state = state_of(op);
  Dtype compute = computing_dtype(in.promoted);
  uint32_t ones = 0, zeros = 0;
  for (size_t i = 0; i < in.n; ++i) {
    if (in.tensors[i]) continue;
    ones |= uint32_t{in.numbers[i].as_double() == 1} << i;
    zeros |= uint32_t{in.numbers[i].bits == 0} << i;
  }
  auto matches = [&](const PointwiseState::Plan& p) {
    return p.entry == in.entry && p.compute == compute && p.ones == ones && p.zeros == zeros;
  };
  for (auto* p = state.plans.load(std::memory_order_acquire); p; p = p->next)
    if (matches(*p)) return p->program;
  std::lock_guard lock(state.binding);
  for (auto* p = state.plans.load(std::memory_order_acquire); p; p = p->next)
    if (matches(*p)) return p->program;
  std::vector<BindInput> inputs(in.n);
  for (size_t i = 0; i < in.n; ++i)
    if ((ones | zeros) >> i & 1) inputs[i] = BindInput::constant(in.numbers[i]);
  auto* plan = new PointwiseState::Plan{static_cast<uint8_t>(in.entry),
                                        compute,
                                        ones,
                                        zeros,
                                        bind(state.programs[in.entry], compute, inputs),
                                        state.plans.load(std::memory_order_relaxed)};
  state.plans.store(plan, std::memory_order_release);
  return plan->program;
}

Dtype result_dtype(const OpEntry& op, const Inputs& in, size_t i) {
  const ScalarProgram& program = state_of(op).programs[in.entry];
  return program.dtype_of(program.outputs[i]) == compute_type
             ? in.promoted
             : program.result_dtype(i, computing_dtype(in.promoted));
}

size_t n_results(const OpEntry& op, const Inputs& in) {
  return state_of(op).programs[in.entry].outputs.size();
}

// Runs the plan into tensors that exist already.
void run_into(const CallArgs& call, const Inputs& in, std::span<const Tensor> outs) {
  const BoundProgram& plan = bound_program(*call.op, in);
  SymIntList sizes = outs[0].sizes();
  Operand out_operands[8], in_operands[max_inputs];
  Dims strides[max_inputs];
  for (size_t i = 0; i < outs.size(); ++i)
    out_operands[i] = {impl_of(outs[i])->data, outs[i].dtype(), impl_of(outs[i])->strides};
  for (size_t i = 0; i < in.n; ++i) {
    if (!in.tensors[i]) {
      in_operands[i] = {const_cast<uint64_t*>(&in.numbers[i].bits),
                        in.numbers[i].is_float ? Dtype::f64 : Dtype::i64, nullptr};
      continue;
    }
    const Tensor& t = *in.tensors[i];
    if (t.dim() == outs[0].dim() &&
        std::equal(sizes.begin(), sizes.end(), t.sizes().begin(),
                   [](SymInt a, SymInt b) { return a.word() == b.word(); })) {
      in_operands[i] = {impl_of(t)->data, t.dtype(), impl_of(t)->strides};
    } else {
      strides[i] = broadcast_strides(t.sizes(), t.strides(), sizes);
      in_operands[i] = {impl_of(t)->data, t.dtype(),
                        reinterpret_cast<const int64_t*>(strides[i].data())};
    }
  }
  run_pointwise(plan, {out_operands, outs.size()}, {in_operands, in.n},
                {impl_of(outs[0])->sizes, static_cast<size_t>(outs[0].dim())});
}

Dims result_sizes(const Inputs& in) {
  return broadcast_sizes(std::span(in.tensor_list, in.n_tensors));
}

// One shape, all contiguous: the result is contiguous too, and no rule needs to be asked.
bool is_plain(const Inputs& in) {
  if (in.n_tensors == 0) return false;
  const TensorImpl* first = impl_of(in.tensor_list[0]);
  for (size_t i = 0; i < in.n_tensors; ++i) {
    const TensorImpl* t = impl_of(in.tensor_list[i]);
    if (!(t->flags & TN_T_CONTIGUOUS) || t->ndim != first->ndim ||
        !std::equal(t->sizes, t->sizes + t->ndim, first->sizes))
      return false;
  }
  return true;
}

const CallArgs functional_call(const CallArgs& call) {
  CallArgs functional = call;
  functional.op = call.op->functional;
  return functional;
}

bool can_cast(Dtype from, Dtype to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !is_floating(to) && !is_complex(to)) return false;
  return from == Dtype::bool_ || to != Dtype::bool_;
}

void check_fits_self(const CallArgs& call, SymIntList sizes, Dtype dtype) {
  const Tensor& self = *call.args[0].as<Tensor>();
  bool same = sizes.size() == self.sizes().size();
  for (size_t i = 0; same && i < sizes.size(); ++i) same = sizes_match(sizes[i], self.sizes()[i]);
  require(same, "{}: the result has shape {}, which does not fit into self of shape {}",
          call.op->name, to_text(sizes), to_text(self.sizes()));
  require(can_cast(dtype, self.dtype()),
          "{}: a result of dtype {} cannot be stored in self of dtype {}", call.op->name, dtype,
          self.dtype());
}

void return_self(const CallArgs& call) {
  bump_version(*call.args[0].as<Tensor>());
  call.results[0] = Value::own(*call.args[0].as<Tensor>());
}

// Writing while reading is safe only where an operand is exactly self or apart from it.
bool writes_safely(const Inputs& in, const Tensor& self) {
  for (size_t i = 0; i < in.n_tensors; ++i) {
    const Tensor& t = in.tensor_list[i];
    if (t.is_same(self) || !may_overlap(t, self)) continue;
    bool same_view =
        t.dim() == self.dim() && t.storage_offset() == self.storage_offset() &&
        t.dtype() == self.dtype() &&
        std::equal(impl_of(t)->strides, impl_of(t)->strides + t.dim(), impl_of(self)->strides) &&
        std::equal(impl_of(t)->sizes, impl_of(t)->sizes + t.dim(), impl_of(self)->sizes);
    if (!same_view) return false;
  }
  return true;
}

}  // namespace

void pointwise_meta(const CallArgs& call, Metas& metas) {
  if (has_complex_input(call)) {
    metas.add(complex_meta(call));
    return;
  }
  Inputs in = read_inputs(call, false);
  Dims sizes = result_sizes(in);
  std::span<const Tensor> tensors(in.tensor_list, in.n_tensors);
  Dims strides = pointwise_strides(list_of(sizes), tensors);
  Device device = in.n_tensors ? tensors[0].device() : kCPU;
  for (size_t i = 0; i < n_results(*call.op, in); ++i)
    metas.add({result_dtype(*call.op, in, i), device, sizes, strides});
}

void run_pointwise(const CallArgs& call) {
  if (has_complex_input(call)) return run_complex(call);
  Inputs in = read_inputs(call, true);
  Tensor outs[8];
  size_t n = n_results(*call.op, in);
  Dims sizes, strides;
  if (is_plain(in)) {
    sizes = dims_of(in.tensor_list[0].sizes());
    strides = contiguous_strides(list_of(sizes));
  } else {
    sizes = result_sizes(in);
    strides = pointwise_strides(list_of(sizes), {in.tensor_list, in.n_tensors});
  }
  for (size_t i = 0; i < n; ++i)
    outs[i] = make_tensor({result_dtype(*call.op, in, i), kCPU, sizes, strides});
  run_into(call, in, {outs, n});
  for (size_t i = 0; i < n; ++i) call.results[i] = Value::own(std::move(outs[i]));
}

void check_derived_in_place(const CallArgs& call) {
  CallArgs functional = functional_call(call);
  Value results[8];
  functional.results = results;
  functional.op->by_key[static_cast<size_t>(Key::meta)](functional);
  Tensor result = take<Tensor>(results[0]);
  check_fits_self(call, result.sizes(), result.dtype());
}

void run_derived_in_place(const CallArgs& call) {
  const Tensor& self = *call.args[0].as<Tensor>();
  require(!has_internal_overlap(self), "{}: several elements of self share memory; clone it first",
          call.op->name);
  CallArgs functional = functional_call(call);
  if (functional.op->def->formula && !functional.op->def->eager && !has_complex_input(call)) {
    Inputs in = read_inputs(functional, true);
    if (writes_safely(in, self)) {
      Dims sizes = result_sizes(in);
      check_fits_self(call, list_of(sizes), result_dtype(*functional.op, in, 0));
      run_into(functional, in, {&self, 1});
      return return_self(call);
    }
  }
  Value results[1];
  dispatch(*functional.op, call.args, call.n_args, results, 1);
  Tensor result = take<Tensor>(results[0]);
  check_fits_self(call, result.sizes(), result.dtype());
  size_t rank = static_cast<size_t>(self.dim());
  copy_strided({impl_of(self)->data, self.dtype(), impl_of(self)->strides},
               {impl_of(result)->data, result.dtype(), impl_of(result)->strides},
               {impl_of(self)->sizes, rank});
  return_self(call);
}

}  // namespace tenon
