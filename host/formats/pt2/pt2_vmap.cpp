// Regions of torch.vmap as calls of map.
//
// Problem. An export writes vmap as it ran: nodes that begin and end a level, add the mapped
// dimension to what comes in and remove it from what goes out; between them stand ops whose
// descriptions are those of one slice. So does associative_scan in its generic mode, which is a
// tree of vmaps. Those nodes have no meaning one by one.
//
// Method. What stands between the two becomes a sub-graph over slices, and the region one call of
// map: slices are its first operands, and tensors from outside that the ops read are the others.
// Numbers from outside are computed again within, from the tensors that they come from. Levels
// within levels become maps within the sub-graph. Cost: linear in the graph for each level.
#include "formats/pt2/pt2_parts.h"

#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <algorithm>
#include <span>
#include <unordered_set>

namespace tenon::formats::pt2 {

namespace {

constexpr std::string_view prefix = "torch._functorch.predispatch.";
constexpr int deepest = 64;  // levels in levels, numbers of numbers

bool is_call(const Pt2Node& node, std::string_view name) {
  return node.target.starts_with(prefix) && node.target.substr(prefix.size()) == name;
}

Pt2Argument tensor_named(std::string name) {
  Pt2Argument out{.kind = Pt2Kind::tensor};
  out.text = std::move(name);
  return out;
}
Pt2Argument list_of_tensors(const std::vector<std::string>& names) {
  Pt2Argument out{.kind = Pt2Kind::list, .element = Pt2Kind::tensor};
  for (const std::string& name : names) out.items.push_back(tensor_named(name));
  return out;
}
Pt2Argument number(int64_t n) { return {.kind = Pt2Kind::integer, .integer = n}; }

/// Each tensor and symbol that an argument names.
template <class F>
void for_each_name(const Pt2Argument& a, F&& f) {
  for (const Pt2Argument& item : a.items) for_each_name(item, f);
  if (a.kind == Pt2Kind::tensor || a.kind == Pt2Kind::symbol) f(a);
}

const Pt2Argument& argument(const Pt2Node& node, size_t i, Pt2Kind kind) {
  check(i < node.inputs.size() && node.inputs[i].value.kind == kind,
        "{}: argument {} is missing or of another kind than expected", node.target, i);
  return node.inputs[i].value;
}
const std::string& only_result(const Pt2Node& node) {
  check(node.outputs.size() == 1 && node.outputs[0].kind == Pt2Kind::tensor,
        "{}: expected one tensor as its result", node.target);
  return node.outputs[0].text;
}

/// One region on its way to a call of map.
class Region {
 public:
  /// `before`: the nodes in front of it; `inside`: those between its first and its last.
  Region(Pt2Graph& graph, std::vector<Pt2Node>& before, std::span<const Pt2Node> inside)
      : graph_(graph), before_(before) {
    int depth = 0;
    for (const Pt2Node& node : inside) {
      depth += is_call(node, "_vmap_increment_nesting");
      if (depth == 0 && is_call(node, "_add_batch_dim"))
        add_slices(node);
      else if (depth == 0 && is_call(node, "_remove_batch_dim"))
        add_result(node);
      else
        add_node(node);
      depth -= is_call(node, "_vmap_decrement_nesting");
    }
    require(!slices_.empty(), ErrorCode::unsupported,
            "vmap over no tensor at all is not supported; map a dimension of one");
  }

  /// The call, and what turns its results.
  void write(std::vector<Pt2Node>& to, int depth) && {
    auto body = std::make_shared<Pt2Graph>();
    for (const std::string& name : slices_) body->inputs.push_back(tensor_named(name));
    for (const std::string& name : others_) body->inputs.push_back(tensor_named(name));
    for (const std::string& name : given_) body->outputs.push_back(tensor_named(name));
    body->nodes = std::move(numbers_);
    std::move(nodes_.begin(), nodes_.end(), std::back_inserter(body->nodes));
    describe(*body);
    map_regions(*body, depth + 1);
    Pt2Node call{.target = "torch.ops.higher_order.map_impl",
                 .kind = Pt2TargetKind::higher_order,
                 .op = "map_impl"};
    Pt2Argument graph{.kind = Pt2Kind::graph};
    graph.text = "vmap", graph.graph = std::move(body);
    for (Pt2Argument a : {std::move(graph), list_of_tensors(operands_), list_of_tensors(others_)})
      call.inputs.push_back({.name = {}, .value = std::move(a)});
    call.outputs.push_back(list_of_tensors(results_));
    to.push_back(std::move(call));
    std::move(behind_.begin(), behind_.end(), std::back_inserter(to));
  }

