// Running formulas: which program, which compute type, which operands.
//
// Problem: every pointwise row has only a formula; a call brings tensors of mixed dtypes and
// shapes, numbers, and strings or absent arguments that choose among formulas. Method: the program
// of a formula is recorded once. A call binds it for (compute type, numbers that are 0 or 1, an
// exponent that makes a power a product or a root), which is cached in a list that only grows, then
// runs it over the broadcast operands. Cost: a call with one shape, contiguous, takes no meta
// function and about 60 ns besides the loop.
#include "ops/pointwise.h"

#include "core/kernels/pointwise_loop.h"
#include "core/scalar/simple_powers.h"
#include "ops/forms/complex_forms.h"
#include "ops/op_kernels.h"
#include "ops/pointwise/number_roles.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>

#include <mutex>

namespace tenon {

/// What is kept with a row: its recorded programs and their bound plans.
struct PointwiseState {
  struct Key {
    int entry;
    Dtype compute;
    uint32_t ones, zeros;  // bit i: number input i is 1, 0
    uint8_t power;         // 1 + place in simple_powers of a number that makes exponents, or 0
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Plan {
    Key key;
    BoundProgram program;
    Plan* next;
  };
  ScalarProgram programs[Formula::max_entries];
  uint32_t divisors[Formula::max_entries] = {};  // bit i: input i divides, with a remainder
  uint32_t exponent[Formula::max_entries] = {};  // bit i: input i, and no other, makes exponents
  uint64_t promoting = 0;  // bit i: argument i, when a number, takes part in promotion
  uint64_t scaling = 0;    // bit i: argument i is a factor that has to fit the result's dtype
  uint64_t bounding = 0;   // bit i: argument i, when a number, is a bound
  bool rounds = false;     // numbers to f16 or bf16 where results are
  std::atomic<Plan*> plans{nullptr};
  std::mutex binding;
};

namespace {

constexpr size_t max_inputs = formula::max_inputs, max_results = 8;

[[gnu::noinline]] PointwiseState& make_state(const OpEntry& op, ScalarProgram* given = nullptr) {
  auto* fresh = new PointwiseState;
  for (int i = 0; i < op.def->formula.n_entries; ++i) {
    fresh->programs[i] = given ? std::move(*given) : record(op.def->formula.entries[i].formula);
    fresh->divisors[i] = divisors_of(fresh->programs[i]);
    fresh->exponent[i] = exponent_of(fresh->programs[i]);
  }
  for (size_t i = 0; i < op.schema.args.size(); ++i) {
    fresh->promoting |= uint64_t{promotes(op.schema.args[i])} << i;
    fresh->scaling |= uint64_t{scales(op.schema.args[i])} << i;
    fresh->bounding |= uint64_t{bounds(op.schema.args[i])} << i;
  }
  fresh->rounds = op.tags & TN_TAG_ROUNDS_NUMBERS;
  PointwiseState* expected = nullptr;
  if (op.pointwise.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel))
    return *fresh;
  delete fresh;
  return *expected;
}

PointwiseState& state_of(const OpEntry& op) {
  PointwiseState* known = op.pointwise.load(std::memory_order_acquire);
  return known ? *known : make_state(op);
}

/// A call seen as inputs of a formula. The arrays are filled up to their counts only: a call of one
/// element has no time for more.
struct Inputs {
  PointwiseState* state;
  int entry;
  Dtype promoted;  // dtype of results of the compute type
  size_t n = 0, n_tensors = 0;
  const Tensor* tensors[max_inputs];  // by input; null: a number
  const Tensor* shaped[max_inputs];   // the tensors only, for shape rules
  uint64_t bits[max_inputs];          // of numbers, where values are read
  uint32_t floating = 0;              // bit i: input i is a floating number

