// The loop IR as text.
#include "kernel.h"
#include "nest_text.h"

#include <bit>
#include <iterator>
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

namespace {

/// Indices are graphs in memory and trees in the text: beyond `most` characters nothing more is
/// written.
class IndexText {
 public:
  IndexText(const Expressions& x, size_t most) : x_(x), most_(most) {}

  std::string run(Id i) {
    write(i);
    if (out_.size() > most_) out_ = out_.substr(0, most_) + " ...";
    return std::move(out_);
  }

 private:
  void write(Id i) {
    if (out_.size() > most_) return;
    const IndexNode& n = x_.index_at(i);
    switch (n.kind) {
      case IndexKind::constant:
        out_ += std::to_string(n.number);
        return;
      case IndexKind::symbol:
        out_ += x_.symbols[static_cast<size_t>(n.number)].name;
        return;
      case IndexKind::variable:
        out_ += "i" + std::to_string(n.number);
        return;
      case IndexKind::value:
        out_ += "[" + x_.text_of(static_cast<Id>(n.number)) + "]";
        return;
      case IndexKind::sum:
        write_operands(n, " + ");
        if (n.number) out_ += " + " + std::to_string(n.number);
        return;
      case IndexKind::product:
        if (n.number != 1) out_ += std::to_string(n.number) + "*";
        write_operands(n, "*");
        return;
      default:
        write_call(n);
    }
  }
  void write_operands(const IndexNode& n, const char* between) {
    for (size_t k = 0; k < n.operands.size(); ++k) {
      if (k) out_ += between;
      write(n.operands[k]);
    }
  }
  void write_call(const IndexNode& n) {
    out_ += n.kind == IndexKind::floordiv ? "div("
            : n.kind == IndexKind::mod    ? "mod("
            : n.kind == IndexKind::min    ? "min("
                                          : "max(";
    write_operands(n, ", ");
    out_ += ")";
  }

  const Expressions& x_;
  size_t most_;
  std::string out_;
};

}  // namespace

std::string Expressions::text_of_index(Id i) const {
  constexpr size_t most = 400;
  return IndexText(*this, most).run(i);
}

namespace {

/// Values are graphs in memory and trees in the text, which may be exponentially long: beyond
/// `most` characters nothing more is written.
class ValueText {
 public:
  ValueText(const Expressions& x, size_t most) : x_(x), most_(most) {}

  std::string run(Id v) {
    write(v);
    if (out_.size() > most_) out_ = out_.substr(0, most_) + " ...";
    return std::move(out_);
  }

 private:
  void write(Id v) {
    if (out_.size() > most_) return;
    const ValueNode& n = x_.value_at(v);
    switch (n.code) {
      case value_constant:
        write_number(n);
        return;
      case value_load:
        if (n.c != none) {
          out_ += "(";
          write(n.c);
          out_ += " ? ";
        }
        out_ += "b" + std::to_string(n.a) + "[";
        write_index(n.b);
        out_ += n.c == none ? "]" : "] : 0)";
        return;
      case value_index:
        write_index(n.a);
        return;
      case value_checked:
        out_ += "check(";
        write(n.a);
        out_ += ", ";
        write_index(n.b);
        out_ += ")";
        return;
      case value_folded:
        out_ += "fold" + std::to_string(n.a);
        return;
      case value_real:
        out_ += "number" + std::to_string(n.a);
        return;
      case value_divisor:
      case value_exact:
        out_ += n.code == value_exact ? "exact(" : "divisor(";
        write(n.a);
        out_ += ")";
        return;
      case value_drawn:
        out_ += n.c == static_cast<Id>(Draw::normal) ? "normal" : "uniform";
        out_ += std::to_string(n.a) + "(";
        write_index(n.b);
        out_ += ")";
        return;
      default:
        out_ += primitive_names[n.code];
        write_operands({n.a, n.b, n.c});
    }
  }
  void write_operands(std::initializer_list<Id> operands) {
    const char* before = "(";
    for (Id o : operands) {
      if (o == none) continue;
      out_ += before;
      write(o);
      before = ", ";
    }
    out_ += ")";
  }
  void write_number(const ValueNode& n) {
    uint64_t bits = n.a | uint64_t{n.b} << 32;
    std::ostringstream text;
    if (n.dtype == TN_F32 || n.dtype == TN_F64 || n.dtype == TN_F16 || n.dtype == TN_BF16)
      text << std::bit_cast<double>(bits);
    else
      text << static_cast<int64_t>(bits);
    out_ += text.str();
  }
  void write_index(Id i) {
    if (out_.size() <= most_) out_ += x_.text_of_index(i);
  }

  const Expressions& x_;
  size_t most_;
  std::string out_;
};

}  // namespace

