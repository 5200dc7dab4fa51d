// Compiling expressions to register programs, and running them.
//
// Problem: the symbolic guards of an entry are tested before every call, within some tens of ns.
// Model: a straight line of 16-byte instructions over 64-bit registers; symbols are loaded once;
//   a comparison that ends a condition leaves the program when it fails. Overflow leaves it too.
// Method: shared sub-expressions are computed once, where first needed. Instructions are written
//   with one register a value, then values are packed into few registers by their last use.
//   Frequent integer operations have their own code, most with a constant as second operand; the
//   rest goes through apply_op, the definition that the evaluator uses.
// Cost: about 1 ns an instruction; compiling is linear but for the search of a free register.
#include "core/sym/sym_program.h"

#include "core/error.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tenon {

namespace {

enum Code : uint16_t {
  load,
  constant,
  add,
  add_constant,
  product,
  multiply_constant,
  quotient,
  divide_constant,
  remainder,
  remainder_constant,  // constants are positive
  minimum,
  maximum,
  both,
  either,
  invert,
  is_equal,
  is_different,
  is_less,
  is_at_most,
  stop_unless,
  stop_unless_equal,
  stop_unless_different,
  stop_unless_less,
  stop_unless_at_most,
  stop_unless_equal_constant,
  stop_unless_different_constant,
  stop_unless_at_most_constant,
  stop_unless_at_least_constant,
  general,  // + SymOp: constant holds register c and the operands' kind
};

constexpr int kind_shift = 16;
bool writes(uint16_t code) { return code < stop_unless || code >= general; }

/// Operand registers of an instruction.
int n_operands(const SymProgram::Instruction& i) {
  if (i.code >= general) {
    auto op = static_cast<SymOp>(i.code - general);
    bool one = op == SymOp::to_float || op == SymOp::trunc || op == SymOp::floor_to_int ||
               op == SymOp::ceil_to_int || op == SymOp::round_to_int;
    return op == SymOp::select ? 3 : one ? 1 : 2;
  }
  switch (i.code) {
    case load:
    case constant:
      return 0;
    case add_constant:
    case multiply_constant:
    case divide_constant:
    case remainder_constant:
    case invert:
    case stop_unless:
    case stop_unless_equal_constant:
    case stop_unless_different_constant:
    case stop_unless_at_most_constant:
    case stop_unless_at_least_constant:
      return 1;
    default:
      return 2;
  }
}

}  // namespace

class SymCompiler {
 public:
  explicit SymCompiler(std::span<const Expr* const> symbols) : symbols_(symbols) {
    program_.n_symbols_ = symbols.size();
  }

  SymProgram compile(std::span<const Expr* const> conditions,
                     std::span<const Expr* const> outputs) {
    find_places(conditions, outputs);
    for (size_t i = 0; i < conditions.size(); ++i) {
      condition_ = static_cast<int32_t>(i);
      test(conditions[i]);
    }
    condition_ = static_cast<int32_t>(conditions.size());
    for (const Expr* e : outputs) program_.output_registers_.push_back(value(e));
    pack_registers();
    return std::move(program_);
  }

 private:
  using Instruction = SymProgram::Instruction;

  // Of a few symbols, mostly, among many.
  void find_places(std::span<const Expr* const> conditions, std::span<const Expr* const> outputs) {
    std::unordered_set<const Expr*> mentioned;
    for (std::span<const Expr* const> list : {conditions, outputs})
      for (const Expr* e : list)
        for (const Expr* symbol : free_symbols(e)) mentioned.insert(symbol);
    for (size_t i = 0; i < symbols_.size() && places_.size() < mentioned.size(); ++i)
      if (mentioned.contains(symbols_[i])) places_.try_emplace(symbols_[i], i);
  }

  uint16_t emit(uint16_t code, uint16_t a = 0, uint16_t b = 0, int64_t constant = 0) {
    require(n_values_ < 0xffff, ErrorCode::unsupported,
            "guards of this function need more than 65535 symbolic operations");
    auto to = static_cast<uint16_t>(writes(code) ? n_values_++ : 0);
    program_.code_.push_back({code, to, a, b, constant});
    program_.condition_of_.push_back(condition_);
    return to;
  }