  TensorPointers shapes() const { return {shaped, n_tensors}; }
  ScalarLiteral number(size_t i) const { return {bits[i], (floating >> i & 1) != 0}; }
  const ScalarProgram& program() const { return state->programs[entry]; }
};

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

void read_tensor(const CallArgs& call, uint32_t arg, bool is_mask, Inputs& in,
                 Promotion& promotion) {
  const Tensor& t = *call.args[arg].as<Tensor>();
  in.tensors[in.n++] = in.shaped[in.n_tensors++] = &t;
  if (!is_mask) return promotion.add(t);
  require(t.dtype() == Dtype::bool_ || t.dtype() == Dtype::u8,
          "{}: argument {} must be bool, found {}", call.op->name, call.op->schema.args[arg].name,
          t.dtype());
}

void read_number(Number number, bool with_value, Inputs& in) {
  in.tensors[in.n] = nullptr;
  in.bits[in.n] = 0;
  if (number.is_floating()) in.floating |= 1u << in.n;
  if (with_value)
    in.bits[in.n] = number.is_floating() ? std::bit_cast<uint64_t>(number.to_double())
                                         : static_cast<uint64_t>(number.to_int());
  ++in.n;
}

// A fraction in a formula of integers is cut off, but an integer it must be.
[[gnu::noinline]] void check_numbers(const CallArgs& call, Dtype promoted) {
  for (uint32_t i = 0; i < call.n_args; ++i) {
    if (!call.args[i].is_number() || !call.args[i].number().is_floating()) continue;
    SymFloat number = call.args[i].number().sym_float();
    bool fits = expect_true(number >= -0x1p63) && expect_true(number < 0x1p63);
    require(fits, "{}: the number {} does not fit into {}", call.op->name, number, promoted);
  }
}

[[gnu::noinline]] void fit_bounds(const CallArgs& call, Inputs& in) {
  size_t n = 0;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    bool is_number = call.args[i].is_number();
    if (is_number && in.state->bounding >> i & 1)
      in.bits[n] = fitted_bound(in.number(n), in.promoted);
    n += is_number || call.args[i].tag == Tag::tensor;
  }
}

[[gnu::noinline]] void round_numbers(Inputs& in) {
  for (size_t i = 0; i < in.n; ++i)
    if (!in.tensors[i]) {
      in.bits[i] = std::bit_cast<uint64_t>(rounded_number(in.number(i).as_double(), in.promoted));
      in.floating |= 1u << i;
    }
}

// `with_values` false: only what the meta function needs, so that symbolic numbers stay symbolic.
void read_inputs(const CallArgs& call, bool with_values, Inputs& in) {
  in.state = &state_of(*call.op);
  in.entry = choose_entry(call);
  const formula::PointwiseFormula& f = call.op->def->formula.entries[in.entry].formula;
  Promotion promotion;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& a = call.args[i];
    if (a.tag != Tag::tensor && !a.is_number()) continue;
    ensure(in.n < max_inputs, "a formula has at most twelve inputs");
    if (a.tag == Tag::tensor) {
      read_tensor(call, i, f.mask_inputs >> in.n & 1, in, promotion);
    } else {
      if (in.state->promoting >> i & 1) promotion.add(a.number());
      read_number(a.number(), with_values, in);
    }
  }
  ensure(in.n == f.n_inputs, "a formula's parameters do not match its schema");
  in.promoted = promoted_type(call, f, promotion);
  if (in.state->scaling && !is_floating(in.promoted)) [[unlikely]]
    check_factors(call, in.state->scaling, in.promoted);
  if (in.floating && !is_floating(in.promoted)) [[unlikely]]
    check_numbers(call, in.promoted);
  if (in.state->rounds && with_values && computing_dtype(in.promoted) != in.promoted) [[unlikely]]
    round_numbers(in);
  if (in.state->bounding && with_values && !is_floating(in.promoted)) [[unlikely]]
    fit_bounds(call, in);
}

const BoundProgram* find_plan(const PointwiseState& state, const PointwiseState::Key& key) {
  for (auto* p = state.plans.load(std::memory_order_acquire); p; p = p->next)
    if (p->key == key) return &p->program;
  return nullptr;
}

[[gnu::noinline]] const BoundProgram& bind_plan(const Inputs& in, const PointwiseState::Key& key) {
  PointwiseState& state = *in.state;
  std::lock_guard lock(state.binding);
  if (auto* known = find_plan(state, key)) return *known;
  std::vector<BindInput> inputs(in.n);
  uint32_t power = key.power ? state.exponent[in.entry] : 0;
  for (size_t i = 0; i < in.n; ++i)
    if (!in.tensors[i] && ((key.ones | key.zeros | power) >> i & 1))
      inputs[i] = BindInput::constant(in.number(i));
  auto* plan = new PointwiseState::Plan{key, tenon::bind(in.program(), key.compute, inputs),
                                        state.plans.load(std::memory_order_relaxed)};
  state.plans.store(plan, std::memory_order_release);
  return plan->program;
}

const BoundProgram& bound_program(const Inputs& in) {
  PointwiseState::Key key{in.entry, computing_dtype(in.promoted), 0, 0, 0};
  uint32_t exponent = in.state->exponent[in.entry];
  for (size_t i = 0; i < in.n; ++i) {
    if (in.tensors[i]) continue;
    key.ones |= uint32_t{in.number(i).as_double() == 1} << i;
    key.zeros |= uint32_t{in.bits[i] == 0} << i;
    if (exponent >> i & 1) key.power = simple_power(in.number(i).as_double());
  }
  const BoundProgram* known = find_plan(*in.state, key);
  return known ? *known : bind_plan(in, key);
}

