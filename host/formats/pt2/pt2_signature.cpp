// The signature of a program and its calling convention: what each input and output is bound to,
// and how nested Python containers are flattened into them.
#include <algorithm>

#include "formats/pt2/pt2_parts.h"

namespace tenon::formats {

size_t Pt2Tree::leaf_count() const {
  if (kind == Kind::leaf) return 1;
  size_t count = 0;
  for (const Pt2Tree& child : children) count += child.leaf_count();
  return count;
}

const Pt2Weight* Pt2Program::find_weight(const Pt2Input& input) const {
  bool is_weight = input.kind == Pt2InputKind::parameter ||
                   (input.kind == Pt2InputKind::buffer && input.persistent);
  bool is_constant = input.kind == Pt2InputKind::tensor_constant ||
                     (input.kind == Pt2InputKind::buffer && !input.persistent);
  if (!is_weight && !is_constant) return nullptr;
  const std::vector<Pt2Weight>& among = is_weight ? weights : constants;
  // Sorted by name when they are read.
  auto at = std::ranges::lower_bound(among, input.target, {}, &Pt2Weight::name);
  return at != among.end() && at->name == input.target ? &*at : nullptr;
}

namespace pt2 {

namespace {

std::string argument_name(const JsonView& fields) {
  return read_name(fields.field("arg").field("name"));
}

std::optional<std::string> token_name(const JsonView& spec) {
  auto [tag, fields] = spec.only_member();
  return tag == "token" ? std::optional(argument_name(fields)) : std::nullopt;
}

[[noreturn]] void refuse_spec(const JsonView& spec, std::string_view tag, const JsonView& fields) {
  check(tag == "custom_obj", "{}: unknown kind of input or output \"{}\"", spec, printable(tag));
  auto argument = fields.optional_field("arg");
  auto name = argument ? argument->optional_field("class_fqn") : std::nullopt;
  fail(ErrorCode::unsupported, "{}: {} inputs and outputs are not supported{}{}", spec, tag,
       name ? ", found class " : "", name ? printable(name->text()) : "");
}

Pt2Input read_input_spec(const JsonView& spec, Pt2Expressions& expressions) {
  auto [tag, fields] = spec.only_member();
  if (tag == "parameter")
    return {.kind = Pt2InputKind::parameter,
            .name = argument_name(fields),
            .target = read_name(fields.field("parameter_name"))};
  if (tag == "buffer")
    return {.kind = Pt2InputKind::buffer,
            .name = argument_name(fields),
            .target = read_name(fields.field("buffer_name")),
            .persistent = fields.field("persistent").boolean()};
  if (tag == "tensor_constant")
    return {.kind = Pt2InputKind::tensor_constant,
            .name = argument_name(fields),
            .target = read_name(fields.field("tensor_constant_name"))};
  if (tag == "user_input") {
    Pt2Argument value = read_argument(fields.field("arg"), expressions);
    return {.kind = Pt2InputKind::user_input, .name = value.text, .value = value};
  }
  if (tag == "constant_input")
    return {.kind = Pt2InputKind::constant_input,
            .name = read_name(fields.field("name")),
            .value = read_argument(fields.field("value"), expressions)};
  refuse_spec(spec, tag, fields);
}

struct OutputRow {
  std::string_view tag;
  Pt2OutputKind kind;
  std::string_view target_field;
};

constexpr OutputRow output_rows[] = {
    {"loss_output", Pt2OutputKind::loss_output, ""},
    {"buffer_mutation", Pt2OutputKind::buffer_mutation, "buffer_name"},
    {"parameter_mutation", Pt2OutputKind::parameter_mutation, "parameter_name"},
    {"user_input_mutation", Pt2OutputKind::user_input_mutation, "user_input_name"},
    {"gradient_to_parameter", Pt2OutputKind::gradient_to_parameter, "parameter_name"},
    {"gradient_to_user_input", Pt2OutputKind::gradient_to_user_input, "user_input_name"},
};

Pt2Output read_output_spec(const JsonView& spec, Pt2Expressions& expressions) {
  auto [tag, fields] = spec.only_member();
  if (tag == "user_output") return {.value = read_argument(fields.field("arg"), expressions)};
  const OutputRow* row = std::ranges::find(output_rows, tag, &OutputRow::tag);
  if (row == std::end(output_rows)) refuse_spec(spec, tag, fields);
  Pt2Output output{.kind = row->kind,
                   .value = {.kind = Pt2Kind::tensor, .text = argument_name(fields)}};
  if (!row->target_field.empty()) output.target = read_name(fields.field(row->target_field));
  return output;
}

Pt2Tree::Kind tree_kind(std::string_view type) {
  using Kind = Pt2Tree::Kind;
  if (type == "builtins.tuple") return Kind::tuple;
  if (type == "builtins.list") return Kind::list;
  if (type == "builtins.dict") return Kind::dict;
  if (type == "collections.OrderedDict") return Kind::ordered_dict;
  if (type == "collections.namedtuple") return Kind::named_tuple;
  if (type == "collections.deque") return Kind::deque;
  if (type == "collections.defaultdict") return Kind::default_dict;
  return Kind::other;
}

// Keys are texts, or numbers that are kept as text.
std::vector<std::string> read_keys(const JsonView& list) {
  std::vector<std::string> keys;
  for (const JsonView& key : list.items())
    keys.push_back(key.is_text() ? key.text() : key.json().dump());
  return keys;
}

// The context is a list of keys as JSON within a string; of defaultdict an object that holds the list.
std::vector<std::string> dict_keys(const JsonView& context) {
  if (context.is_object()) return read_keys(context.field("dict_context"));
  JsonDocument document = parse_json(context.text(), context.subject() + ": context");
  JsonView keys = document.view();
  if (keys.is_object()) {
    JsonView inner = keys.field("dict_context");
    return inner.is_text() ? dict_keys(inner) : read_keys(inner);
  }
  return read_keys(keys);
}

// Field names of named tuples by the name of their type.
using NamedTuples = std::unordered_map<std::string, std::vector<std::string>>;

NamedTuples read_named_tuples(const JsonView& graph_module) {
  NamedTuples named_tuples;
  auto rows = graph_module.optional_field("treespec_namedtuple_fields");
  if (!rows) return named_tuples;
  for (const auto& [type, fields] : rows->members())
    named_tuples.emplace(type,
                         read_keys(fields.is_object() ? fields.field("field_names") : fields));
  return named_tuples;
}

// The context is the name of the type.
std::vector<std::string> field_names(const JsonView& context, const NamedTuples& named_tuples) {
  auto at = named_tuples.find(context.text());
  return at == named_tuples.end() ? std::vector<std::string>() : at->second;
}

Pt2Tree read_tree(const JsonView& view, const NamedTuples& named_tuples) {
  Pt2Tree tree;
  auto type = view.optional_field("type");
  if (!type) return tree;
  tree.type = type->text();
  tree.kind = tree_kind(tree.type);
  for (const JsonView& child : view.field("children_spec").items())
    tree.children.push_back(read_tree(child, named_tuples));
  auto context = view.optional_field("context");
  const bool is_dict = tree.kind == Pt2Tree::Kind::dict ||
                       tree.kind == Pt2Tree::Kind::ordered_dict ||
                       tree.kind == Pt2Tree::Kind::default_dict;
  if (context && is_dict) tree.keys = dict_keys(*context);
  if (context && tree.kind == Pt2Tree::Kind::named_tuple)
    tree.keys = field_names(*context, named_tuples);
  const bool needs_keys = is_dict || !tree.keys.empty();
  check(!needs_keys || tree.keys.size() == tree.children.size(),
        "{}: expected one key for each of {} children, found {}", view, tree.children.size(),
        tree.keys.size());
  return tree;
}

std::optional<Pt2Tree> read_tree_text(const JsonView& signature, std::string_view field,
                                      const NamedTuples& named_tuples) {
  constexpr int64_t protocol = 1;
  auto text = signature.optional_field(field);
  if (!text || text->text().empty()) return std::nullopt;
  // Not place(), which walks the whole document: a signature has one place.
  JsonDocument document = parse_json(
      text->text(), message("{}: module_call_graph[0].signature.{}", text->subject(), field));
  std::vector<JsonView> parts = document.view().items();
  check(parts.size() == 2 && parts[0].integer() == protocol,
        "{}: expected a tree of protocol {}, [1, {{...}}]", *text, protocol);
  return read_tree(parts[1], named_tuples);
}

}  // namespace

void read_signature(const JsonView& signature, Pt2Expressions& expressions, Pt2Program& program) {
  for (const JsonView& spec : signature.field("input_specs").items())
    if (auto token = token_name(spec))
      drop_token(program.graph.inputs, spec, *token);
    else
      program.inputs.push_back(read_input_spec(spec, expressions));
  for (const JsonView& spec : signature.field("output_specs").items())
    if (auto token = token_name(spec))
      drop_token(program.graph.outputs, spec, *token);
    else
      program.outputs.push_back(read_output_spec(spec, expressions));
}

void read_calling_convention(const JsonView& graph_module, Pt2Program& program) {
  auto calls = graph_module.optional_field("module_call_graph");
  if (!calls || calls->items().empty()) return;
  auto signature = calls->items().front().optional_field("signature");
  if (!signature) return;
  const NamedTuples named_tuples = read_named_tuples(graph_module);
  program.in_tree = read_tree_text(*signature, "in_spec", named_tuples);
  program.out_tree = read_tree_text(*signature, "out_spec", named_tuples);
  if (auto names = signature->optional_field("forward_arg_names"))
    for (const JsonView& name : names->items()) program.argument_names.push_back(read_name(name));
}

}  // namespace pt2

}  // namespace tenon::formats
