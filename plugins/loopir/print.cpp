// The loop IR as text.
#include "kernel.h"

#include <bit>
#include <sstream>

namespace loopir {

namespace {

const char* const primitive_names[] = {
    "const",    "cast",     "neg",    "abs",     "sign",  "add",   "sub",   "mul",      "div",
    "truncdiv", "floordiv", "fmod",   "mod",     "min",   "max",   "pow",   "copysign", "atan2",
    "and",      "or",       "xor",    "not",     "shl",   "shr",   "eq",    "ne",       "lt",
    "le",       "gt",       "ge",     "select",  "sqrt",  "rsqrt", "exp",   "exp2",     "expm1",
    "log",      "log2",     "log10",  "log1p",   "sin",   "cos",   "tan",   "asin",     "acos",
    "atan",     "sinh",     "cosh",   "tanh",    "asinh", "acosh", "atanh", "sigmoid",  "erf",
    "erfc",     "erfinv",   "lgamma", "digamma", "floor", "ceil",  "trunc", "round"};
static_assert(std::size(primitive_names) == TN_F_COUNT);

const char* const fold_names[] = {"",    "sum", "product", "min",    "max",
                                  "any", "all", "argmin",  "argmax", "logsumexp"};
const char* const store_names[] = {"=", "+=", "*=", "min=", "max="};

std::string variable_list(const Expressions& x, const Ids& variables) {
  std::string out;
  for (Id v : variables)
    out += (out.empty() ? "" : ", ") + x.text_of_index(v) + " < " + x.text_of_index(x.extent_of(v));
  return "[" + out + "]";
}

std::string joined(const std::string& a, const char* by, const std::string& b) {
  return a.empty() ? b : a + by + b;
}

}  // namespace

std::string Expressions::text_of_index(Id i) const {
  const IndexNode& n = index_at(i);
  std::string out;
  switch (n.kind) {
    case IndexKind::constant:
      return std::to_string(n.number);
    case IndexKind::symbol:
      return symbols[size_t(n.number)].name;
    case IndexKind::variable:
      return "i" + std::to_string(n.number);
    case IndexKind::value:
      return "[" + text_of(Id(n.number)) + "]";
    case IndexKind::sum:
      for (Id o : n.operands) out = joined(out, " + ", text_of_index(o));
      return n.number ? out + " + " + std::to_string(n.number) : out;
    case IndexKind::product:
      if (n.number != 1) out = std::to_string(n.number);
      for (Id o : n.operands) out = joined(out, "*", text_of_index(o));
      return out;
    default:
      break;
  }
  const char* name = n.kind == IndexKind::floordiv ? "div"
                     : n.kind == IndexKind::mod    ? "mod"
                     : n.kind == IndexKind::min    ? "min"
                                                   : "max";
  return std::string(name) + "(" + text_of_index(n.operands[0]) + ", " +
         text_of_index(n.operands[1]) + ")";
}

std::string Expressions::text_of(Id v) const {
  const ValueNode& n = value_at(v);
  switch (n.code) {
    case value_constant: {
      uint64_t bits = n.a | uint64_t{n.b} << 32;
      std::ostringstream out;
      if (n.dtype == TN_F32 || n.dtype == TN_F64 || n.dtype == TN_F16 || n.dtype == TN_BF16)
        out << std::bit_cast<double>(bits);
      else
        out << int64_t(bits);
      return out.str();
    }
    case value_load: {
      std::string at = "b" + std::to_string(n.a) + "[" + text_of_index(n.b) + "]";
      return n.c == none ? at : "(" + text_of(n.c) + " ? " + at + " : 0)";
    }
    case value_index:
      return text_of_index(n.a);
    case value_checked:
      return "check(" + text_of(n.a) + ", " + text_of_index(n.b) + ")";
    case value_folded:
      return "fold" + std::to_string(n.a);
    default:
      break;
  }
  std::string out = std::string(primitive_names[n.code]) + "(" + text_of(n.a);
  for (Id o : {n.b, n.c})
    if (o != none) out += ", " + text_of(o);
  return out + ")";
}

namespace {

std::string text_of_view(const Expressions& x, const View& v) {
  std::string sizes, strides;
  for (Id s : v.sizes) sizes = joined(sizes, ", ", x.text_of_index(s));
  for (Id s : v.strides) strides = joined(strides, ", ", x.text_of_index(s));
  return "b" + std::to_string(v.buffer) + "(" + sizes + " by " + strides + ")";
}

// Values are trees in the text and graphs in memory: a long one is cut.
std::string shortened(std::string text) {
  constexpr size_t most = 400;
  if (text.size() > most) text = text.substr(0, most) + " ...";
  return text;
}

std::string text_of_kernel(const Expressions& x, const Kernel& k) {
  std::string out = "kernel " + k.name + " " + variable_list(x, k.outer) + "\n";
  for (const Stage& stage : k.stages) {
    out += "  for " + variable_list(x, stage.inner) + "\n";
    for (const Statement& s : stage.statements) {
      out += "    ";
      if (s.folded != none) out += "fold" + std::to_string(s.folded) + " = ";
      if (s.buffer != none)
        out += "b" + std::to_string(s.buffer) + "[" + x.text_of_index(s.index) + "] " +
               store_names[size_t(s.store)] + " ";
      out += std::string(s.is_scan ? "running " : "") + fold_names[size_t(s.fold)];
      out += " " + shortened(x.text_of(s.value)) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string text_of(Program& program, const Schedule& schedule) {
  const Expressions& x = program.expressions;
  std::string out;
  for (const Item& item : schedule.items) {
    if (const auto* k = std::get_if<Kernel>(&item)) {
      out += text_of_kernel(x, *k);
    } else if (const auto* p = std::get_if<Product>(&item)) {
      out += "product " + text_of_view(x, p->result) + " = " + text_of_view(x, p->left) + " x " +
             text_of_view(x, p->right) + "\n";
    } else if (const auto* c = std::get_if<Convolution>(&item)) {
      out += "convolution " + text_of_view(x, c->result) + " = " + text_of_view(x, c->source) +
             " * " + text_of_view(x, c->weights) + "\n";
    } else if (const auto* a = std::get_if<Attention>(&item)) {
      out += "attention " + text_of_view(x, a->result) + " = " + text_of_view(x, a->query) + ", " +
             text_of_view(x, a->key) + ", " + text_of_view(x, a->value) + "\n";
    } else {
      out += "extern " + std::get<Extern>(item).name + "\n";
    }
  }
  return out;
}

}  // namespace loopir
