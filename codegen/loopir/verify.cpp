// Checks of a schedule and of a memory plan.
#include "verify.h"

#include "lowering.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::text;

namespace {

class Verifier {
 public:
  explicit Verifier(Program& program) : program_(program), x_(program.expressions) {
    written_.assign(program.buffers.size(), false);
    for (Id b = 0; b < program.buffers.size(); ++b) {
      auto place = program.buffers[b].place;
      written_[b] = place == Buffer::Place::input || place == Buffer::Place::constant;
    }
  }

  std::string run(const Schedule& schedule) {
    for (size_t i = 0; i < schedule.items.size() && problem_.empty(); ++i) {
      at_ = i;
      Access access = access_of(program_, schedule.items[i]);
      auto* kernel = std::get_if<Kernel>(&schedule.items[i]);
      if (kernel)  // its stages read what earlier ones have written
        for (Id b : access.writes) written_[b] = true;
      for (Id b : access.reads)
        if (!written_[b]) complain("reads", b, "before anything has written it");
      for (Id b : access.writes) written_[b] = true;
      if (kernel) check(*kernel);
      auto* product = std::get_if<Product>(&schedule.items[i]);
      if (product && problem_.empty()) problem_ = problem_of(program_, *product);
    }
    return problem_;
  }

 private:
  void complain(const char* does, Id buffer, const std::string& what) {
    if (problem_.empty())
      problem_ = text("item {} {} buffer {} ({}) {}", at_, does, buffer,
                      program_.buffers[buffer].name, what);
  }

  void check(const Kernel& kernel) {
    for (const Stage& stage : kernel.stages)
      for (const Statement& s : stage.statements) {
        if (s.buffer != none) check_index("writes", s.buffer, s.index);
        x_.replace_loads(s.value, [&](const ValueNode& n) {
          if (n.c == none) check_index("reads", n.a, n.b);
          return none;
        });
      }
  }

  // Of lines with known sizes, where the range of the index is not an estimate.
  void check_index(const char* does, Id buffer, Id index) {
    const Buffer& info = program_.buffers[buffer];
    if (info.place == Buffer::Place::scratch || x_.reads_data(index)) return;
    int64_t last = 0;
    for (size_t d = 0; d < info.sizes.size(); ++d) {
      auto size = x_.number_of(info.sizes[d]), stride = x_.number_of(info.strides[d]);
      if (!size || !stride || *size == 0) return;
      last += (*size - 1) * *stride;
    }
    for (Id v : x_.variables_of_index(index)) {
      auto extent = x_.number_of(x_.extent_of(v));
      if (!extent || *extent == 0 || !x_.coefficient(index, v)) return;
    }
    Range range = x_.range(index);
    if (range.lower < 0 || range.upper > last)
      complain(does, buffer,
               text("at {} to {}, and its last element is {}", range.lower, range.upper, last));
  }

  Program& program_;
  Expressions& x_;
  std::vector<bool> written_;
  size_t at_ = 0;
  std::string problem_;
};

struct Interval {
  Id buffer = none;
  size_t first = 0, last = 0;
  int64_t begin = 0, end = 0;  // bytes
  bool meets(const Interval& o) const {
    return first <= o.last && o.first <= last && begin < o.end && o.begin < end;
  }
};

std::vector<Interval> intervals_of(const Program& program, std::span<const Access> accesses,
                                   const MemoryPlan& plan, std::span<const int64_t> symbols) {
  std::map<Id, Interval> out;
  for (size_t i = 0; i < accesses.size(); ++i)
    for (const Ids* list : {&accesses[i].reads, &accesses[i].writes})
      for (Id b : *list) {
        if (plan.offsets[b] < 0) continue;
        int64_t end = plan.offsets[b] + bytes_of(program, program.buffers[b], symbols);
        auto [at, is_new] = out.try_emplace(b, Interval{b, i, i, plan.offsets[b], end});
        at->second.last = i;
      }
  std::vector<Interval> list;
  for (const auto& [id, interval] : out) list.push_back(interval);
  return list;
}

/// Whether b begins in the step that reads a for the last time, in the same memory.
bool takes_over(const Program& program, const Interval& a, const Interval& b) {
  return a.last <= b.first &&
         program.owner_of_memory(a.buffer) == program.owner_of_memory(b.buffer);
}

}  // namespace

std::string problem_of(const Program& program, const Product& product) {
  auto dtype_of = [&](const View& v) {
    return v.buffer == none ? int32_t{-1} : program.buffers[v.buffer].dtype;
  };
  int32_t element = dtype_of(product.left), result = dtype_of(product.result);
  int32_t sums = compute_type(element);
  bool is_known = is_floating(element);
  bool agrees =
      dtype_of(product.right) == element && (result == sums || result == element) &&
      (!product.bias || dtype_of(*product.bias) == sums || dtype_of(*product.bias) == element);
  for (const EpilogueOp& op : product.epilogue)
    agrees &= op.kind != EpilogueOp::Kind::add || dtype_of(op.operand) == result;
  if (is_known && agrees) return "";
  return text("product {} has operands of dtypes {} and {} and a result of dtype {}", product.name,
              element, dtype_of(product.right), result);
}

std::string problem_of(Program& program, const Schedule& schedule) {
  return Verifier(program).run(schedule);
}

std::string problem_of(const Program& program, std::span<const Access> accesses,
                       const MemoryPlan& plan, std::span<const int64_t> symbols) {
  std::vector<Interval> all = intervals_of(program, accesses, plan, symbols);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].end > plan.bytes)
      return text("buffer {} ends at byte {} of an arena of {}", all[i].buffer, all[i].end,
                  plan.bytes);
    for (size_t j = 0; j < i; ++j)
      if (all[i].meets(all[j]) && !takes_over(program, all[j], all[i]) &&
          !takes_over(program, all[i], all[j]))
        return text("buffers {} and {} live at the same time in the same bytes", all[j].buffer,
                    all[i].buffer);
  }
  return "";
}

void require_sound(const std::string& problem) {
  if (!problem.empty()) throw tenon::plugin::error(TN_INTERNAL, "verify: " + problem);
}

}  // namespace loopir
