// The table of a call's numbers.
#include "reals.h"

#include "program.h"

#include <bit>
#include <cmath>

namespace loopir {

namespace {

// As the host computes them: NaN in either operand of minimum and maximum gives NaN.
double combined(Real::Op op, double a, double b) {
  switch (op) {
    case Real::Op::add:
      return a + b;
    case Real::Op::multiply:
      return a * b;
    case Real::Op::divide:
      return a / b;
    case Real::Op::power:
      return std::pow(a, b);
    case Real::Op::minimum:
      return b < a || std::isnan(b) ? b : a;
    default:
      return a < b || std::isnan(b) ? b : a;
  }
}

}  // namespace

std::span<const int64_t> table_of(const Program& program, std::span<const int64_t> symbols,
                                  std::vector<int64_t>& memory) {
  if (program.reals.empty()) return symbols;
  memory.assign(symbols.begin(), symbols.end());
  for (const Real& r : program.reals) {
    double number = r.number;
    if (r.op == Real::Op::index)
      number = static_cast<double>(program.expressions.evaluate(r.index, symbols));
    else if (r.op != Real::Op::constant)
      number =
          combined(r.op, std::bit_cast<double>(memory[r.a]), std::bit_cast<double>(memory[r.b]));
    memory.push_back(std::bit_cast<int64_t>(number));
  }
  return memory;
}

}  // namespace loopir