std::string Expressions::text_of(Id v, size_t most) const { return ValueText(*this, most).run(v); }

namespace {

std::string text_of_view(const Expressions& x, const View& v) {
  std::string sizes, strides;
  for (Id s : v.sizes) sizes = joined(sizes, ", ", x.text_of_index(s));
  for (Id s : v.strides) strides = joined(strides, ", ", x.text_of_index(s));
  return "b" + std::to_string(v.buffer) + "(" + sizes + " by " + strides + ")";
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
               store_names[static_cast<size_t>(s.store)] + " ";
      out += std::string(s.is_scan ? "running " : "") + fold_names[static_cast<size_t>(s.fold)];
      out += " " + x.text_of(s.value) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

// Without values, which can be long and are in the text of the kernels.
std::string text_of(const Program& program) {
  const Expressions& x = program.expressions;
  std::string out;
  for (const Step& step : program.steps) {
    if (const auto* loop = std::get_if<Loop>(&step)) {
      out += "loop " + loop->name + " " + variable_list(x, loop->outer);
      if (loop->fold != Fold::none)
        out += std::string(" ") + fold_names[static_cast<size_t>(loop->fold)] + " over " +
               variable_list(x, loop->reduced);
      out += " to b" + std::to_string(loop->buffer) + "\n";
    } else if (const auto* e = std::get_if<Extern>(&step)) {
      out += "extern " + e->name + "\n";
    } else {
      const char* const kinds[] = {"loop ",       "product ",   "convolution ",
                                   "gradient ",   "attention ", "attention gradients ",
                                   "recurrence ", "extern "};
      static_assert(std::size(kinds) == std::variant_size_v<Step>);
      out += kinds[step.index()] + std::visit([](const auto& s) { return s.name; }, step) + "\n";
    }
  }
  return out;
}

namespace {

const char* name_of(Recurrence::Cell cell) {
  constexpr const char* names[] = {"lstm", "gru", "tanh", "relu"};
  return names[static_cast<size_t>(cell)];
}

const char* multiplied_in(int32_t dtype) {
  return dtype == TN_BF16 ? " in bf16" : dtype == TN_F64 ? " in f64" : "";
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
             text_of_view(x, p->right) + multiplied_in(program.buffers[p->left.buffer].dtype) +
             "\n";
    } else if (const auto* c = std::get_if<Convolution>(&item)) {
      out += "convolution " + text_of_view(x, c->result) + " = " + text_of_view(x, c->source) +
             " * " + text_of_view(x, c->weights) + "\n";
    } else if (const auto* g = std::get_if<ConvolutionGradient>(&item)) {
      out += "gradient of " + std::string(g->of_weights ? "weights " : "source ") +
             text_of_view(x, g->result) + " = " + text_of_view(x, g->gradient) + ", " +
             text_of_view(x, g->operand) + "\n";
    } else if (const auto* a = std::get_if<Attention>(&item)) {
      out += "attention " + text_of_view(x, a->result) + " = " + text_of_view(x, a->query) + ", " +
             text_of_view(x, a->key) + ", " + text_of_view(x, a->value) + "\n";
    } else if (const auto* h = std::get_if<AttentionGradient>(&item)) {
      out += "gradients of attention " + text_of_view(x, h->of_query) + ", " +
             text_of_view(x, h->of_key) + ", " + text_of_view(x, h->of_value) + " = " +
             text_of_view(x, h->gradient) + ", " + text_of_view(x, h->of.query) + ", " +
             text_of_view(x, h->of.key) + ", " + text_of_view(x, h->of.value) + "\n";
    } else if (const auto* r = std::get_if<Recurrence>(&item)) {
      for (const RecurrentDirection& d : r->directions)
        out += std::string("recurrence ") + name_of(r->cell) +
               (d.is_backward ? " backwards " : " ") + text_of_view(x, d.result) + " = " +
               text_of_view(x, d.input) + ", " + text_of_view(x, d.weights) + "\n";
    } else {
      out += "extern " + std::get<Extern>(item).name + "\n";
    }
  }
  return out;
}

std::string text_of(const Program& program, const Nest& nest) {
  const Expressions& x = program.expressions;
  auto lanes_text = [&](Id v) { return v == none ? "" : ", lanes " + x.text_of_index(v); };
  std::string out =
      nest.kernel.name + ": outer " + variable_list(x, nest.kernel.outer) + lanes_text(nest.lanes);
  for (size_t s = 0; s < nest.kernel.stages.size(); ++s)
    out += "; inner " + variable_list(x, nest.kernel.stages[s].inner) +
           lanes_text(nest.lanes_of_stage[s]);
  return out;
}

}  // namespace loopir
