// Ops of the program: public descriptions become rows, and calls by name become dispatches.
#include <tenon/allow_in_graph.h>

#include "core/dispatch.h"
#include "ops/argument_types.h"
#include "ops/custom_op.h"

#include <map>
#include <mutex>

namespace tenon {

namespace detail {

void require_arguments(size_t function, size_t call) {
  require(function == call, "a function of an added op takes {} arguments, its schema has {}",
          function, call);
}

void require_results(const char* op, size_t signature, size_t given) {
  require(signature <= given, "{}: the tuple of its signature has {} tensors, the op gives {}", op,
          signature, given);
}

}  // namespace detail

namespace {

using detail::OpValue;

OpValue op_value(const Value& v) {
  switch (v.tag) {
    case Tag::tensor:
      return *v.as<Tensor>();
    case Tag::tensors:
      return std::vector<Tensor>(v.as<Tensor>(), v.as<Tensor>() + v.count);
    case Tag::integer:
    case Tag::floating:
    case Tag::boolean:
      return v.number();
    case Tag::string:
      return std::string(v.as<char>(), v.count);
    case Tag::ints:
      return std::vector<SymInt>(v.as<SymInt>(), v.as<SymInt>() + v.count);
    case Tag::floats:
      return std::vector<double>(v.as<double>(), v.as<double>() + v.count);
    case Tag::bools:
      return std::vector<bool>(v.as<bool>(), v.as<bool>() + v.count);
    case Tag::dtype:
      return static_cast<Dtype>(v.payload);
    case Tag::device:
      return v.device();
    case Tag::memory_format:
      return static_cast<MemoryFormat>(v.payload);
    default:
      return {};
  }
}

std::vector<OpValue> op_values(const CallArgs& call) {
  std::vector<OpValue> out;
  for (uint32_t i = 0; i < call.n_args; ++i) out.push_back(op_value(call.args[i]));
  return out;
}

// Borrows from `v`; bools are copied, since a vector of them has no elements to point at.
Value value_of(const OpValue& v, std::deque<std::unique_ptr<bool[]>>& bools) {
  return std::visit(
      [&]<class T>(const T& x) -> Value {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
          auto& copy = bools.emplace_back(new bool[x.size()]);
          std::copy(x.begin(), x.end(), copy.get());
          return Value::pointer(Tag::bools, copy.get(), x.size());
        } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
          return Value::of(TensorList(x));
        } else if constexpr (std::is_same_v<T, std::vector<SymInt>>) {
          return Value::of(SymIntList(x));
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return Value::of(DoubleList(x));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return Value::of(std::string_view(x));
        } else {
          return Value::of(x);
        }
      },
      v);
}

// As C++ converts them, where nothing is lost: a number for a wider one, and, as in ATen, one number
// for a list whose length the schema says.
void convert_number(const SchemaType& type, OpValue& v) {
  const Number* given = std::get_if<Number>(&v);
  if (!given) return;
  const Number n = *given;
  const bool is_int = type.base == BaseType::integer || type.base == BaseType::sym_int;
  const bool is_float = type.base == BaseType::floating || type.base == BaseType::sym_float;
  if (type.is_list) {
    if (is_int && type.list_size > 0 && n.is_integer())
      v = std::vector<SymInt>(static_cast<size_t>(type.list_size), n.sym_int());
  } else if (is_int && n.is_boolean() && !n.is_symbolic()) {
    v = Number(int64_t{n.to_bool()});
  } else if (is_float && !n.is_floating() && !n.is_symbolic()) {
    v = Number(n.to_double());
  }
}

void put(const CallArgs& call, std::vector<Tensor> results) {
  require(results.size() >= call.n_results || call.op->returned_arg >= 0,
          "{}: its function gave {} results, the schema has {}", call.op->name, results.size(),
          call.n_results);
  for (uint32_t i = 0; i < std::min<size_t>(call.n_results, results.size()); ++i)
    call.results[i] = Value::own(std::move(results[i]));
}

// ---- parts of an op

auto meta_from(const detail::ReturningFn& f) {
  return [f](const CallArgs& call, Metas& metas) {
    std::vector<Tensor> looks = f(op_values(call));
    require(looks.size() == call.op->n_returns,
            "{}: its meta function gave {} results, expected {}", call.op->name, looks.size(),
            call.op->n_returns);
    for (const Tensor& t : looks) metas.add(meta_of(t));
  };
}

auto kernel_from(const detail::ReturningFn& f) {
  return [f](const CallArgs& call) { put(call, f(op_values(call))); };
}

// The results are made first, as the meta function says.
auto filling_kernel(const detail::FillingFn& f) {
  return [f](const CallArgs& call) {
    Metas metas;
    {
      FakeScope fakes;
      call.op->def->meta.metas(call, metas);
    }
    std::vector<Tensor> outs;
    for (size_t i = 0; i < metas.size(); ++i) outs.push_back(make_tensor(metas[i]));
    f(outs, op_values(call));
    put(call, std::move(outs));
  };
}

std::vector<std::string> argument_names(const CallArgs& call) {
  std::vector<std::string> names;
  for (const SchemaArg& arg : call.op->schema.args) names.push_back(arg.name);
  return names;
}

ScalarProgram program_from(const plugin::formula_program& f) {
  ScalarProgram program;
  program.n_inputs = f.n_inputs;
  program.input_dtypes.assign(f.n_inputs, compute_type);
  for (const tn_instr& i : f.instructions)
    program.instr.push_back({i.code, i.dtype, i.a, i.b, i.c});
  program.outputs = f.outputs;
  return program;
}

