// Plans: names of rules resolved against the schema, formulas differentiated.
#include "autograd/vjp_plan.h"

#include "core/scalar/scalar_derive.h"
#include "ops/custom_op.h"
#include "ops/forms/history.h"
#include "ops/pointwise.h"

#include <map>
#include <mutex>

namespace tenon {

namespace {

constexpr size_t max_plans = Formula::max_entries;

// ---- rules of the row

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    names.push_back(name);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

// "grad" and "grad2" of prefix "grad": 0 and 2; -1 for other names.
int number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  name.remove_prefix(prefix.size());
  if (name.empty()) return 0;
  return name.size() == 1 && name[0] >= '0' && name[0] <= '9' ? name[0] - '0' : -1;
}

VjpUse parse_use(const OpEntry& op, std::string_view text) {
  using Kind = VjpUse::Kind;
  constexpr std::string_view unless = " unless ";
  if (size_t at = text.find(unless); at != text.npos) {
    VjpUse use = parse_use(op, text.substr(0, at));
    use.unless = static_cast<int8_t>(op.schema.find_arg(text.substr(at + unless.size())));
    return use;
  }
  bool optional = text.ends_with('?');
  std::string_view name = text.substr(0, text.size() - optional), suffix;
  if (size_t dot = name.find('.'); dot != name.npos) {
    suffix = name.substr(dot + 1);
    name = name.substr(0, dot);
  }
  auto use = [&](Kind kind, int index) {
    return VjpUse{kind, static_cast<uint8_t>(index), optional};
  };
  int arg = op.schema.find_arg(name);
  if (arg >= 0)
    return use(suffix == "sizes"  ? Kind::sizes
               : suffix == "meta" ? Kind::meta
                                  : Kind::argument,
               arg);
  if (name == "grads") return use(Kind::grads, 0);
  if (name == "needs") return use(Kind::needs, 0);
  if (int i = number_after(name, "grad"); i >= 0) return use(Kind::grad, i);
  int result = number_after(name, "result");
  ensure(result >= 0 && result < static_cast<int>(op.n_returns),
         message("{}: its vjp uses {}, which is neither an argument nor a result", op.name, text)
             .c_str());
  return use(suffix == "meta" ? Kind::result_meta : Kind::result, result);
}

void read_rules(const OpEntry& op, VjpPlan& plan) {
  plan.kind = VjpPlan::Kind::rules;
  for (size_t r = 0; r < op.def->vjp.n_rules; ++r) {
    const VjpRule& rule = op.def->vjp.rules[r];
    VjpPlanRule& out = plan.rules.emplace_back();
    out.fn = rule.fn.call;
    for (std::string_view name : split(rule.wrt)) {
      int arg = op.schema.find_arg(name);
      ensure(arg >= 0,
             message("{}: its vjp is for {}, which is not an argument", op.name, name).c_str());
      out.wrt.push_back(static_cast<uint8_t>(arg));
      plan.differentiable |= uint64_t{1} << arg;
    }
    for (std::string_view name : split(rule.uses)) out.uses.push_back(parse_use(op, name));
  }
}

// ---- derivatives of formulas

std::string schema_of_derivative(const OpEntry& op, int entry, const SchemaArg& wrt,
                                 const ScalarDerivative& d, const std::vector<uint8_t>& args) {
  std::string name = op.schema.ns + "_" + op.schema.name;
  if (!op.schema.overload.empty()) name += "_" + op.schema.overload;
  if (entry > 0) name += message("_{}", entry);
  std::string text = message("tenon::vjp_{}.{}(", name, wrt.name);
  size_t n_grads = op.n_returns;
  for (size_t i = 0; i < d.reads.size(); ++i) {
    uint32_t read = d.reads[i];
    bool is_argument = read >= n_grads && read < n_grads + args.size();
    bool is_number =
        is_argument && op.schema.args[args[read - n_grads]].type.base != BaseType::tensor;
    text += message("{}{} x{}", i ? ", " : "", is_number ? "Scalar" : "Tensor", i);
  }
  return text + ") -> Tensor";
}

/// The row of a derivative; leaked, as rows are.
struct DerivedRow : OpDef {
  std::string text;
};

/// The origins of all derived ops. Leaked.
struct Origins {
  std::mutex changing;
  std::map<OpId, DerivedOrigin> by_op;
};

Origins& origins() {
  static auto* all = new Origins;
  return *all;
}

const OpEntry& add_derivative(std::string text, ScalarDerivative derivative) {
  if (const OpEntry* known = find_added_op(parse_schema(text).canonical_name())) return *known;
  auto* row = new DerivedRow;
  row->text = std::move(text);
  row->schema = row->text.c_str();
  formula::PointwiseFormula f;
  f.types = formula::floats;
  f.n_inputs = static_cast<uint8_t>(derivative.program.n_inputs);
  for (uint32_t i = 0; i < derivative.program.n_inputs; ++i)
    if (derivative.program.input_dtypes[i] != compute_type) f.mask_inputs |= 1u << i;
  row->formula = Formula(f);
  return add_op(row, [&](const OpEntry& entry) {
    set_pointwise_program(entry, std::move(derivative.program));
  });
}

VjpUse use_of_read(uint32_t read, size_t n_grads, const std::vector<uint8_t>& args) {
  using Kind = VjpUse::Kind;
  if (read < n_grads) return {Kind::grad, static_cast<uint8_t>(read)};
  read -= static_cast<uint32_t>(n_grads);
  if (read < args.size()) return {Kind::argument, args[read]};
  return {Kind::result, static_cast<uint8_t>(read - args.size())};
}

// `args`: the arguments that are inputs of the formula, in order.
bool derive_rules(const OpEntry& op, int entry, const std::vector<uint8_t>& args, VjpPlan& plan) {
  const ScalarProgram& program = pointwise_program(op, entry);
  uint32_t tensors = 0;
  for (size_t i = 0; i < args.size(); ++i)
    tensors |= uint32_t{op.schema.args[args[i]].type.base == BaseType::tensor} << i;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!(tensors >> i & 1) || program.input_dtypes[i] != compute_type) continue;
    std::optional<ScalarDerivative> d = derive(program, static_cast<uint32_t>(i), tensors);
    if (!d) return false;
    VjpPlanRule rule;
    rule.wrt = {args[i]};
    for (uint32_t read : d->reads) rule.uses.push_back(use_of_read(read, op.n_returns, args));
    std::string text = schema_of_derivative(op, entry, op.schema.args[args[i]], *d, args);
    rule.derived = &add_derivative(std::move(text), std::move(*d));
    {
      std::lock_guard lock(origins().changing);
      origins().by_op.try_emplace(rule.derived->id, DerivedOrigin{op.name, entry, args});
    }
    plan.rules.push_back(std::move(rule));
    plan.differentiable |= uint64_t{1} << args[i];
  }
  return true;
}

