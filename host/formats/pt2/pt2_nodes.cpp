// Nodes of .pt2 programs become nodes of a Graph.
#include "formats/pt2/pt2_import_parts.h"

#include "core/device/provider.h"
#include "core/sym/sym_simplify.h"
#include "core/tensor/tensor_impl.h"
#include "ops/modes/autocast.h"
#include "ops/op_ids.h"

#include <algorithm>
#include <charconv>

namespace tenon::formats {

namespace {

// Scalar functions of Python as ops of the `sym` namespace; the others keep their name.
std::string scalar_op(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> renamed[] = {
      {"trunc", "to_int"}, {"sym_int", "to_int"}, {"sym_float", "to_float"}, {"sym_not", "not_"},
      {"sym_ite", "ite"},  {"sym_max", "max"},    {"sym_min", "min"},        {"sym_sqrt", "sqrt"},
  };
  for (const auto& [from, to] : renamed)
    if (name == from) return message("sym.{}.default", to);
  return message("sym.{}.default", name);
}

bool is_number(Pt2Kind kind) {
  return kind == Pt2Kind::integer || kind == Pt2Kind::real || kind == Pt2Kind::boolean ||
         kind == Pt2Kind::symbol;
}

// The innermost frame of a traceback: the last `File "x", line N, in f`.
SourceLocation location_of(const std::string& trace) {
  SourceLocation where;
  size_t at = trace.rfind("File \"");
  if (at == std::string::npos) return where;
  size_t name = at + 6, end = trace.find("\", line ", name);
  if (end == std::string::npos) return where;
  where.file = trace.substr(name, end - name);
  const char* digits = trace.data() + end + 8;
  auto [rest, error] = std::from_chars(digits, trace.data() + trace.size(), where.line);
  if (error != std::errc()) return where;
  size_t in = static_cast<size_t>(rest - trace.data());
  if (trace.compare(in, 5, ", in ") == 0)
    where.function = trace.substr(in + 5, trace.find('\n', in) - in - 5);
  return where;
}

// The path of the innermost entry of "key,path,type;key,path,type".
std::string module_path_of(const std::string& stack) {
  size_t begin = stack.rfind(';') + 1;  // 0 where there is none
  size_t comma = stack.find(',', begin);
  if (comma == std::string::npos) return "";
  return stack.substr(comma + 1, stack.find(',', comma + 1) - comma - 1);
}

const Expr* expr_of(Number n) {
  if (!n.is_symbolic()) return nullptr;
  return n.is_integer() ? n.sym_int().expr() : std::bit_cast<const Expr*>(n.word());
}

}  // namespace

const OpEntry* choose_op(const Pt2Node& node) {
  if (node.kind == Pt2TargetKind::scalar_function) return find_op(scalar_op(node.op));
  if (node.kind == Pt2TargetKind::higher_order) return control_flow_op(node);
  if (node.kind != Pt2TargetKind::op) return nullptr;
  if (const OpEntry* form = form_for_complex(node)) return form;
  const OpEntry* op = find_op(node.op);
  if (!op || !node.op.ends_with(".Tensor")) return op;
  for (const Pt2NamedArgument& given : node.inputs) {
    int index = op->schema.find_arg(given.name);
    if (index <= 0 || op->schema.args[index].type.base != BaseType::tensor) continue;
    if (op->schema.args[index].type.is_list || !is_number(given.value.kind)) continue;
    const OpEntry* scalar = find_op(node.op.substr(0, node.op.size() - 6) + "Scalar");
    if (scalar && scalar->schema.find_arg(given.name) >= 0) return scalar;
  }
  return op;
}

const Pt2Graph* inlined_graph(const Pt2Node& node, size_t& first_operand) {
  if (node.kind != Pt2TargetKind::higher_order) return nullptr;
  bool grad = node.op == "wrap_with_set_grad_enabled", autocast = node.op == "wrap_with_autocast";
  size_t at = grad ? 1 : 4;
  if ((!grad && !autocast) || node.inputs.size() <= at) return nullptr;
  first_operand = at + 1;
  return node.inputs[at].value.kind == Pt2Kind::graph ? node.inputs[at].value.graph.get() : nullptr;
}

// ---- values

SymInt Pt2Nodes::size(const Pt2Sym& sym) {
  const Expr* expr = symbols_.convert(sym, ExprKind::integer);
  require(expr->kind == ExprKind::integer, ErrorCode::bad_file, "a size is not an integer");
  return as_sym_int(expr);
}

Number Pt2Nodes::number(const Pt2Sym& sym, Pt2SymbolType type) {
  ExprKind kind = type == Pt2SymbolType::integer ? ExprKind::integer
                  : type == Pt2SymbolType::real  ? ExprKind::real
                                                 : ExprKind::boolean;
  const Expr* expr = symbols_.convert(sym, kind);
  if (kind == ExprKind::real && expr->kind == ExprKind::integer)
    expr = make_expr(SymOp::to_float, {expr});
  require(expr->kind == kind, ErrorCode::bad_file, "a symbolic number is not of its type");
  if (kind == ExprKind::integer) return as_sym_int(expr);
  if (kind == ExprKind::real) return as_sym_float(expr);
  return as_sym_bool(expr);
}

TensorMeta Pt2Nodes::meta(const Pt2TensorMeta& source, SymInt& offset) {
  TensorMeta meta;
  meta.dtype = source.dtype;
  meta.device = device_;
  if (exported_on_.empty()) exported_on_ = source.device.type;
  for (const Pt2Sym& s : source.sizes) meta.sizes.push_back(size(s));
  for (const Pt2Sym& s : source.strides) meta.strides.push_back(size(s));
  offset = size(source.storage_offset);
  return meta;
}

GraphValue Pt2Nodes::tensor_value(const Pt2Graph& source, const std::string& name) {
  GraphValue value;
  value.name = name;
  value.meta = meta(source.tensors.at(name), value.offset);
  return value;
}

bool Pt2Nodes::is_bound(const Expr* symbol) const {
  return std::find(bound_.begin(), bound_.end(), symbol) != bound_.end();
}

void Pt2Nodes::bind(const Expr* expr, ValueId id, int32_t dim, bool stride) {
  if (!expr) return;
  // A truth value read from a tensor is written `u0 == 1`, and the symbol is that 0 or 1.
  if (expr->op == SymOp::eq && expr->operand(0)->is_symbol() && expr->operand(1)->is_integer(1))
    expr = expr->operand(0);
  if (!expr->is_symbol() || is_bound(expr)) return;
  graph_.symbols.push_back({expr, id, dim, stride});
  mark_bound(expr);
}

void Pt2Nodes::bind_symbols(ValueId id) {
  const GraphValue value = graph_.value(id);
  if (value.kind != ValueKind::tensor) return bind(expr_of(value.scalar), id, -1);
  auto each = [&](const Dims& dims, bool stride) {
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d].is_symbolic()) bind(dims[d].expr(), id, static_cast<int32_t>(d), stride);
  };
  each(value.meta.sizes, false);
  each(value.meta.strides, true);
}

