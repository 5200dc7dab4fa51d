// A .pt2 program becomes a graph, its weights tensors, its signature a plan of inputs and outputs.
#include "formats/pt2/pt2_import.h"

#include "core/sym/shape_env.h"
#include "core/sym/symbol_numbers.h"
#include "formats/pt2/pt2_import_parts.h"
#include "graph/verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tenon::formats {

namespace {

/// Memory that weights share.
using WeightStorage = std::pair<std::string_view, Dtype>;

WeightStorage storage_of(const Pt2Weight& w) { return {w.record, w.dtype}; }

/// Weights that show the same elements are equal.
struct ViewsInOrder {
  bool operator()(const Pt2Weight* a, const Pt2Weight* b) const {
    auto shown = [](const Pt2Weight& w) {
      return std::tie(w.record, w.dtype, w.offset, w.sizes, w.strides);
    };
    return shown(*a) < shown(*b);
  }
};

class Importer {
 public:
  Importer(const Pt2Program& program, const ImportOptions& options)
      : program_(program),
        options_(options),
        graph_(std::make_shared<Graph>()),
        symbols_(program, ShapeEnv::make()),
        nodes_(*graph_, symbols_, options.device) {
    graph_->name = program.name;
    graph_->shape_env = symbols_.share_env();
  }

  ImportedModel run();

 private:
  void declare_symbols();
  void add_input(uint32_t index);
  void add_weight(const Pt2Input& input, const Pt2Weight& weight);
  void add_other_names();
  void add_leaf(uint32_t index);
  void bind_symbols();
  void add_outputs();
  void add_output(const Pt2Output& output);
  void build_graph();
  void attach_weights();
  uint32_t input_of(const std::string& target) const;