  void test(const Expr* e) {
    if (e->op == SymOp::and_) {
      for (const Expr* operand : e->operands()) test(operand);
      return;
    }
    bool compares =
        e->op == SymOp::eq || e->op == SymOp::ne || e->op == SymOp::lt || e->op == SymOp::le;
    if (!compares || e->operand(0)->kind != ExprKind::integer || values_.contains(e)) {
      emit(stop_unless, value(e));
      return;
    }
    if (!test_constant(e)) emit_comparison(e, stop_unless_equal - is_equal);
  }
  /// A comparison with a constant on one side.
  bool test_constant(const Expr* e) {
    const Expr* a = e->operand(0);
    const Expr* b = e->operand(1);
    bool ordered = e->op == SymOp::lt || e->op == SymOp::le;
    if (a->is_constant() && ordered) {
      if (e->op == SymOp::lt && a->integer() == INT64_MAX) return false;
      emit(stop_unless_at_least_constant, value(b), 0, a->integer() + (e->op == SymOp::lt));
      return true;
    }
    if (a->is_constant()) std::swap(a, b);
    if (!b->is_constant() || (e->op == SymOp::lt && b->integer() == INT64_MIN)) return false;
    uint16_t code = e->op == SymOp::eq   ? stop_unless_equal_constant
                    : e->op == SymOp::ne ? stop_unless_different_constant
                                         : stop_unless_at_most_constant;
    emit(code, value(a), 0, b->integer() - (e->op == SymOp::lt));
    return true;
  }
  uint16_t emit_comparison(const Expr* e, int shift) {
    int code = e->op == SymOp::eq   ? is_equal
               : e->op == SymOp::ne ? is_different
               : e->op == SymOp::lt ? is_less
                                    : is_at_most;
    uint16_t a = value(e->operand(0)), b = value(e->operand(1));
    return emit(static_cast<uint16_t>(code + shift), a, b);
  }

  uint16_t value(const Expr* e) {
    if (auto it = values_.find(e); it != values_.end()) return it->second;
    uint16_t result = compute(e);
    values_.try_emplace(e, result);
    return result;
  }
  uint16_t compute(const Expr* e) {
    if (e->is_constant()) return emit(constant, 0, 0, e->payload);
    if (e->is_symbol()) {
      auto place = places_.find(e);
      ensure(place != places_.end(), "a guard uses a symbol that no argument gives");
      return emit(load, 0, 0, static_cast<int64_t>(place->second));
    }
    ExprKind kind = e->operand(e->n_operands - 1)->kind;
    if (e->op == SymOp::not_) return emit(invert, value(e->operand(0)));
    if (e->op == SymOp::select) return compute_select(e);
    if (kind == ExprKind::integer && e->kind == ExprKind::boolean) return emit_comparison(e, 0);
    uint16_t result = e->n_operands == 1 ? one_operand(e, kind) : value(e->operand(0));
    bool constant_first = e->op == SymOp::mul && e->operand(0)->is_constant();
    if (constant_first && e->n_operands == 2) return two_operands(e, e->operand(1), e->operand(0));
    for (size_t i = 1; i < e->n_operands; ++i) result = combine(e->op, kind, result, e->operand(i));
    return result;
  }
  uint16_t one_operand(const Expr* e, ExprKind kind) {
    return emit(static_cast<uint16_t>(general + static_cast<int>(e->op)), value(e->operand(0)), 0,
                static_cast<int64_t>(kind) << kind_shift);
  }
  uint16_t two_operands(const Expr* e, const Expr* a, const Expr* b) {
    return combine(e->op, b->kind, value(a), b);
  }
  uint16_t compute_select(const Expr* e) {
    uint16_t c = value(e->operand(0)), a = value(e->operand(1)), b = value(e->operand(2));
    return emit(static_cast<uint16_t>(general + static_cast<int>(SymOp::select)), c, a, b);
  }
  uint16_t combine(SymOp op, ExprKind kind, uint16_t a, const Expr* b) {
    if (kind == ExprKind::integer) {
      int64_t c = b->is_constant() ? b->integer() : 0;
      if (b->is_constant() && op == SymOp::add) return emit(add_constant, a, 0, c);
      if (b->is_constant() && op == SymOp::mul) return emit(multiply_constant, a, 0, c);
      if (c > 0 && op == SymOp::floordiv) return emit(divide_constant, a, 0, c);
      if (c > 0 && op == SymOp::mod) return emit(remainder_constant, a, 0, c);
    }
    uint16_t second = value(b);
    if (kind != ExprKind::real) {
      switch (op) {
        case SymOp::add:
          return emit(add, a, second);
        case SymOp::mul:
          return emit(product, a, second);
        case SymOp::floordiv:
          return emit(quotient, a, second);
        case SymOp::mod:
          return emit(remainder, a, second);
        case SymOp::min:
          return emit(minimum, a, second);
        case SymOp::max:
          return emit(maximum, a, second);
        case SymOp::and_:
          return emit(both, a, second);
        case SymOp::or_:
          return emit(either, a, second);
        default:
          break;
      }
    }
    return emit(static_cast<uint16_t>(general + static_cast<int>(op)), a, second,
                static_cast<int64_t>(kind) << kind_shift);
  }