// Where data decides where a view lies, the symbol of its offset is bound by a node behind it, which
// asks for the offset, or by none. Nothing before that depends on it.
void Pt2Nodes::forget_open_offset(GraphValue& value) const {
  if (value.kind != ValueKind::tensor || !value.offset.is_symbolic()) return;
  for (const Expr* symbol : free_symbols(value.offset.expr()))
    if (!is_bound(symbol)) value.offset = 0;
}

// ---- nodes

void Pt2Nodes::result(const Pt2Graph& source, const Pt2Argument& output,
                      std::vector<GraphValue>& values, std::vector<std::string>& names) {
  if (output.kind == Pt2Kind::list) {
    for (const Pt2Argument& part : output.items) result(source, part, values, names);
    return;
  }
  GraphValue value;
  if (output.kind == Pt2Kind::tensor) {
    value = tensor_value(source, output.text);
  } else if (output.kind == Pt2Kind::symbol) {
    auto found = source.symbols.find(output.text);
    require(found != source.symbols.end(), ErrorCode::bad_file, "symbol {} is not described",
            output.text);
    value.kind = output.symbol_type == Pt2SymbolType::integer ? ValueKind::sym_int
                 : output.symbol_type == Pt2SymbolType::real  ? ValueKind::sym_float
                                                              : ValueKind::sym_bool;
    value.scalar = number(found->second, output.symbol_type);
    value.name = output.text;
  } else {
    require(output.kind == Pt2Kind::none, ErrorCode::bad_file,
            "a result is neither a tensor nor a symbol");
    value.kind = ValueKind::none;
  }
  names.push_back(output.kind == Pt2Kind::none ? std::string() : output.text);
  values.push_back(std::move(value));
}

