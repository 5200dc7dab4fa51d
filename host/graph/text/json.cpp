// Graphs as JSON: one function to write and one to read each part of a document.
#include "graph/text/json.h"

#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <tenon/dtype.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>

namespace tenon {

namespace {

using Json = nlohmann::ordered_json;

// ---- writing

Json write_double(double value) {
  if (std::isfinite(value)) return value;
  return {{"float", double_text(value)}};
}

Json write_literal(const Literal& literal) {
  using Kind = Literal::Kind;
  switch (literal.kind) {
    case Kind::none:
      return nullptr;
    case Kind::value:
      return {{"value", literal.text}};
    case Kind::graph:
      return {{"graph", literal.text}};
    case Kind::integer:
      return literal.integer;
    case Kind::floating:
      return write_double(literal.floating);
    case Kind::boolean:
      return literal.integer != 0;
    case Kind::text:
      return literal.text;
    case Kind::word:
      return {{"word", literal.text}};
    case Kind::expression:
      return {{"expr", literal.text}};
    case Kind::opaque:
      return {{"opaque", true}};
    case Kind::list:
      break;
  }
  Json list = Json::array();
  for (const Literal& item : literal.items) list.push_back(write_literal(item));
  return list;
}

Json write_list(const std::vector<Literal>& items) {
  return write_literal({.kind = Literal::Kind::list, .items = items});
}

Json write_value(const ValueDoc& value) {
  Json out;
  out["name"] = value.name;
  switch (value.kind) {
    case ValueKind::none:
      out["none"] = true;
      break;
    case ValueKind::sym_int:
      out["int"] = write_literal(value.scalar);
      break;
    case ValueKind::sym_float:
      out["float"] = write_literal(value.scalar);
      break;
    case ValueKind::sym_bool:
      out["bool"] = write_literal(value.scalar);
      break;
    case ValueKind::tensor:
      if (!value.defined) {
        out["undefined"] = true;
        break;
      }
      out["dtype"] = name_of(value.dtype);
      out["sizes"] = write_list(value.sizes);
      if (value.strides) out["strides"] = write_list(*value.strides);
      if (value.offset.kind != Literal::Kind::integer || value.offset.integer != 0)
        out["offset"] = write_literal(value.offset);
      if (!(value.device == kCPU)) out["device"] = to_text(value.device);
      break;
  }
  for (std::string_view flag : flags_of(value)) out["flags"].push_back(flag);
  if (value.alias_group) out["alias"] = value.alias_group;
  return out;
}

Json write_symbol(const SymbolDoc& symbol) {
  Json out;
  out["name"] = symbol.name;
  out["kind"] = symbol.kind == ExprKind::real      ? "float"
                : symbol.kind == ExprKind::boolean ? "bool"
                                                   : "int";
  if (symbol.size_like) out["size_like"] = true;
  out["lower"] = symbol.range.lo == Range::no_lower ? Json() : Json(symbol.range.lo);
  out["upper"] = symbol.range.hi == Range::no_upper ? Json() : Json(symbol.range.hi);
  if (symbol.hint)
    out["hint"] = symbol.hint->kind == ExprKind::real ? write_double(symbol.hint->real())
                                                      : Json(symbol.hint->integer());
  if (!symbol.from) return out;
  out["from"]["value"] = *symbol.from;
  if (symbol.dim >= 0) out["from"][symbol.stride ? "stride" : "size"] = symbol.dim;
  return out;
}

Json write_args(const StatementDoc& node) {
  const OpEntry& op = entry_of(op_id(node.op));
  Json args = Json::object();
  size_t position = 0;
  for (const auto& [name, literal] : node.args)
    args[name.empty() ? op.schema.args[position++].name : name] = write_literal(literal);
  return args;
}

Json write_statement(const StatementDoc& s) {
  if (s.kind == StatementDoc::Kind::input) return {{"input", write_value(s.results[0])}};
  Json out;
  if (s.kind == StatementDoc::Kind::constant) {
    out["constant"] = write_value(s.results[0]);
    if (s.content == StatementDoc::Content::elements)
      out["elements"] = write_list(s.elements);
    else
      out[s.content == StatementDoc::Content::bytes ? "bytes" : "sha256"] = s.bytes;
    return out;
  }
  out["op"] = s.op;
  out["args"] = write_args(s);
  out["results"] = Json::array();
  for (const ValueDoc& v : s.results) out["results"].push_back(write_value(v));
  if (!s.name.empty()) out["name"] = s.name;
  if (!s.module_path.empty()) out["module"] = s.module_path;
  if (!s.where.file.empty()) out["file"] = s.where.file;
  if (s.where.line) out["line"] = s.where.line;
  if (!s.where.function.empty()) out["function"] = s.where.function;
  if (s.seq_nr >= 0) out["seq"] = s.seq_nr;
  for (const auto& [key, fact] : s.facts) out["facts"][key] = fact;
  return out;
}

Json write_graph(const GraphDoc& doc) {
  Json out;
  out["name"] = doc.name;
  for (const char* part : {"symbols", "assume", "graphs", "body", "outputs"})
    out[part] = Json::array();
  for (const SymbolDoc& symbol : doc.symbols) out["symbols"].push_back(write_symbol(symbol));
  for (const auto& [at, condition] : doc.assumptions) out["assume"].push_back(condition);
  for (const GraphDoc& sub : doc.graphs) out["graphs"].push_back(write_graph(sub));
  for (const StatementDoc& statement : doc.body) out["body"].push_back(write_statement(statement));
  for (const Literal& item : doc.outputs)
    out["outputs"].push_back(item.kind == Literal::Kind::none ? Json() : Json(item.text));
  return out;
}

// A line for each entry of the graph's lists, so that two graphs can be compared line by line.
std::string lines_of(const Json& graph) {
  auto compact = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string out = "{";
  for (const auto& [key, part] : graph.items()) {
    out += (out.size() > 1 ? ",\n \"" : "\"") + key + "\": ";
    if (!part.is_array() || part.empty() || key == "outputs") {
      out += compact(part);
      continue;
    }
    for (size_t i = 0; i < part.size(); ++i) out += (i ? ",\n  " : "[\n  ") + compact(part[i]);
    out += "\n ]";
  }
  return out + "}";
}

// ---- reading

[[noreturn]] void refuse(std::string_view what) { fail_at({}, what); }

void check_name(const std::string& name, std::string_view what) {
  if (name.empty() || name.size() > graph_limits::name_bytes)
    refuse(message("{} has 1 to {} bytes, found {}", what, graph_limits::name_bytes, name.size()));
}

const Json& member(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key))
    refuse(message("an object needs the key \"{}\"", key));
  return object[key];
}

