// The table of a call's numbers.
#include "reals.h"

#include "elements.h"
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
    case Real::Op::to_f16:
      return real_element(a, TN_F16);
    case Real::Op::to_bf16:
      return real_element(a, TN_BF16);
    default:
      return a < b || std::isnan(b) ? b : a;
  }
}

/// The blocks that the draws of one call take.
class Drawing {
 public:
  Drawing(const Program& program, std::span<const int64_t> symbols, const TakeBlocks& take) {
    uint64_t blocks = 0;
    for (const Real& r : program.reals)
      if (r.op == Real::Op::seed) {
        taken_.push_back(blocks);
        blocks += static_cast<uint64_t>(program.expressions.evaluate(r.index, symbols));
      }
    if (taken_.empty()) return;
    take(blocks, &seed_, &first_);
  }
  int64_t seed() const { return static_cast<int64_t>(seed_); }
  /// Of the draws in order.
  int64_t next_first_block() { return static_cast<int64_t>(first_ + taken_[next_++]); }

 private:
  std::vector<uint64_t> taken_;  // before each draw
  uint64_t seed_ = 0, first_ = 0;
  size_t next_ = 0;
};

}  // namespace

std::span<const int64_t> table_of(const Program& program, std::span<const int64_t> symbols,
                                  std::vector<int64_t>& memory) {
  return table_of(program, symbols, memory, [](uint64_t blocks, uint64_t* seed, uint64_t* first) {
    const tn_svc_api& host = *tenon::plugin::host->svc;
    tenon::plugin::check(host.rng_reserve(TN_DEV_CPU, -1, blocks, seed, first));
  });
}

std::span<const int64_t> table_of(const Program& program, std::span<const int64_t> symbols,
                                  std::vector<int64_t>& memory, const TakeBlocks& take) {
  if (program.reals.empty()) return symbols;
  memory.assign(symbols.begin(), symbols.end());
  Drawing drawing(program, symbols, take);
  for (const Real& r : program.reals) {
    if (r.op == Real::Op::seed || r.op == Real::Op::first_block) {
      memory.push_back(r.op == Real::Op::seed ? drawing.seed() : drawing.next_first_block());
      continue;
    }
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