  const Pt2Program& program_;
  const ImportOptions& options_;
  std::shared_ptr<Graph> graph_;
  Pt2SymbolTable symbols_;
  Pt2Nodes nodes_;
  Pt2Scope scope_;
  ImportedModel model_;
  std::vector<const Pt2Weight*> weights_;               // by graph input, null for the others
  std::map<WeightStorage, uint32_t> first_input_over_;  // graph inputs
  std::map<const Pt2Weight*, uint32_t, ViewsInOrder> input_that_shows_;
  std::vector<uint32_t> graph_input_;  // by input of the program
  std::vector<ValueId> results_;
};

void Importer::declare_symbols() {
  model_.symbols = symbol_sources(program_);
  Pt2SymbolValues hints = symbol_hints(program_, model_.symbols);
  for (const auto& [symbol, value] : options_.hints) hints[symbol] = value;
  for (const Pt2SymbolSource& s : model_.symbols) {
    auto hint = hints.find(s.symbol);
    require(hint != hints.end(), ErrorCode::bad_file,
            "{}: symbol {} of an input has no example value; export the program again",
            program_.file, symbol_text(s.symbol));
    auto kind = s.kind == Pt2SourceKind::size     ? SymbolSource::Kind::input_size
                : s.kind == Pt2SourceKind::stride ? SymbolSource::Kind::input_stride
                                                  : SymbolSource::Kind::input_value;
    uint32_t dim = s.dim < 0 ? 0 : static_cast<uint32_t>(s.dim);
    symbols_.declare(s.symbol, hint->second, {kind, s.input, dim});
  }
}

// Tied parameters are one input; other views of one storage are in one alias group.
void Importer::add_weight(const Pt2Input& input, const Pt2Weight& weight) {
  auto index = static_cast<uint32_t>(weights_.size());
  auto [shown, is_new] = input_that_shows_.try_emplace(&weight, index);
  if (!is_new) {
    scope_[input.name] = {graph_->inputs()[shown->second], ValueKind::tensor, {}};
    model_.inputs[shown->second].names.push_back(input.target);
    graph_input_.push_back(shown->second);
    return;
  }
  GraphValue value = nodes_.tensor_value(program_.graph, input.name);
  value.meta.strides.clear();
  for (int64_t stride : weight.strides) value.meta.strides.push_back(stride);
  value.offset = weight.offset;
  value.flags.parameter = input.kind == Pt2InputKind::parameter;
  value.flags.buffer = !value.flags.parameter;
  value.flags.static_address = true;
  value.flags.requires_grad = value.flags.parameter && weight.requires_grad;
  auto [first, is_alone] = first_input_over_.try_emplace(storage_of(weight), index);
  if (!is_alone) {
    value.alias_group = first->second + 1;
    graph_->value(graph_->inputs()[first->second]).alias_group = value.alias_group;
  }
  scope_[input.name] = {graph_->add_input(std::move(value)), ValueKind::tensor, {}};
  ModelInputKind kind = input.kind == Pt2InputKind::parameter ? ModelInputKind::parameter
                        : input.kind == Pt2InputKind::buffer  ? ModelInputKind::buffer
                                                              : ModelInputKind::constant;
  graph_input_.push_back(static_cast<uint32_t>(model_.inputs.size()));
  model_.inputs.push_back({kind, input.name, {input.target}, {}, 0});
  weights_.push_back(&weight);
}

// Exports may give tied weights one input; the state_dict in the archive has all of their names.
void Importer::add_other_names() {
  for (const Pt2Weight& weight : program_.weights) {
    auto shown = input_that_shows_.find(&weight);
    if (shown == input_that_shows_.end()) continue;
    std::vector<std::string>& names = model_.inputs[shown->second].names;
    if (std::ranges::find(names, weight.name) == names.end()) names.push_back(weight.name);
  }
}

void Importer::add_leaf(uint32_t index) {
  const Pt2Input& input = program_.inputs[index];
  ModelLeaf leaf;
  leaf.name = input.name;
  leaf.program_input = index;
  graph_input_.push_back(no_value);
  bool is_constant = input.kind == Pt2InputKind::constant_input;
  bool is_value = input.value.kind == Pt2Kind::tensor || input.value.kind == Pt2Kind::symbol;
  if (is_constant || !is_value) {
    leaf.kind = LeafKind::constant;
    leaf.constant = input.value;
    model_.leaves.push_back(std::move(leaf));
    return;
  }
  GraphValue value;
  if (input.value.kind == Pt2Kind::tensor) {
    const Pt2TensorMeta& meta = program_.graph.tensors.at(input.value.text);
    leaf.dtype = meta.dtype;
    leaf.sizes = meta.sizes;
    value = nodes_.tensor_value(program_.graph, input.value.text);
  } else {
    leaf.kind = LeafKind::number;
    leaf.number = program_.graph.symbols.at(input.value.text);
    value.name = input.value.text;
    value.kind = input.value.symbol_type == Pt2SymbolType::integer ? ValueKind::sym_int
                 : input.value.symbol_type == Pt2SymbolType::real  ? ValueKind::sym_float
                                                                   : ValueKind::sym_bool;
    value.scalar = nodes_.number(leaf.number, input.value.symbol_type);
  }
  NamedValue named{no_value, value.kind, value.scalar};
  named.id = graph_->add_input(std::move(value));
  scope_[input.value.text] = named;
  graph_input_.back() = static_cast<uint32_t>(model_.inputs.size());
  auto at = static_cast<uint32_t>(model_.leaves.size());
  model_.inputs.push_back({ModelInputKind::user, input.name, {}, {}, at});
  weights_.push_back(nullptr);
  model_.leaves.push_back(std::move(leaf));
}

void Importer::add_input(uint32_t index) {
  const Pt2Input& input = program_.inputs[index];
  if (const Pt2Weight* weight = program_.find_weight(input)) return add_weight(input, *weight);
  add_leaf(index);
}

// A symbol that has to be solved for, or that a stride or an offset gives, is an input of its own,
// which the caller fills in.
void Importer::bind_symbols() {
  for (const Pt2SymbolSource& s : model_.symbols) {
    const Expr* symbol = symbols_.find(s.symbol);
    ValueId value = no_value;
    int32_t dim = s.dim;
    if (s.is_own_input()) {
      GraphValue input;
      input.kind = ValueKind::sym_int;
      input.name = symbol_text(s.symbol);
      input.scalar = SymInt::from_expr(symbol);
      value = graph_->add_input(std::move(input));
      dim = -1;
      model_.inputs.push_back({ModelInputKind::symbol, symbol_text(s.symbol), {}, {}, 0});
      weights_.push_back(nullptr);
    } else {
      value = graph_->inputs()[graph_input_[s.input]];
    }
    graph_->symbols.push_back({symbol, value, dim, false});
    nodes_.mark_bound(symbol);
  }
}

// The graph input that an effect names: the FQN of a weight, or the name of a user input.
uint32_t Importer::input_of(const std::string& target) const {
  for (uint32_t i = 0; i < model_.inputs.size(); ++i) {
    const ModelInput& input = model_.inputs[i];
    bool is_user = input.kind == ModelInputKind::user && input.name == target;
    if (is_user || std::find(input.names.begin(), input.names.end(), target) != input.names.end())
      return i;
  }
  fail(ErrorCode::bad_file, "{}: an output changes {}, which is not an input", program_.file,
       target);
}

void Importer::add_output(const Pt2Output& output) {
  ModelOutput plan;
  plan.name = output.target;
  auto named = scope_.find(output.value.text);
  bool is_value = output.value.kind == Pt2Kind::tensor || output.value.kind == Pt2Kind::symbol;
  if (is_value) {
    require(named != scope_.end(), ErrorCode::bad_file, "{}: output {} is not defined",
            program_.file, output.value.text);
    plan.index = static_cast<uint32_t>(results_.size());
    results_.push_back(named->second.id);
  }
  switch (output.kind) {
    case Pt2OutputKind::user_output:
    case Pt2OutputKind::loss_output:
      plan.kind = is_value ? ModelOutputKind::result : ModelOutputKind::constant;
      plan.constant = output.value;
      break;
    case Pt2OutputKind::gradient_to_parameter:
    case Pt2OutputKind::gradient_to_user_input:
      plan.kind = ModelOutputKind::gradient;
      break;
    default:
      plan.kind = ModelOutputKind::write_back;
      plan.input = input_of(output.target);
      break;
  }
  require(is_value || plan.kind == ModelOutputKind::constant, ErrorCode::bad_file,
          "{}: the new value of {} is not a tensor", program_.file, output.target);
  model_.outputs.push_back(std::move(plan));
}

// User outputs first, so that their positions are those of the flattened results.
void Importer::add_outputs() {
  auto is_user = [](const Pt2Output& o) {
    return o.kind == Pt2OutputKind::user_output || o.kind == Pt2OutputKind::loss_output;
  };
  for (const Pt2Output& output : program_.outputs)
    if (is_user(output)) add_output(output);
  for (const Pt2Output& output : program_.outputs)
    if (!is_user(output)) add_output(output);
  graph_->set_outputs(results_);
}

void Importer::attach_weights() {
  std::vector<bool> written = written_inputs(*graph_);
  for (const ModelOutput& output : model_.outputs)
    if (output.kind == ModelOutputKind::write_back) written[output.input] = true;
  std::set<WeightStorage> written_storages;
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] && written[i]) written_storages.insert(storage_of(*weights_[i]));
  Pt2Weights tensors(options_);
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!weights_[i]) continue;
    bool is_written = written_storages.contains(storage_of(*weights_[i]));  // or who shares it
    model_.inputs[i].tensor = tensors.tensor(*weights_[i], is_written || options_.own_weights);
  }
}

