// Arguments, tensor descriptions and symbols of models/MODEL.json.
//
// An argument is a union: an object whose only member's name tells the kind. Lists of any kind
// become one kind here, `list`, with elements of their own kinds, so that `[s0, 3]` and `[2, 3]`
// differ only in their elements.
#include <algorithm>
#include <array>
#include <cmath>

#include "formats/pt2/pt2_parts.h"

namespace tenon::formats::pt2 {

namespace {

// The schema's numbers, one more than c10's for the common types.
constexpr std::array<std::optional<Dtype>, 14> common_dtypes = {
    std::nullopt, Dtype::u8,  Dtype::i8,  Dtype::i16, Dtype::i32,  Dtype::i64,   Dtype::f16,
    Dtype::f32,   Dtype::f64, Dtype::c32, Dtype::c64, Dtype::c128, Dtype::bool_, Dtype::bf16};

// Defined by the schema, but not dtypes of Tenon.
std::string_view foreign_dtype(int64_t number) {
  switch (number) {
    case 28:
      return "uint16";
    case 31:
      return "float8_e4m3fnuz";
    case 32:
      return "float8_e5m2fnuz";
    case 33:
      return "float8_e8m0fnu";
    case 34:
      return "uint32";
    case 35:
      return "uint64";
    default:
      return {};
  }
}

}  // namespace

const std::string& read_name(const JsonView& view) {
  const std::string& name = view.text();
  check(name.find('\0') == name.npos, "{}: the name \"{}\" has a NUL inside", view,
        printable(name));
  return name;
}

Dtype read_dtype(const JsonView& view) {
  const int64_t number = view.integer();
  if (number > 0 && number < static_cast<int64_t>(common_dtypes.size()))
    return *common_dtypes[static_cast<size_t>(number)];
  if (number == 29) return Dtype::f8e4m3fn;
  if (number == 30) return Dtype::f8e5m2;
  std::string_view foreign = foreign_dtype(number);
  require(foreign.empty(), ErrorCode::unsupported, "{}: dtype {} is not supported", view, foreign);
  fail(ErrorCode::bad_file, "{}: {} is not the number of a dtype", view, number);
}

Pt2Device read_device(const JsonView& view) {
  Pt2Device device{.type = read_name(view.field("type"))};
  if (auto index = view.optional_field("index")) {
    device.index = index->integer();
    check(device.index >= -1 && device.index < 1 << 16, "{}: {} is not the index of a device",
          *index, device.index);
  }
  return device;
}

namespace {

const Expr* read_expression(const JsonView& text, Pt2Expressions& expressions) {
  try {
    return expressions.read(text.text());
  } catch (const UserError& error) {
    fail(ErrorCode::bad_file, "{}: {}", text, error.what());
  }
}

const Expr* read_number(const JsonView& view) {
  auto [tag, value] = view.only_member();
  if (tag == "as_int") return intern_integer(value.integer());
  if (tag == "as_float") return intern_real(value.real());
  if (tag == "as_bool") return intern_boolean(value.boolean());
  fail(ErrorCode::bad_file, "{}: expected as_int, as_float or as_bool, found {}", view,
       printable(tag));
}

void check_layout(const JsonView& view) {
  constexpr int64_t strided = 7;
  const int64_t layout = view.integer();
  check(layout >= 0 && layout <= strided, "{}: {} is not the number of a layout", view, layout);
  constexpr std::string_view names[] = {"unknown",    "sparse_coo", "sparse_csr", "sparse_csc",
                                        "sparse_bsr", "sparse_bsc", "_mkldnn"};
  require(layout == strided, ErrorCode::unsupported,
          "{}: layout {} is not supported; convert the tensor with to_dense() before the export",
          view, names[std::min<int64_t>(layout, strided - 1)]);
}

std::vector<Pt2Sym> read_syms(const JsonView& view, Pt2Expressions& expressions) {
  std::vector<Pt2Sym> syms;
  for (const JsonView& item : view.items()) syms.push_back(read_sym(item, expressions));
  check(syms.size() <= limits::tensor_rank, "{}: expected at most {} dimensions, found {}", view,
        limits::tensor_rank, syms.size());
  return syms;
}

}  // namespace

Pt2Sym read_sym(const JsonView& view, Pt2Expressions& expressions) {
  auto [tag, value] = view.only_member();
  if (tag != "as_expr") return {.expr = read_number(view), .hint = {}};
  Pt2Sym sym{.expr = read_expression(value.field("expr_str"), expressions), .hint = {}};
  if (auto hint = value.optional_field("hint")) {
    const Expr* number = read_number(*hint);
    sym.hint = SymValue{number->kind, number->payload};
  }
  return sym;
}

Pt2TensorMeta read_tensor_meta(const JsonView& view, Pt2Expressions& expressions) {
  Pt2TensorMeta meta;
  meta.dtype = read_dtype(view.field("dtype"));
  meta.sizes = read_syms(view.field("sizes"), expressions);
  meta.strides = read_syms(view.field("strides"), expressions);
  meta.storage_offset = read_sym(view.field("storage_offset"), expressions);
  meta.requires_grad = view.field("requires_grad").boolean();
  meta.device = read_device(view.field("device"));
  check_layout(view.field("layout"));
  check(meta.sizes.size() == meta.strides.size(), "{}: expected as many strides as sizes", view);
  auto is_count = [](const Pt2Sym& sym) {
    return sym.is_symbolic() || (sym.expr->kind == ExprKind::integer && sym.expr->integer() >= 0);
  };
  std::vector<int64_t> plain_sizes;
  for (const Pt2Sym& size : meta.sizes) {
    check(is_count(size), "{}: expected sizes of 0 or more, found {}", view, size);
    if (!size.is_symbolic()) plain_sizes.push_back(size.expr->integer());
  }
  checked_numel(plain_sizes, meta.dtype, view);
  for (const Pt2Sym& stride : meta.strides)
    check(is_count(stride), "{}: expected strides of 0 or more, found {}", view, stride);
  check(is_count(meta.storage_offset), "{}: expected a storage offset of 0 or more, found {}", view,
        meta.storage_offset);
  return meta;
}

namespace {

Pt2Argument make_tensor(const JsonView& view) {
  return {.kind = Pt2Kind::tensor, .text = read_name(view.field("name"))};
}
Pt2Argument make_integer(const JsonView& view) {
  return {.kind = Pt2Kind::integer, .integer = view.integer()};
}
Pt2Argument make_real(const JsonView& view) { return {.kind = Pt2Kind::real, .real = view.real()}; }
Pt2Argument make_boolean(const JsonView& view) {
  return {.kind = Pt2Kind::boolean, .boolean = view.boolean()};
}
Pt2Argument make_string(const JsonView& view) {
  return {.kind = Pt2Kind::string, .text = view.text()};
}

Pt2Argument make_optional_tensor(const JsonView& view) {
  auto [tag, value] = view.only_member();
  if (tag == "as_none") return {};
  check(tag == "as_tensor", "{}: expected as_tensor or as_none, found {}", view, printable(tag));
  return make_tensor(value);
}

// as_name, or a number under `number_tag`, whose kind the reader knows.
template <Pt2SymbolType type>
Pt2Argument make_symbol(const JsonView& view) {
  auto [tag, value] = view.only_member();
  if (tag == "as_name")
    return {.kind = Pt2Kind::symbol, .symbol_type = type, .text = read_name(value)};
  constexpr std::string_view number_tags[] = {"as_int", "as_float", "as_bool"};
  std::string_view wanted = number_tags[static_cast<size_t>(type)];
  check(tag == wanted, "{}: expected as_name or {}, found {}", view, wanted, printable(tag));
  if constexpr (type == Pt2SymbolType::integer) return make_integer(value);
  if constexpr (type == Pt2SymbolType::real) return make_real(value);
  if constexpr (type == Pt2SymbolType::boolean) return make_boolean(value);
}

Pt2Argument make_dtype(const JsonView& view) {
  return {.kind = Pt2Kind::dtype, .dtype = read_dtype(view)};
}
Pt2Argument make_layout(const JsonView& view) {
  check_layout(view);
  return {.kind = Pt2Kind::layout};
}
Pt2Argument make_memory_format(const JsonView& view) {
  constexpr MemoryFormat formats[] = {MemoryFormat::contiguous, MemoryFormat::channels_last,
                                      MemoryFormat::channels_last_3d, MemoryFormat::preserve};
  const int64_t number = view.integer();
  check(number >= 1 && number <= 4, "{}: {} is not the number of a memory format", view, number);
  return {.kind = Pt2Kind::memory_format, .memory_format = formats[number - 1]};
}
Pt2Argument make_device(const JsonView& view) {
  return {.kind = Pt2Kind::device, .device = read_device(view)};
}
Pt2Argument make_complex(const JsonView& view) {
  return {.kind = Pt2Kind::complex,
          .real = view.field("real").real(),
          .imaginary = view.field("imag").real()};
}
Pt2Argument make_operator(const JsonView& view) {
  return {.kind = Pt2Kind::op, .text = read_name(view)};
}

using Maker = Pt2Argument (*)(const JsonView&);

struct Row {
  std::string_view tag;
  Pt2Kind kind;  // of one element
  Maker make;
  int nesting;  // 0: one value, 1: a list, 2: a list of lists
};

constexpr Row rows[] = {
    {"as_tensor", Pt2Kind::tensor, make_tensor, 0},
    {"as_tensors", Pt2Kind::tensor, make_tensor, 1},
    {"as_nested_tensors", Pt2Kind::tensor, make_tensor, 2},
    {"as_optional_tensor", Pt2Kind::tensor, make_optional_tensor, 0},
    {"as_optional_tensors", Pt2Kind::tensor, make_optional_tensor, 1},
    {"as_int", Pt2Kind::integer, make_integer, 0},
    {"as_ints", Pt2Kind::integer, make_integer, 1},
    {"as_int_lists", Pt2Kind::integer, make_integer, 2},
    {"as_float", Pt2Kind::real, make_real, 0},
    {"as_floats", Pt2Kind::real, make_real, 1},
    {"as_float_lists", Pt2Kind::real, make_real, 2},
    {"as_bool", Pt2Kind::boolean, make_boolean, 0},
    {"as_bools", Pt2Kind::boolean, make_boolean, 1},
    {"as_string", Pt2Kind::string, make_string, 0},
    {"as_strings", Pt2Kind::string, make_string, 1},
    {"as_sym_int", Pt2Kind::integer, make_symbol<Pt2SymbolType::integer>, 0},
    {"as_sym_ints", Pt2Kind::integer, make_symbol<Pt2SymbolType::integer>, 1},
    {"as_sym_float", Pt2Kind::real, make_symbol<Pt2SymbolType::real>, 0},
    {"as_sym_floats", Pt2Kind::real, make_symbol<Pt2SymbolType::real>, 1},
    {"as_sym_bool", Pt2Kind::boolean, make_symbol<Pt2SymbolType::boolean>, 0},
    {"as_sym_bools", Pt2Kind::boolean, make_symbol<Pt2SymbolType::boolean>, 1},
    {"as_scalar_type", Pt2Kind::dtype, make_dtype, 0},
    {"as_layout", Pt2Kind::layout, make_layout, 0},
    {"as_memory_format", Pt2Kind::memory_format, make_memory_format, 0},
    {"as_device", Pt2Kind::device, make_device, 0},
    {"as_complex", Pt2Kind::complex, make_complex, 0},
    {"as_operator", Pt2Kind::op, make_operator, 0},
};

Pt2Argument make_list(const JsonView& view, const Row& row, int nesting) {
  if (nesting == 0) return row.make(view);
  Pt2Argument list{.kind = Pt2Kind::list, .element = nesting == 1 ? row.kind : Pt2Kind::list};
  for (const JsonView& item : view.items()) list.items.push_back(make_list(item, row, nesting - 1));
  return list;
}

Pt2Argument make_graph(const JsonView& view, Pt2Expressions& expressions) {
  Pt2Argument argument{.kind = Pt2Kind::graph, .text = read_name(view.field("name"))};
  argument.graph = std::make_shared<const Pt2Graph>(read_graph(view.field("graph"), expressions));
  return argument;
}

Pt2Argument make_dict(const JsonView& view, Pt2Expressions& expressions) {
  Pt2Argument dict{.kind = Pt2Kind::dict};
  for (const auto& [key, value] : view.members()) {
    dict.keys.emplace_back(key);
    dict.items.push_back(read_argument(value, expressions));
  }
  return dict;
}

}  // namespace

Pt2Argument read_argument(const JsonView& view, Pt2Expressions& expressions) {
  auto [tag, value] = view.only_member();
  if (tag == "as_none") return {};
  if (tag == "as_graph") return make_graph(value, expressions);
  if (tag == "as_string_to_argument") return make_dict(value, expressions);
  require(tag != "as_custom_obj", ErrorCode::unsupported,
          "{}: custom objects are not supported, found one of class {}", view,
          tag == "as_custom_obj" ? printable(value.field("class_fqn").text()) : std::string());
  const Row* row = std::ranges::find(rows, tag, &Row::tag);
  check(row != std::end(rows), "{}: unknown kind of argument \"{}\"", view, printable(tag));
  return make_list(value, *row, row->nesting);
}

}  // namespace tenon::formats::pt2