size_t n_results(const Inputs& in) { return in.program().outputs.size(); }

Dtype result_dtype(const Inputs& in, size_t i) {
  const ScalarProgram& program = in.program();
  return program.dtype_of(program.outputs[i]) == compute_type
             ? in.promoted
             : program.result_dtype(i, computing_dtype(in.promoted));
}

// Of a few dimensions: a call of memcmp would take longer.
bool same_shape(const TensorImpl* a, const TensorImpl* b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t d = 0; d < a->ndim; ++d)
    if (a->sizes[d] != b->sizes[d]) return false;
  return true;
}

bool holds_zero(const Tensor& t) {
  Tensor found = any(eq(t, Number(0)));
  return *static_cast<const bool*>(impl_of(found)->data);
}

// Whether an input is 0 as the integer of the promoted type that the formula sees: 256 is, as i8.
bool divides_as_zero(const Inputs& in, size_t i) {
  if (const Tensor* t = in.tensors[i])
    return holds_zero(itemsize(t->dtype()) > itemsize(in.promoted) ? to(*t, in.promoted) : *t);
  bool fraction = in.floating >> i & 1;
  uint64_t bits =
      fraction ? static_cast<uint64_t>(static_cast<int64_t>(in.number(i).as_double())) : in.bits[i];
  return bits << (64 - 8 * itemsize(in.promoted)) == 0;
}

// Formulas give 0 for an integer divided by 0; as an op that is refused, as in PyTorch.
[[gnu::noinline]] void check_divisors(const CallArgs& call, const Inputs& in, uint32_t divisors) {
  for (size_t i = 0; i < in.n; ++i) {
    if (!(divisors >> i & 1)) continue;
    require(!divides_as_zero(in, i),
            "{}: an integer is divided by zero; expected no 0 in the divisor, mask it out "
            "or divide floating numbers",
            call.op->name);
  }
}

// Runs the plan into tensors that exist already.
void run_into(const CallArgs& call, const Inputs& in, std::span<const Tensor> outs) {
  uint32_t divisors = in.state->divisors[in.entry];
  bool divides_integers = divisors && !is_floating(in.promoted) && impl_of(outs[0])->numel > 0;
  if (divides_integers) [[unlikely]]
    check_divisors(call, in, divisors);
  const BoundProgram& plan = bound_program(in);
  const TensorImpl* shape = impl_of(outs[0]);
  size_t rank = static_cast<size_t>(shape->ndim);
  Operand out_operands[max_results], in_operands[max_inputs];
  InlineVector<int64_t, 24> strides;  // of broadcast inputs; made at once, so that it does not move
  for (size_t i = 0; i < outs.size(); ++i)
    out_operands[i] = {impl_of(outs[i])->data, outs[i].dtype(), impl_of(outs[i])->strides};
  for (size_t i = 0; i < in.n; ++i) {
    if (!in.tensors[i]) {
      in_operands[i] = {const_cast<uint64_t*>(&in.bits[i]),
                        in.floating >> i & 1 ? Dtype::f64 : Dtype::i64, nullptr};
      continue;
    }
    const TensorImpl* t = impl_of(*in.tensors[i]);
    in_operands[i] = {t->data, in.tensors[i]->dtype(), t->strides};
    if (same_shape(t, shape)) continue;
    if (strides.empty()) strides.resize(in.n * rank);
    int64_t* own = strides.data() + i * rank;
    size_t missing = rank - static_cast<size_t>(t->ndim);
    for (size_t d = 0; d < rank; ++d)
      own[d] =
          d < missing || t->sizes[d - missing] != shape->sizes[d] ? 0 : t->strides[d - missing];
    in_operands[i].strides = own;
  }
  run_pointwise(plan, {out_operands, outs.size()}, {in_operands, in.n}, {shape->sizes, rank});
}

// One shape, all contiguous: the result is contiguous too, and no rule needs to be asked.
bool is_plain(const Inputs& in) {
  if (in.n_tensors == 0) return false;
  const TensorImpl* first = impl_of(*in.shaped[0]);
  for (size_t i = 0; i < in.n_tensors; ++i) {
    const TensorImpl* t = impl_of(*in.shaped[i]);
    if (!(t->flags & TN_T_CONTIGUOUS) || !same_shape(t, first)) return false;
  }
  return true;
}

const CallArgs functional_call(const CallArgs& call) {
  CallArgs functional = call;
  functional.op = call.op->functional;
  return functional;
}