std::vector<uint8_t> formula_arguments(const OpEntry& op, const CallArgs& call) {
  std::vector<uint8_t> args;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (op.schema.args[i].type.base <= BaseType::boolean && !call.args[i].is_none())
      args.push_back(static_cast<uint8_t>(i));
  return args;
}

// ---- choice

VjpPlan make_plan(const OpEntry& op, const CallArgs& call, int entry) {
  using Kind = VjpPlan::Kind;
  const OpDef& def = *op.def;
  VjpPlan plan;
  if (def.vjp.kind == Vjp::Kind::none) {
    plan.kind = Kind::none;
  } else if (def.vjp.kind == Vjp::Kind::rules) {
    read_rules(op, plan);
  } else if (const CustomOp* custom = custom_op_of(op); custom && custom->vjp) {
    plan.kind = Kind::custom;
    for (uint32_t i = 0; i < op.n_args; ++i)
      if (op.schema.args[i].type.base == BaseType::tensor) plan.differentiable |= uint64_t{1} << i;
  } else if (def.formula && gives_masks_only(op, entry)) {
    plan.kind = Kind::none;
  } else if (def.formula && derive_rules(op, entry, formula_arguments(op, call), plan)) {
    plan.kind = Kind::rules;
  } else if (def.decomp) {
    plan.kind = Kind::parts;
  }
  for (const VjpPlanRule& rule : plan.rules)
    for (const VjpUse& use : rule.uses) {
      if (use.kind == VjpUse::Kind::grad) plan.results |= uint64_t{1} << use.index;
      if (use.kind == VjpUse::Kind::grads) plan.results = ~uint64_t{0};
    }
  return plan;
}

const OpEntry& row_of(const OpEntry& op) { return op.functional ? *op.functional : op; }

}  // namespace

// Each formula has its own plan, made under one lock and read without.
struct VjpPlans {
  std::atomic<const VjpPlan*> of_entry[max_plans] = {};
};

const VjpPlan& vjp_plan(const CallArgs& call) {
  const OpEntry& op = row_of(*call.op);
  int entry = op.def->formula ? pointwise_entry(op, call) : 0;
  VjpPlans* plans = op.vjp.load(std::memory_order_acquire);
  if (!plans) {
    auto* fresh = new VjpPlans;
    if (op.vjp.compare_exchange_strong(plans, fresh, std::memory_order_acq_rel))
      plans = fresh;
    else
      delete fresh;
  }
  std::atomic<const VjpPlan*>& slot = plans->of_entry[entry];
  if (const VjpPlan* known = slot.load(std::memory_order_acquire)) return *known;
  static std::recursive_mutex making;
  std::lock_guard lock(making);
  if (const VjpPlan* known = slot.load(std::memory_order_acquire)) return *known;
  CallArgs functional = call;
  functional.op = &op;
  const VjpPlan* made = new VjpPlan(make_plan(op, functional, entry));
  slot.store(made, std::memory_order_release);
  return *made;
}

std::optional<DerivedOrigin> origin_of_derived(const OpEntry& op) {
  std::lock_guard lock(origins().changing);
  auto known = origins().by_op.find(op.id);
  if (known == origins().by_op.end()) return std::nullopt;
  return known->second;
}

void derive_ops(const DerivedOrigin& origin) {
  const OpEntry* op = find_op(origin.op);
  bool has_it = op && op->def->formula && origin.formula >= 0 &&
                static_cast<size_t>(origin.formula) < op->def->formula.n_entries;
  bool fits = has_it && origin.args.size() == pointwise_program(*op, origin.formula).n_inputs;
  for (uint8_t arg : origin.args)
    fits = fits && arg < op->n_args && op->schema.args[arg].type.base <= BaseType::boolean;
  require(fits, ErrorCode::unsupported, "{} has no formula {} of {} inputs to be differentiated",
          origin.op, origin.formula, origin.args.size());
  VjpPlan plan;
  derive_rules(*op, origin.formula, origin.args, plan);
}

}  // namespace tenon