std::vector<GraphValue> Pt2Nodes::results(const Pt2Graph& source, const Pt2Node& node,
                                          const OpEntry& op, std::vector<std::string>& names) {
  require(node.outputs.size() == op.n_returns, ErrorCode::bad_file,
          "{} has {} results, its schema has {}: {}", node.target, node.outputs.size(),
          op.n_returns, to_text(op.schema));
  std::vector<GraphValue> values;
  for (const Pt2Argument& output : node.outputs) {
    bool is_list = output.kind == Pt2Kind::list;
    require(is_list == op.schema.returns_list(), ErrorCode::bad_file, "a result of {} is {}a list",
            node.target, is_list ? "" : "not ");
    result(source, output, values, names);
  }
  return values;
}

namespace {

// What the meta function gives, result by result; undefined for numbers. Empty where it gives nothing.
std::vector<Tensor> metas_by_function(const OpEntry& op, std::span<const Value> args) {
  std::vector<Tensor> out;
  std::vector<Value> results(op.n_returns);
  try {
    run_meta({&op, args.data(), results.data(), op.n_args, op.n_returns});
  } catch (const Error&) {
    return {};  // the verifier of the graph says what is wrong
  }
  for (Value& result : results) {
    if (result.tag == Tag::tensors_owned) {
      std::vector<Tensor> list = take<std::vector<Tensor>>(result);
      out.insert(out.end(), list.begin(), list.end());
    } else if (result.is_number() || result.tag == Tag::none) {
      out.emplace_back();
    } else {
      out.push_back(take<Tensor>(result));
    }
  }
  return out;
}

bool same_sizes(SymIntList a, SymIntList b) {
  return std::ranges::equal(a, b, [](SymInt x, SymInt y) {
    return x.word() == y.word() || statically_known_true(x == y);
  });
}

// The archive says what the exporter found with usual sizes. PyTorch runs the ops with 0 and 1 all
// the same, where squeeze() drops a dimension and x[:1] may be empty.
void restate(const Graph& graph, const OpEntry& op, std::span<const Value> given,
             std::vector<GraphValue>& values) {
  std::vector<Value> args(given.begin(), given.end());
  ArgumentLists lists;
  std::deque<Tensor> fakes;
  auto fake_of = [&](ValueId id) {
    const GraphValue& value = graph.value(id);
    if (value.kind == ValueKind::none) return Value{};
    if (value.kind != ValueKind::tensor) return Value::of(value.scalar);
    Tensor& fake = fakes.emplace_back(make_fake(value.meta, value.offset));
    if (value.source == ValueSource::constant && is_wrapped_number(graph.constant(id)))
      impl_of(fake)->ensure_extra().wrapped_number = true;
    return Value::of(fake);
  };
  map_arguments(args, lists, fake_of, keep_numbers);
  std::vector<Tensor> found = metas_by_function(op, args);
  if (found.size() != values.size()) return;
  auto is_open = [&](SymInt size) {
    return size.is_symbolic() && current_shape_env()->has_unbacked(size.expr());
  };
  for (size_t r = 0; r < values.size(); ++r) {
    if (!found[r].defined() || std::ranges::any_of(found[r].sizes(), is_open)) continue;
    if (same_sizes(found[r].sizes(), list_of(values[r].meta.sizes))) continue;
    TensorMeta meta = meta_of(found[r]);
    values[r].meta.sizes = std::move(meta.sizes);
    values[r].meta.strides = std::move(meta.strides);
    values[r].offset = found[r].storage_offset();
  }
}

}  // namespace