void check_fits_self(const CallArgs& call, SymIntList sizes, Dtype dtype) {
  const Tensor& self = *call.args[0].as<Tensor>();
  bool same = sizes.size() == self.sizes().size();
  for (size_t i = 0; same && i < sizes.size(); ++i) same = sizes_match(sizes[i], self.sizes()[i]);
  require(same, "{}: the result has shape {}, which does not fit into self of shape {}",
          call.op->name, sizes, self.sizes());
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
  for (const Tensor* input : in.shapes()) {
    const Tensor& t = *input;
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

const ScalarProgram& pointwise_program(const OpEntry& op, int entry) {
  return state_of(op).programs[entry];
}

int pointwise_entry(const OpEntry& op, const CallArgs& call) {
  CallArgs of_row = call;
  of_row.op = &op;
  return choose_entry(of_row);
}

FormulaCall formula_call(const CallArgs& call) {
  require(!has_complex_input(call), ErrorCode::unsupported,
          "{}: the parts of a formula compute on real numbers; found a complex argument",
          call.op->name);
  Inputs in;
  read_inputs(call, false, in);
  FormulaCall out{
      &in.program(), computing_dtype(in.promoted), {in.tensors, in.tensors + in.n}, {}, {}};
  bool rounds = in.state->rounds && out.compute != in.promoted && in.shaped[0]->device() == kCPU;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& a = call.args[i];
    if (a.tag == Tag::tensor) out.numbers.emplace_back(0);
    if (!a.is_number()) continue;
    Number number = a.number();
    if (rounds && !number.is_symbolic()) number = rounded_number(number.to_double(), in.promoted);
    out.numbers.push_back(number);
  }
  pointwise_meta(call, out.results);
  return out;
}

void set_pointwise_program(const OpEntry& op, ScalarProgram program) { make_state(op, &program); }

namespace {

void add_complex_meta(const CallArgs& call, Metas& metas) {
  FakeScope fakes;
  Value result;
  CallArgs on_fakes = call;
  on_fakes.results = &result;
  run_complex(on_fakes);
  metas.add(meta_of(take<Tensor>(result)));
}

}  // namespace

// CPU tensors without dimensions are numbers: they do not say where the result is.
static Device device_of(const Inputs& in) {
  for (size_t i = 0; i < in.n_tensors; ++i)
    if (in.shaped[i]->device() != kCPU) return in.shaped[i]->device();
  return kCPU;
}

void pointwise_meta(const CallArgs& call, Metas& metas) {
  if (has_complex_input(call)) return add_complex_meta(call, metas);
  Inputs in;
  read_inputs(call, false, in);
  Dims sizes = broadcast_sizes(in.shapes());
  Dims strides = pointwise_strides(list_of(sizes), in.shapes());
  Device device = device_of(in);
  for (size_t i = 0; i < n_results(in); ++i)
    metas.add({result_dtype(in, i), device, sizes, strides});
}

void run_pointwise(const CallArgs& call) {
  if (has_complex_input(call)) return run_complex(call);
  Inputs in;
  read_inputs(call, true, in);
  Tensor outs[max_results];
  size_t n = n_results(in);
  if (is_plain(in)) {
    for (size_t i = 0; i < n; ++i)
      outs[i] = make_contiguous_like(*in.shaped[0], result_dtype(in, i));
  } else {
    Dims sizes = broadcast_sizes(in.shapes());
    Dims strides = pointwise_strides(list_of(sizes), in.shapes());
    for (size_t i = 0; i < n; ++i)
      outs[i] = make_tensor(list_of(sizes), list_of(strides), result_dtype(in, i));
  }
  run_into(call, in, {outs, n});
  for (size_t i = 0; i < n; ++i) call.results[i] = Value::own(std::move(outs[i]));
}

void check_derived_in_place(const CallArgs& call) {
  require_elements_apart(call.op->name, *call.args[0].as<Tensor>());
  CallArgs functional = functional_call(call);
  Value results[max_results];
  functional.results = results;
  functional.op->by_key[static_cast<size_t>(Key::meta)](functional);
  Tensor result = take<Tensor>(results[0]);
  check_fits_self(call, result.sizes(), result.dtype());
}

void run_derived_in_place(const CallArgs& call) {
  const Tensor& self = *call.args[0].as<Tensor>();
  require_elements_apart(call.op->name, self);
  CallArgs functional = functional_call(call);
  if (functional.op->def->formula && !functional.op->def->eager && !has_complex_input(call)) {
    Inputs in;
    read_inputs(functional, true, in);
    if (writes_safely(in, self)) {
      Dims sizes = broadcast_sizes(in.shapes());
      check_fits_self(call, list_of(sizes), result_dtype(in, 0));
      run_into(call, in, {&self, 1});
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