std::string read_text(const Json& json, std::string_view what) {
  if (!json.is_string()) refuse(message("expected a string as {}", what));
  auto text = json.get<std::string>();
  if (text.size() > graph_limits::name_bytes) refuse(message("{} is too long", what));
  return text;
}

int64_t read_int(const Json& json, std::string_view what, int64_t lowest, int64_t highest) {
  bool fits = json.is_number_integer() &&
              !(json.is_number_unsigned() &&
                json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  int64_t value = fits ? json.get<int64_t>() : 0;
  if (!fits || value < lowest || value > highest)
    refuse(message("expected an integer from {} to {} as {}", lowest, highest, what));
  return value;
}

const Json& read_array(const Json& json, std::string_view what,
                       size_t limit = graph_limits::list_items) {
  if (!json.is_array()) refuse(message("expected a list as {}", what));
  if (json.size() > limit)
    refuse(message("{} has {} entries, the limit is {}", what, json.size(), limit));
  return json;
}

double read_float_word(const Json& json) {
  std::string text = read_text(json, "a float");
  double inf = std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "-inf") return text == "inf" ? inf : -inf;
  refuse("a float in an object is \"inf\", \"-inf\" or \"nan\"");
}

Literal read_reference(const Json& json) {
  using Kind = Literal::Kind;
  if (json.size() != 1)
    refuse("an object among the arguments has one key: value, graph, expr, word, float");
  const std::string& key = json.begin().key();
  if (key == "float")
    return {.kind = Kind::floating, .floating = read_float_word(json.begin().value())};
  if (key == "opaque") return {.kind = Kind::opaque};
  Kind kind = key == "value"   ? Kind::value
              : key == "graph" ? Kind::graph
              : key == "expr"  ? Kind::expression
                               : Kind::word;
  if (kind == Kind::word && key != "word") refuse(message("unknown kind of argument \"{}\"", key));
  return Literal::of_text(kind, read_text(json.begin().value(), "an argument"));
}

Literal read_literal(const Json& json) {
  using Kind = Literal::Kind;
  if (json.is_null()) return {};
  if (json.is_boolean()) return {.kind = Kind::boolean, .integer = json.get<bool>()};
  if (json.is_number_float()) return {.kind = Kind::floating, .floating = json.get<double>()};
  if (json.is_number())
    return Literal::of_int(read_int(json, "an argument", std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()));
  if (json.is_string()) return Literal::of_text(Kind::text, read_text(json, "an argument"));
  if (json.is_object()) return read_reference(json);
  Literal list{.kind = Kind::list};
  for (const Json& item : read_array(json, "an argument")) list.items.push_back(read_literal(item));
  return list;
}