 private:
  const Pt2TensorMeta& meta_of(const std::string& name) const { return graph_.tensors.at(name); }

  int64_t dimension(int64_t d, const std::string& name) const {
    auto rank = static_cast<int64_t>(meta_of(name).sizes.size());
    check(d >= -rank && d < rank, "vmap: dimension {} of {} is out of range", d, printable(name));
    return d < 0 ? d + rank : d;
  }
  std::string new_name(const std::string& like) {
    std::string name = like + ".turned";
    while (graph_.tensors.contains(name) || graph_.symbols.contains(name)) name += "_";
    return name;
  }
  static void move_dimension(Pt2TensorMeta& meta, int64_t to) {
    for (std::vector<Pt2Sym>* dims : {&meta.sizes, &meta.strides})
      if (static_cast<int64_t>(dims->size()) > to)
        std::rotate(dims->begin(), dims->begin() + to, dims->begin() + to + 1);
  }
  /// `name` with a dimension moved.
  static Pt2Node moved(const std::string& name, int64_t from, int64_t to, std::string result) {
    const std::string& op = entry_of(OpId::aten_movedim_int).name;
    Pt2Node node{.target = "torch.ops." + op, .kind = Pt2TargetKind::op, .op = op};
    node.inputs = {
        {"self", tensor_named(name)}, {"source", number(from)}, {"destination", number(to)}};
    node.outputs.push_back(tensor_named(std::move(result)));
    return node;
  }
  /// The same tensor with its dimension d as the first one, described.
  std::string front_form(const std::string& name, int64_t d) {
    std::string front = new_name(name);
    Pt2TensorMeta meta = meta_of(name);
    move_dimension(meta, d);
    graph_.tensors.emplace(front, std::move(meta));
    return front;
  }

  void add_slices(const Pt2Node& node) {
    std::string whole = argument(node, 0, Pt2Kind::tensor).text;
    require(!is_inside(whole), ErrorCode::unsupported,
            "vmap over {}, which it computes itself, is not supported", printable(whole));
    int64_t d = dimension(argument(node, 1, Pt2Kind::integer).integer, whole);
    if (d != 0) {
      std::string front = front_form(whole, d);
      before_.push_back(moved(whole, d, 0, front));
      whole = std::move(front);
    }
    slices_.push_back(only_result(node));
    inside_.insert(slices_.back());
    operands_.push_back(std::move(whole));
  }

  void add_result(const Pt2Node& node) {
    const std::string& given = argument(node, 0, Pt2Kind::tensor).text;
    std::string result = only_result(node);
    int64_t d = dimension(argument(node, 3, Pt2Kind::integer).integer, result);
    bring(node.inputs[0].value);
    given_.push_back(given);
    if (d != 0) {
      std::string front = front_form(result, d);
      behind_.push_back(moved(front, 0, d, result));
      result = std::move(front);
    }
    results_.push_back(std::move(result));
  }

  void add_node(const Pt2Node& node) {
    for (const Pt2NamedArgument& input : node.inputs)
      for_each_name(input.value, [&](const Pt2Argument& a) { bring(a); });
    for (const Pt2Argument& output : node.outputs)
      for_each_name(output, [&](const Pt2Argument& a) { inside_.insert(a.text); });
    nodes_.push_back(node);
  }

  bool is_inside(const std::string& name) const { return inside_.contains(name); }

