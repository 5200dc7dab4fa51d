// The document of a graph: its text as data, between graphs on one side and text or JSON on the
// other.
//
//     Graph --describe--> GraphDoc --print----> text
//                                  --to_json--> JSON
//
//     text  --parse-----> GraphDoc --build----> Graph
//     JSON  --read------> GraphDoc
//
// Names, expressions and words are text here; what they mean is settled by `build_graph`, which
// checks everything, so that readers of text and of JSON only have to read. docs/graph-text.md is
// the description of the form.
#pragma once

#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "graph/graph.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// Bounds on what is read; texts are never trusted.
namespace graph_limits {
inline constexpr size_t text_bytes = size_t{256} << 20;
inline constexpr size_t statements = size_t{1} << 24;
inline constexpr size_t list_items = size_t{1} << 20;
inline constexpr size_t dims = 64;
inline constexpr size_t name_bytes = size_t{64} << 10;
inline constexpr size_t expression_bytes = size_t{16} << 10;
inline constexpr size_t graph_depth = 16;
inline constexpr size_t bracket_depth = 64;
inline constexpr int64_t constant_bytes = int64_t{64} << 20;
}  // namespace graph_limits

/// Where something stands in the text, from 1; line 0 means that nobody knows.
struct TextPosition {
  uint32_t line = 0, column = 0;
};

/// Throws UserError bad_file, "line 3, column 7: ..." in front.
[[noreturn]] void fail_at(TextPosition at, std::string_view what);

/// An argument, a size or an element as it is written.
struct Literal {
  enum class Kind : uint8_t {
    none,
    value,
    graph,
    integer,
    floating,
    boolean,
    text,
    word,        ///< a dtype, layout, memory format or device
    expression,  ///< over symbols; readers may use it for words too
    opaque,
    list,
  };
  Kind kind = Kind::none;
  TextPosition at;
  int64_t integer = 0;  ///< of integer and boolean
  double floating = 0;
  std::string text;  ///< of value, graph, text, word and expression
  std::vector<Literal> items;

  static Literal of_int(int64_t v) { return {.kind = Kind::integer, .integer = v}; }
  static Literal of_text(Kind kind, std::string t) { return {.kind = kind, .text = std::move(t)}; }
};

/// A value where it is defined: name, type and properties.
struct ValueDoc {
  TextPosition at;
  std::string name;
  ValueKind kind = ValueKind::tensor;
  bool defined = true;
  Dtype dtype = Dtype::f32;
  std::vector<Literal> sizes;
  std::optional<std::vector<Literal>> strides;  ///< absent: row-major
  Literal offset = Literal::of_int(0);
  Device device;
  bool wrapped = false;
  bool internal = false;  ///< an output that is not the user's
  ValueFlags flags;
  uint32_t alias_group = 0;
  Literal scalar;  ///< of symbolic numbers
};

/// The words for flags, in the order in which they are written; and the flag of a word, false if it
/// is none.
std::vector<std::string_view> flags_of(const ValueDoc& value);
bool set_flag(ValueDoc& value, std::string_view name);

struct SymbolDoc {
  TextPosition at;
  std::string name;
  ExprKind kind = ExprKind::integer;
  bool size_like = false;
  Range range;
  std::optional<SymValue> hint;
  std::optional<std::string> from;  ///< the value that it is read from
  int32_t dim = -1;
  bool stride = false;
};

/// One input, constant or node.
struct StatementDoc {
  enum class Kind : uint8_t { input, constant, node };
  enum class Content : uint8_t { elements, bytes, sha256 };
  Kind kind = Kind::node;
  TextPosition at;
  std::vector<ValueDoc> results;
  Content content = Content::elements;
  std::vector<Literal> elements;
  std::string bytes;  ///< hexadecimal: elements, or the digest
  std::string op;
  std::vector<std::pair<std::string, Literal>> args;  ///< positional ones have no name
  std::string name, module_path;
  SourceLocation where;
  int32_t seq_nr = -1;
  std::map<std::string, std::string> facts;
};

struct GraphDoc {
  TextPosition at;
  std::string name;
  std::vector<SymbolDoc> symbols;
  std::vector<std::pair<TextPosition, std::string>> assumptions;
  std::vector<GraphDoc> graphs;
  std::vector<StatementDoc> body;
  std::vector<Literal> outputs;  ///< values and none
};

struct PrintOptions {
  bool canonical = false;       ///< renumbered, without names and locations, with all arguments
  bool locations = true;        ///< node names, module paths, source lines, sequence numbers
  size_t inline_elements = 16;  ///< larger constants are written as their digest
};

/// What a reader knows about a constant whose elements are not in the text.
struct MissingConstant {
  std::string name;
  TensorMeta meta;
  std::string sha256;  ///< hexadecimal, of the elements in row-major order
};

struct ParseOptions {
  /// Gives the elements of constants that the text names only by digest; without it they are
  /// refused.
  std::function<Tensor(const MissingConstant&)> constant;
  bool check_digests = true;
  /// Results are held against the ops' meta functions, see admit_graph(); off for tools that look
  /// for such differences themselves.
  bool check_metadata = true;
  std::shared_ptr<ShapeEnv> shape_env;  ///< where symbols are declared; null: a new one
};

GraphDoc describe_graph(const Graph& graph, const PrintOptions& options);
StatementDoc describe_node(const Graph& graph, NodeId node);
/// The constants in the order in which the text has them, which is that of a graph read from it.
std::vector<ValueId> constants_as_written(const Graph& graph);
/// Throws UserError: bad_file with the position, or unsupported with all unknown ops.
std::shared_ptr<Graph> build_graph(const GraphDoc& doc, const ParseOptions& options);

}  // namespace tenon