// ---- libraries that could not be added

std::mutex faults_mutex;
std::map<std::string, std::string, std::less<>>& faults() {
  static auto* by_namespace = new std::map<std::string, std::string, std::less<>>;
  return *by_namespace;
}

std::string fault_of(const std::string& ns) {
  std::lock_guard lock(faults_mutex);
  auto found = faults().find(ns);
  return found == faults().end() ? "" : "; its library could not be added: " + found->second;
}

}  // namespace

size_t VjpCtx::index_of(std::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i)
    if (names_[i] == name) return i;
  fail("the op has no argument {}", name);
}

void OpBuilder::add() const {
  const Schema schema = parse_schema(schema_);
  for (const Function& f : functions_) require_parameters(schema, f.what, f.parameters);
  CustomOp op;
  op.schema = schema_;
  op.tags = static_cast<OpTags>(tags_);
  op.pt2_compliant = pt2_compliant_;
  if (formula_) op.formula = program_from(*formula_);
  op.formula_types = static_cast<formula::Types>(formula_types_ & 7);
  op.like = like_;
  if (meta_) op.meta = meta_from(meta_);
  if (kernel_) op.kernel = kernel_from(kernel_);
  if (fill_) {
    require(meta_ || like_,
            "op {}: a kernel that fills its results needs a meta function or like()", schema_);
    op.kernel = filling_kernel(fill_);
  }
  if (decomposition_) op.decomp = kernel_from(decomposition_);
  if (vjp_)
    op.vjp = [f = vjp_](const CallArgs& call, std::span<const Tensor> results,
                        std::span<const Tensor> grads) {
      std::vector<OpValue> values = op_values(call);
      std::vector<std::string> names = argument_names(call);
      return f(VjpCtx(values, names, results), grads);
    };
  add_custom_op(std::move(op));
}

OpBuilder& Library::op(std::string_view schema) {
  size_t before_args = std::min(schema.find('('), schema.size());
  bool is_full = schema.substr(0, before_args).find("::") != std::string_view::npos;
  std::string text = is_full ? std::string(schema) : ns_ + "::" + std::string(schema);
  require(text.starts_with(ns_ + "::"), "op {} does not belong to library {}", schema, ns_);
  return ops_.emplace_back(std::move(text));
}

void Library::add(std::string_view ns, const std::function<void(Library&)>& describe) {
  Library library(ns);
  describe(library);
  for (const OpBuilder& op : library.ops_) op.add();
}

namespace detail {

LibraryInit::LibraryInit(const char* ns, void (*describe)(Library&)) {
  try {
    Library::add(ns, describe);
  } catch (const Error& e) {
    std::lock_guard lock(faults_mutex);
    faults().emplace(ns, e.what());
  }
}

void add_allowed_op(const std::string& name, const std::string& arguments,
                    const std::string& results, ReturningFn fn) {
  size_t colons = name.find("::");
  require(colons != std::string::npos && colons > 0 && colons + 2 < name.size(),
          "allow_in_graph: '{}' is no name of an operation; expected \"ns::name\"", name);
  CustomOp op;
  op.schema = message("{}({}) -> {}", name, arguments, results);
  op.owner = "allow_in_graph";
  op.seen_through = true;
  op.decomp = kernel_from(std::move(fn));
  add_custom_op(std::move(op));
}

std::vector<Tensor> call_added_op(const char* name, std::atomic<const void*>& found,
                                  std::span<OpValue> given) {
  auto* op = static_cast<const OpEntry*>(found.load(std::memory_order_acquire));
  if (!op) {
    OpName parts = parse_op_name(name);
    op = find_op(canonical_op_name(parts.ns, parts.name, parts.overload));
    if (!op) fail(ErrorCode::unsupported, "there is no op {}{}", name, fault_of(parts.ns));
    found.store(op, std::memory_order_release);
  }
  require(given.size() <= op->n_args, "{} takes {} arguments, found {}", op->name, op->n_args,
          given.size());
  std::deque<std::unique_ptr<bool[]>> bools;
  std::vector<Value> args;
  for (size_t i = 0; i < given.size(); ++i) {
    const SchemaArg& arg = op->schema.args[i];
    convert_number(arg.type, given[i]);
    args.push_back(value_of(given[i], bools));
    require_fit(op->name, arg, args.back());
  }
  for (size_t i = args.size(); i < op->n_args; ++i) {
    require(op->schema.args[i].has_default(), "{}: argument {} has no default and was not given",
            op->name, op->schema.args[i].name);
    args.push_back(default_of(*op, i));
  }
  for (const SchemaReturn& r : op->schema.returns)
    require(r.type.base == BaseType::tensor && (!r.type.is_list || op->n_returns == 1),
            ErrorCode::unsupported, "{} gives {}; tenon::Op is for ops that give tensors", op->name,
            to_text(r.type));
  Value results[8];
  dispatch(*op, args.data(), op->n_args, results, op->n_returns);
  if (op->schema.returns_list()) return take<std::vector<Tensor>>(results[0]);
  std::vector<Tensor> out;
  for (uint32_t r = 0; r < op->n_returns; ++r) out.push_back(take<Tensor>(results[r]));
  return out;
}

}  // namespace detail

}  // namespace tenon
