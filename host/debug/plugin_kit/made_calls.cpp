// Calls of ops made up from their schemas, as graphs of one node with inputs of each style.
//
// What no golden graph calls is tried like this: kernels of plugins, and ops that plugins add.
// Cost: some hundred small calls an op; a tenth of them where few are wanted.
#include "core/error.h"
#include "debug/op_probe.h"
#include "debug/plugin_kit/kernel_hook.h"
#include "ops/op_table.h"

namespace tenon::kit {

namespace {

std::vector<CallStyle> styles_of(bool quick) {
  std::vector<std::vector<int64_t>> sizes{{4, 4}, {4}, {2, 3, 8, 8}, {2, 4, 4}, {}};
  if (!quick) sizes.insert(sizes.end(), {{0}, {0, 3}, {1}, {40, 40}, {1000}, {3, 70, 70}});
  if (quick) sizes.insert(sizes.end(), {{40, 40}, {1000}});
  std::vector<std::pair<Dtype, Dtype>> dtypes{{Dtype::f32, Dtype::f32},
                                              {Dtype::f64, Dtype::f64},
                                              {Dtype::i64, Dtype::i64},
                                              {Dtype::f32, Dtype::i64},
                                              {Dtype::bf16, Dtype::bf16}};
  if (!quick)
    dtypes.insert(dtypes.end(), {{Dtype::f16, Dtype::f16},
                                 {Dtype::i32, Dtype::i32},
                                 {Dtype::bool_, Dtype::f32},
                                 {Dtype::u8, Dtype::u8}});
  std::vector<CallStyle> styles;
  for (const auto& [first, others] : dtypes)
    for (const std::vector<int64_t>& s : sizes)
      for (int64_t number : {1, 0}) styles.push_back({s, first, others, number});
  return styles;
}

// What an op that adds up makes of infinities depends on the order, and windows may take in more
// than they show.
void limit_numbers(GoldenGraph& golden, const OpEntry& op) {
  golden.no_infinity = op.tags & (TN_TAG_MATMUL | TN_TAG_REDUCTION);
  golden.only_finite = op.tags & TN_TAG_CONV;
  golden.is_random = op.tags & TN_TAG_RANDOM;
}

// The case, if the op takes such numbers: indices may be out of range.
std::optional<GraphCase> case_of(const GoldenGraph& golden, InputStyle style, uint64_t seed,
                                 const OpEntry& op) {
  try {
    auto c = make_static_case(golden, style, seed);
    if (c && !op.def->provider && !op.def->custom) run_reference(*c);
    return c;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

void for_each_call(const std::string& name, bool quick, uint64_t seed,
                   const std::function<void(const GraphCase&, const std::string& text)>& body) {
  const OpEntry* op = find_op(name);
  if (!op || op->mutated_args || (op->tags & (TN_TAG_RANDOM | TN_TAG_DATA_DEPENDENT))) return;
  std::vector<InputStyle> inputs{InputStyle::contiguous, InputStyle::transposed,
                                 InputStyle::not_finite, InputStyle::some_nan};
  if (!quick) inputs.insert(inputs.end(), {InputStyle::sliced, InputStyle::denormal});
  bool taken_with_one = false;
  for (const CallStyle& style : styles_of(quick)) {
    // Calls that differ in a number alone are few: the second one where the first is not taken.
    if (style.number == 0 && taken_with_one) continue;
    GoldenGraph golden;
    golden.name = name;
    golden.graph = example_graph(*op, style);
    taken_with_one = golden.graph != nullptr;
    if (!golden.graph) continue;
    limit_numbers(golden, *op);
    for (InputStyle input : inputs)
      if (auto c = case_of(golden, input, seed, *op))
        body(*c, message("{} of {}, inputs {}", name, to_text(style), name_of(input)));
  }
}

}  // namespace tenon::kit