  /// Gives each value the lowest register that is free from its first to its last use.
  void pack_registers() {
    auto& code = program_.code_;
    std::vector<size_t> last_use(n_values_, 0);
    for (size_t pc = 0; pc < code.size(); ++pc)
      for_operands(code[pc], [&](uint16_t value) { last_use[value] = pc; });
    for (uint16_t value : program_.output_registers_) last_use[value] = code.size();

    std::vector<uint16_t> place(n_values_), free;
    for (size_t pc = 0; pc < code.size(); ++pc) {
      Instruction before = code[pc];
      rename_operands(code[pc], place);
      for_operands(before, [&](uint16_t value) {
        bool first = std::find(free.begin(), free.end(), place[value]) == free.end();
        if (last_use[value] == pc && first) free.push_back(place[value]);
      });
      if (!writes(before.code)) continue;
      uint16_t to = free.empty() ? static_cast<uint16_t>(program_.n_registers_++) : free.back();
      if (!free.empty()) free.pop_back();
      code[pc].to = place[before.to] = to;
    }
    for (uint16_t& value : program_.output_registers_) value = place[value];
  }
  template <class F>
  static void for_operands(const Instruction& i, F visit) {
    int n = n_operands(i);
    if (n > 0) visit(i.a);
    if (n > 1) visit(i.b);
    if (n > 2) visit(static_cast<uint16_t>(i.constant));
  }
  static void rename_operands(Instruction& i, const std::vector<uint16_t>& place) {
    int n = n_operands(i);
    if (n > 0) i.a = place[i.a];
    if (n > 1) i.b = place[i.b];
    if (n > 2) i.constant = place[static_cast<uint16_t>(i.constant)];
  }

  SymProgram program_;
  const std::span<const Expr* const> symbols_;
  std::unordered_map<const Expr*, size_t> places_;    // of symbols among the values of a run
  std::unordered_map<const Expr*, uint16_t> values_;  // computed so far
  size_t n_values_ = 0;
  int32_t condition_ = 0;
};

SymProgram SymProgram::compile(std::span<const Expr* const> symbols,
                               std::span<const Expr* const> conditions,
                               std::span<const Expr* const> outputs) {
  return SymCompiler(symbols).compile(conditions, outputs);
}

namespace {

bool run_general(const SymProgram::Instruction& i, int64_t* r) {
  auto op = static_cast<SymOp>(i.code - general);
  if (op == SymOp::select) {
    r[i.to] = r[i.a] ? r[i.b] : r[i.constant];
    return true;
  }
  auto kind = static_cast<ExprKind>(i.constant >> kind_shift);
  SymValue args[] = {{kind, r[i.a]}, {kind, r[i.b]}};
  auto value = apply_op(op, std::span(args, n_operands(i)));
  if (value) r[i.to] = value->word;
  return value.has_value();
}

bool run_rare(const SymProgram::Instruction& i, int64_t* r) {
  if (i.code >= general) return run_general(i, r);
  int64_t a = r[i.a], b = r[i.b];
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  r[i.to] = i.code == quotient ? detail::floordiv(a, b) : detail::floormod(a, b);
  return true;
}

}  // namespace