// What PyTorch promotes the other operand and a complex constant to.
static std::optional<Dtype> complex_of(const Pt2Graph& source, const Pt2Node& node) {
  if (node.outputs.empty() || node.outputs[0].kind != Pt2Kind::tensor) return std::nullopt;
  Dtype result = source.tensors.at(node.outputs[0].text).dtype;
  return is_complex(result) ? std::optional(result) : std::nullopt;
}

void Pt2Nodes::add(const Pt2Graph& source, const Pt2Node& node, Pt2Scope& scope) {
  size_t operand;
  if (inlined_graph(node, operand)) return add_inlined(node, scope);
  const OpEntry& op = *choose_op(node);
  if (is_control_flow(op)) return add_control_flow(source, node, op, scope);
  std::vector<Pt2Node> parts = without_complex_numbers(source, node);
  for (const Pt2Node& part : parts) add(source, part, scope);
  if (!parts.empty()) return;
  std::vector<Value> args = arguments_.bind(op, node, scope, complex_of(source, node));
  if (autocast_) cast_arguments(op, args);
  if (op.schema.is_for_parts()) return add_parts(source, node, op, args, scope);
  std::vector<std::string> names;
  std::vector<GraphValue> values = results(source, node, op, names);
  if (symbols_.has_untraced()) restate(graph_, op, args, values);
  append(node, op, args, std::move(values), names, scope);
}

void Pt2Nodes::append(const Pt2Node& node, const OpEntry& op, std::span<const Value> args,
                      std::vector<GraphValue> values, const std::vector<std::string>& names,
                      Pt2Scope& scope) {
  NodeId id = graph_.add_node(op.id, args, std::move(values));
  Node& added = graph_.node(id);
  added.name = node.name;
  added.where = location_of(node.stack_trace);
  added.module_path = module_path_of(node.nn_module_stack);
  if (!grad_mode_.empty()) added.facts["grad"] = grad_mode_;
  for (uint32_t r = 0; r < added.n_results; ++r) {
    ValueId value = added.first_result + r;
    if (names[r].empty()) continue;
    scope[names[r]] = {value, graph_.value(value).kind, graph_.value(value).scalar};
    bind_symbols(value);
    forget_open_offset(graph_.value(value));
  }
}

// The casts of an autocast region are not in the archive.
void Pt2Nodes::cast_arguments(const OpEntry& op, std::vector<Value>& args) {
  std::vector<Dtype> given;
  auto is_tensor = [&](ValueId id) { return graph_.value(id).kind == ValueKind::tensor; };
  auto note = [&](ValueId id) {
    if (is_tensor(id)) given.push_back(graph_.value(id).meta.dtype);
  };
  for (const Value& a : args) for_each_value(a, note);
  bool names_dtype = std::ranges::any_of(args, [](const Value& a) { return a.tag == Tag::dtype; });
  std::optional<Dtype> to = autocast_type({op, exported_type(), given, names_dtype}, *autocast_);
  if (!to) return;
  auto fitting = [&](ValueId id) { return is_tensor(id) ? cast(id, *to) : id; };
  map_arguments(args, cast_lists_, fitting, keep_numbers);
}

ValueId Pt2Nodes::cast(ValueId id, Dtype to) {
  const GraphValue& from = graph_.value(id);
  if (!autocast_casts(from.meta.dtype, to)) return id;
  static const OpEntry& op = entry_of(OpId::aten_to_dtype);
  Tensor fake = make_fake(from.meta, from.offset);
  std::vector<Value> args;
  for (size_t i = 0; i < op.n_args; ++i) args.push_back(i < 2 ? Value() : default_of(op, i));
  args[0] = Value::of(fake);
  args[1] = Value::of(to);
  Value result;
  run_meta({&op, args.data(), &result, op.n_args, 1});
  GraphValue value;
  value.meta = meta_of(take<Tensor>(result));
  value.name = message("{}_{}", from.name, torch_name_of(to));
  args[0] = Value::ref(id);
  std::vector<GraphValue> values{std::move(value)};
  return graph_.node(graph_.add_node(op.id, args, std::move(values))).first_result;
}