void Importer::build_graph() {
  declare_symbols();
  for (uint32_t i = 0; i < program_.inputs.size(); ++i) add_input(i);
  add_other_names();
  bind_symbols();
  nodes_.add_all(program_.graph, scope_);
  add_outputs();
}

ImportedModel Importer::run() {
  std::string missing = unsupported_ops(program_);
  require(missing.empty(), ErrorCode::unsupported, "{}: {}", program_.file, missing);
  ShapeEnvScope scope(symbols_.env());
  try {
    build_graph();
  } catch (const UserError& error) {
    // Sizes that no arithmetic holds are found by rooms that know of no file.
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw UserError(ErrorCode::bad_file, message("{}: {}", program_.file, error.what()));
  }
  if (options_.with_weights) attach_weights();
  admit_graph(*graph_, program_.file);
  model_.file = program_.file;
  model_.name = program_.name;
  model_.graph = graph_;
  model_.program_symbols = program_.symbols;
  model_.ranges = program_.ranges;
  model_.guards = program_.guards;
  model_.argument_names = program_.argument_names;
  model_.in_tree = program_.in_tree;
  return std::move(model_);
}

void count_unsupported(const Pt2Graph& graph, std::map<std::string, int>& counts) {
  for (const Pt2Node& node : graph.nodes) {
    size_t operand;
    if (const Pt2Graph* body = inlined_graph(node, operand)) {
      count_unsupported(*body, counts);
      continue;
    }
    for (const Pt2NamedArgument& arg : node.inputs)
      if (choose_op(node) && arg.value.kind == Pt2Kind::graph)
        count_unsupported(*arg.value.graph, counts);
    if (choose_op(node)) continue;
    bool is_op = node.kind == Pt2TargetKind::op;
    ++counts[is_op                                      ? node.op
             : node.kind == Pt2TargetKind::higher_order ? "higher_order." + node.op
                                                        : node.target];
  }
}

}  // namespace

std::string unsupported_ops(const Pt2Program& program) {
  std::map<std::string, int> counts;
  count_unsupported(program.graph, counts);
  if (counts.empty()) return "";
  std::string out =
      message("{} op{} not supported: ", counts.size(), counts.size() == 1 ? " is" : "s are");
  const char* separator = "";
  for (const auto& [name, count] : counts) {
    out += message("{}{} ({} time{})", separator, name, count, count == 1 ? "" : "s");
    separator = ", ";
  }
  return out;
}

ImportedModel import_pt2(const Pt2Program& program, const ImportOptions& options) {
  return Importer(program, options).run();
}

}  // namespace tenon::formats