std::vector<Literal> read_list(const Json& json, std::string_view what, size_t limit) {
  read_array(json, what, limit);
  return read_literal(json).items;
}

void read_flags(const Json& json, ValueDoc& v) {
  for (const Json& flag : read_array(json, "flags")) {
    std::string name = read_text(flag, "a flag");
    if (!set_flag(v, name)) refuse(message("unknown flag \"{}\"", name));
  }
}

void read_tensor(const Json& json, ValueDoc& value) {
  std::string dtype = read_text(member(json, "dtype"), "a dtype");
  auto known = parse_dtype(dtype);
  if (!known || name_of(*known) != dtype) refuse(message("there is no dtype {}", dtype));
  value.dtype = *known;
  value.sizes = read_list(member(json, "sizes"), "sizes", graph_limits::dims);
  if (json.contains("strides"))
    value.strides = read_list(json["strides"], "strides", graph_limits::dims);
  if (json.contains("offset")) value.offset = read_literal(json["offset"]);
  if (!json.contains("device")) return;
  auto device = parse_device(read_text(json["device"], "a device"));
  if (!device) refuse("expected a device such as cpu, meta or cuda:0");
  value.device = *device;
}

ValueDoc read_value(const Json& json) {
  ValueDoc value;
  value.name = read_text(member(json, "name"), "a name");
  check_name(value.name, "a name");
  if (json.contains("none"))
    value.kind = ValueKind::none;
  else if (json.contains("undefined"))
    value.defined = false;
  else if (json.contains("int"))
    value.kind = ValueKind::sym_int, value.scalar = read_literal(json["int"]);
  else if (json.contains("float"))
    value.kind = ValueKind::sym_float, value.scalar = read_literal(json["float"]);
  else if (json.contains("bool"))
    value.kind = ValueKind::sym_bool, value.scalar = read_literal(json["bool"]);
  else
    read_tensor(json, value);
  if (json.contains("flags")) read_flags(json["flags"], value);
  if (json.contains("alias"))
    value.alias_group = static_cast<uint32_t>(
        read_int(json["alias"], "an alias group", 1, std::numeric_limits<int32_t>::max()));
  return value;
}

SymValue read_hint(const Json& json, ExprKind kind) {
  if (kind != ExprKind::real) {
    int64_t value = read_int(json, "a hint", Range::no_lower, Range::no_upper);
    return kind == ExprKind::boolean ? SymValue::of_bool(value != 0) : SymValue::of_int(value);
  }
  if (json.is_number()) return SymValue::of_real(json.get<double>());
  return SymValue::of_real(read_float_word(member(json, "float")));
}

SymbolDoc read_symbol(const Json& json) {
  SymbolDoc symbol;
  symbol.name = read_text(member(json, "name"), "a symbol's name");
  std::string kind = read_text(member(json, "kind"), "a symbol's kind");
  if (kind == "float")
    symbol.kind = ExprKind::real;
  else if (kind == "bool")
    symbol.kind = ExprKind::boolean;
  else if (kind != "int")
    refuse(message("unknown kind of symbol \"{}\"", kind));
  symbol.size_like = json.contains("size_like") && json["size_like"] == true;
  auto bound = [&](const char* key, int64_t open) {
    bool absent = !json.contains(key) || json[key].is_null();
    return absent ? open : read_int(json[key], "a bound", Range::no_lower, Range::no_upper);
  };
  symbol.range = {bound("lower", Range::no_lower), bound("upper", Range::no_upper)};
  if (json.contains("hint")) symbol.hint = read_hint(json["hint"], symbol.kind);
  if (!json.contains("from")) return symbol;
  const Json& from = json["from"];
  symbol.from = read_text(member(from, "value"), "a value");
  symbol.stride = from.contains("stride");
  const char* key = symbol.stride ? "stride" : "size";
  if (from.contains(key))
    symbol.dim = static_cast<int32_t>(
        read_int(from[key], "a dimension", 0, int64_t{graph_limits::dims} - 1));
  return symbol;
}