int SymProgram::execute(const int64_t* symbols, int64_t* r) const {
  for (const Instruction& i : code_) {
    bool ok = true;
    switch (i.code) {
      // clang-format off
      case load: r[i.to] = symbols[i.constant]; break;
      case constant: r[i.to] = i.constant; break;
      case add: ok = !__builtin_add_overflow(r[i.a], r[i.b], &r[i.to]); break;
      case add_constant: ok = !__builtin_add_overflow(r[i.a], i.constant, &r[i.to]); break;
      case product: ok = !__builtin_mul_overflow(r[i.a], r[i.b], &r[i.to]); break;
      case multiply_constant: ok = !__builtin_mul_overflow(r[i.a], i.constant, &r[i.to]); break;
      case divide_constant: r[i.to] = detail::floordiv(r[i.a], i.constant); break;
      case remainder_constant: r[i.to] = detail::floormod(r[i.a], i.constant); break;
      case minimum: r[i.to] = std::min(r[i.a], r[i.b]); break;
      case maximum: r[i.to] = std::max(r[i.a], r[i.b]); break;
      case both: r[i.to] = r[i.a] & r[i.b]; break;
      case either: r[i.to] = r[i.a] | r[i.b]; break;
      case invert: r[i.to] = r[i.a] == 0; break;
      case is_equal: r[i.to] = r[i.a] == r[i.b]; break;
      case is_different: r[i.to] = r[i.a] != r[i.b]; break;
      case is_less: r[i.to] = r[i.a] < r[i.b]; break;
      case is_at_most: r[i.to] = r[i.a] <= r[i.b]; break;
      case stop_unless: ok = r[i.a] != 0; break;
      case stop_unless_equal: ok = r[i.a] == r[i.b]; break;
      case stop_unless_different: ok = r[i.a] != r[i.b]; break;
      case stop_unless_less: ok = r[i.a] < r[i.b]; break;
      case stop_unless_at_most: ok = r[i.a] <= r[i.b]; break;
      case stop_unless_equal_constant: ok = r[i.a] == i.constant; break;
      case stop_unless_different_constant: ok = r[i.a] != i.constant; break;
      case stop_unless_at_most_constant: ok = r[i.a] <= i.constant; break;
      case stop_unless_at_least_constant: ok = r[i.a] >= i.constant; break;
      default: ok = run_rare(i, r);
        // clang-format on
    }
    if (!ok) return static_cast<int>(&i - code_.data());
  }
  return -1;
}

template <class F>
auto SymProgram::with_registers(F use) const {
  if (n_registers_ <= max_registers) {
    int64_t registers[max_registers];
    return use(registers);
  }
  std::vector<int64_t> many(n_registers_);
  return use(many.data());
}

bool SymProgram::check(std::span<const int64_t> symbol_values) const {
  ensure(symbol_values.size() == n_symbols_, "a guard program got another number of symbols");
  if (code_.empty()) return true;
  return with_registers([&](int64_t* r) { return execute(symbol_values.data(), r) < 0; });
}

bool SymProgram::run(std::span<const int64_t> symbol_values, std::span<int64_t> outputs) const {
  ensure(symbol_values.size() == n_symbols_ && outputs.size() == n_outputs(),
         "a symbolic program got another number of symbols or outputs");
  return with_registers([&](int64_t* r) {
    if (execute(symbol_values.data(), r) >= 0) return false;
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = r[output_registers_[i]];
    return true;
  });
}

int SymProgram::failed_condition(std::span<const int64_t> symbol_values) const {
  return with_registers([&](int64_t* r) {
    int stop = execute(symbol_values.data(), r);
    return stop < 0 ? -1 : condition_of_[static_cast<size_t>(stop)];
  });
}

}  // namespace tenon