  /// Makes a name from outside known.
  void bring(const Pt2Argument& a, int depth = 0) {
    if (!inside_.insert(a.text).second) return;
    require(depth < deepest, ErrorCode::unsupported,
            "vmap reads the number {}, which {} others make one after the other; that is too many",
            printable(a.text), deepest);
    if (a.kind == Pt2Kind::tensor) return others_.push_back(a.text);
    auto makes = [&](const Pt2Node& node) {
      return std::ranges::any_of(
          node.outputs, [&](const Pt2Argument& o) { return o.kind == a.kind && o.text == a.text; });
    };
    auto maker = std::ranges::find_if(before_, makes);
    require(maker != before_.end() && maker->outputs.size() == 1, ErrorCode::unsupported,
            "vmap reads the number {}, which is no size of a tensor; only tensors can be mapped",
            printable(a.text));
    for (const Pt2NamedArgument& input : maker->inputs)
      for_each_name(input.value, [&](const Pt2Argument& of) { bring(of, depth + 1); });
    numbers_.push_back(*maker);
  }

  void describe(Pt2Graph& body) const {
    auto take = [&](const Pt2Argument& a) {
      if (auto tensor = graph_.tensors.find(a.text); tensor != graph_.tensors.end())
        body.tensors.insert(*tensor);
      if (auto symbol = graph_.symbols.find(a.text); symbol != graph_.symbols.end())
        body.symbols.insert(*symbol);
    };
    for (const auto* list : {&body.inputs, &body.outputs})
      for (const Pt2Argument& a : *list) take(a);
    for (const Pt2Node& node : body.nodes) {
      for (const Pt2NamedArgument& input : node.inputs) for_each_name(input.value, take);
      for (const Pt2Argument& output : node.outputs) for_each_name(output, take);
    }
  }

  Pt2Graph& graph_;
  std::vector<Pt2Node>& before_;
  std::vector<Pt2Node> numbers_, nodes_, behind_;
  std::vector<std::string> operands_, slices_;  // outside, inside
  std::vector<std::string> given_, results_;    // inside, outside
  std::vector<std::string> others_;
  std::unordered_set<std::string> inside_;
};

/// The place of the node that ends the level which the one at `first` begins.
size_t end_of_level(const std::vector<Pt2Node>& nodes, size_t first) {
  int depth = 0;
  for (size_t i = first; i < nodes.size(); ++i) {
    depth += is_call(nodes[i], "_vmap_increment_nesting");
    depth -= is_call(nodes[i], "_vmap_decrement_nesting");
    if (depth == 0) return i;
  }
  fail(ErrorCode::bad_file, "{}: nothing ends its level", nodes[first].target);
}

// Random numbers that all slices share, or that each draws as PyTorch does, have no form here.
void require_no_randomness(const Pt2Node& node) {
  const std::string& randomness = argument(node, 1, Pt2Kind::string).text;
  require(randomness == "error", ErrorCode::unsupported,
          "vmap with randomness '{}' is not supported; expected 'error'", printable(randomness));
}

void map_regions_of_bodies(Pt2Node& node, int depth) {
  for (Pt2NamedArgument& input : node.inputs)
    if (input.value.graph) {
      auto copy = std::make_shared<Pt2Graph>(*input.value.graph);
      map_regions(*copy, depth);
      input.value.graph = std::move(copy);
    }
}

}  // namespace

void map_regions(Pt2Graph& graph, int depth) {
  require(depth < deepest, ErrorCode::unsupported, "graphs nest {} deep; that is too many",
          deepest);
  std::vector<Pt2Node> nodes = std::move(graph.nodes), out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    map_regions_of_bodies(nodes[i], depth + 1);
    if (is_call(nodes[i], "lazy_load_decompositions")) continue;
    if (!is_call(nodes[i], "_vmap_increment_nesting")) {
      out.push_back(std::move(nodes[i]));
      continue;
    }
    require_no_randomness(nodes[i]);
    size_t end = end_of_level(nodes, i);
    Region region(graph, out, std::span(nodes).subspan(i + 1, end - i - 1));
    std::move(region).write(out, depth);
    i = end;
  }
  graph.nodes = std::move(out);
}

}  // namespace tenon::formats::pt2