StatementDoc read_constant(const Json& json) {
  StatementDoc statement;
  statement.kind = StatementDoc::Kind::constant;
  statement.results.push_back(read_value(json["constant"]));
  if (json.contains("elements")) {
    statement.elements = read_list(json["elements"], "elements", graph_limits::list_items);
    return statement;
  }
  bool is_bytes = json.contains("bytes");
  const Json& bytes = is_bytes ? json["bytes"] : member(json, "sha256");
  if (!bytes.is_string()) refuse("expected hexadecimal digits as the elements of a constant");
  statement.content = is_bytes ? StatementDoc::Content::bytes : StatementDoc::Content::sha256;
  statement.bytes = bytes.get<std::string>();
  return statement;
}

void read_attributes(const Json& json, StatementDoc& node) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  auto text = [&](const char* key, std::string& to) {
    if (json.contains(key)) to = read_text(json[key], key);
  };
  text("name", node.name);
  text("module", node.module_path);
  text("file", node.where.file);
  text("function", node.where.function);
  if (json.contains("line"))
    node.where.line = static_cast<int32_t>(read_int(json["line"], "a line", 0, most));
  if (json.contains("seq"))
    node.seq_nr = static_cast<int32_t>(read_int(json["seq"], "seq", 0, most));
  if (!json.contains("facts")) return;
  if (!json["facts"].is_object()) refuse("expected an object as facts");
  for (const auto& [key, fact] : json["facts"].items()) node.facts[key] = read_text(fact, "a fact");
}

StatementDoc read_statement(const Json& json) {
  if (!json.is_object()) refuse("expected objects in the body");
  StatementDoc statement;
  if (json.contains("constant")) return read_constant(json);
  if (json.contains("input")) {
    statement.kind = StatementDoc::Kind::input;
    statement.results.push_back(read_value(json["input"]));
    return statement;
  }
  statement.op = read_text(member(json, "op"), "an op");
  const Json& args = member(json, "args");
  if (!args.is_object()) refuse("expected an object as args");
  for (const auto& [key, arg] : args.items()) {
    check_name(key, "an argument's name");
    statement.args.emplace_back(key, read_literal(arg));
  }
  for (const Json& result : read_array(member(json, "results"), "results"))
    statement.results.push_back(read_value(result));
  read_attributes(json, statement);
  return statement;
}

GraphDoc read_graph(const Json& json, size_t depth) {
  if (depth > graph_limits::graph_depth)
    refuse(message("graphs are nested more than {} deep", graph_limits::graph_depth));
  GraphDoc doc;
  doc.name = read_text(member(json, "name"), "a graph's name");
  for (const Json& symbol : read_array(member(json, "symbols"), "symbols"))
    doc.symbols.push_back(read_symbol(symbol));
  for (const Json& condition : read_array(member(json, "assume"), "assume"))
    doc.assumptions.emplace_back(TextPosition{}, read_text(condition, "an assumption"));
  for (const Json& sub : read_array(member(json, "graphs"), "graphs"))
    doc.graphs.push_back(read_graph(sub, depth + 1));
  for (const Json& statement : read_array(member(json, "body"), "body", graph_limits::statements))
    doc.body.push_back(read_statement(statement));
  for (const Json& output : read_array(member(json, "outputs"), "outputs"))
    doc.outputs.push_back(
        output.is_null() ? Literal{}
                         : Literal::of_text(Literal::Kind::value, read_text(output, "an output")));
  return doc;
}

// The parser of the library keeps its own stack on the heap, but values are built and walked by
// recursion, so depth is bounded while parsing.
Json parse_bounded(std::string_view text) {
  constexpr int deepest = 3 * static_cast<int>(graph_limits::graph_depth) +
                          static_cast<int>(graph_limits::bracket_depth);
  if (text.size() > graph_limits::text_bytes)
    refuse(
        message("the text has {} bytes, the limit is {}", text.size(), graph_limits::text_bytes));
  auto check_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > deepest) refuse("the JSON is nested too deep");
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::exception& error) {
    refuse(message("no valid JSON: {}", error.what()));
  }
}

}  // namespace

std::string to_json(const Graph& graph, const PrintOptions& options) {
  std::string body = lines_of(write_graph(describe_graph(graph, options)));
  return "{\"format\": \"tng\", \"version\": 1, \"graph\":\n" + body + "}\n";
}

std::shared_ptr<Graph> parse_graph_json(std::string_view text, const ParseOptions& options) {
  Json json = parse_bounded(text);
  if (read_text(member(json, "format"), "the format") != "tng") refuse("the format is not \"tng\"");
  if (member(json, "version") != 1) refuse("this program reads version 1 of the graph text");
  return build_graph(read_graph(member(json, "graph"), 1), options);
}

}  // namespace tenon