DeviceType Pt2Nodes::exported_type() const {
  return exported_on_ == "cuda" ? DeviceType::cuda : DeviceType::cpu;
}

// A region counts where the model was exported on its type of device: the dtypes in the archive are
// those of then, and its device moves with the model.
void Pt2Nodes::enter_region(const Pt2Node& node) {
  if (node.op == "wrap_with_set_grad_enabled") {
    grad_mode_ = node.inputs[0].value.boolean ? "on" : "off";
    return;
  }
  const Pt2Argument &device = node.inputs[0].value, &dtype = node.inputs[1].value,
                    &enabled = node.inputs[2].value;
  require(device.kind == Pt2Kind::string && enabled.kind == Pt2Kind::boolean, ErrorCode::bad_file,
          "{}: expected a device type and whether autocast is enabled as arguments 0 and 2",
          node.target);
  if (device.text != type_name(exported_type())) return;
  autocast_.reset();
  if (!enabled.boolean) return;
  require(dtype.kind == Pt2Kind::none || dtype.kind == Pt2Kind::dtype, ErrorCode::bad_file,
          "{}: expected a dtype or nothing as argument 1", node.target);
  Dtype of_device = exported_type() == DeviceType::cpu ? Dtype::bf16 : Dtype::f16;  // PyTorch's
  autocast_ = dtype.kind == Pt2Kind::none ? of_device : dtype.dtype;
}

// A region: its nodes in a scope of their own, which sees the operands by position.
void Pt2Nodes::add_inlined(const Pt2Node& node, Pt2Scope& scope) {
  size_t first;
  const Pt2Graph& body = *inlined_graph(node, first);
  require(node.inputs.size() - first == body.inputs.size(), ErrorCode::bad_file,
          "{} has {} operands, its sub-graph takes {}", node.target, node.inputs.size() - first,
          body.inputs.size());
  Pt2Scope inner;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const Pt2Argument& operand = node.inputs[first + i].value;
    if (body.inputs[i].text.empty()) continue;
    auto found = scope.find(operand.text);
    require(found != scope.end(), ErrorCode::bad_file, "operand {} of {} is not a value", i,
            node.target);
    inner[body.inputs[i].text] = found->second;
  }
  std::string outer_grad_mode = grad_mode_;
  std::optional<Dtype> outer_autocast = autocast_;
  enter_region(node);
  add_all(body, inner);
  grad_mode_ = outer_grad_mode;
  autocast_ = outer_autocast;
  std::vector<const Pt2Argument*> outputs;
  for (const Pt2Argument& output : node.outputs) {
    if (output.kind != Pt2Kind::list)
      outputs.push_back(&output);
    else
      for (const Pt2Argument& part : output.items) outputs.push_back(&part);
  }
  require(outputs.size() == body.outputs.size(), ErrorCode::bad_file,
          "{} has {} results, its sub-graph gives {}", node.target, outputs.size(),
          body.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]->text.empty()) continue;
    auto found = inner.find(body.outputs[i].text);
    require(found != inner.end(), ErrorCode::bad_file, "result {} of {} is not a value", i,
            node.target);
    scope[outputs[i]->text] = found->second;
  }
}

void Pt2Nodes::add_all(const Pt2Graph& source, Pt2Scope& scope) {
  for (const Pt2Node& node : source.nodes) {
    try {
      add(source, node, scope);
    } catch (const UserError& error) {
      // What other rooms find wrong is the file's fault as well.
      bool is_unsupported = error.code() == ErrorCode::unsupported;
      throw UserError(is_unsupported ? ErrorCode::unsupported : ErrorCode::bad_file,
                      message("node {} ({}): {}", node.name, node.target, error.what()));
    }
  }
}

}  // namespace tenon::formats
