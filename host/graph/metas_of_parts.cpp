// What results of an added op look like, where only its function says so.
#include "graph/metas_of_parts.h"

#include "core/sym/shape_env.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/stand_in.h"
#include "graph/meta_cache.h"
#include "graph/passes/aliasing.h"
#include "graph/record.h"
#include "ops/custom_op.h"
#include "ops/foreign_results.h"
#include "ops/op_kernels.h"
#include "ops/op_table.h"

#include <algorithm>

namespace tenon {

// A function of the program says what its results look like by being run.
bool has_metas_of_parts(const OpEntry& op) {
  const OpDef& def = *op.def;
  return custom_op_of(op) && def.decomp && !def.meta.metas && !def.formula && !op.functional;
}

static bool is_argument(const CallArgs& call, const Tensor& t) {
  bool is = false;
  for (uint32_t i = 0; i < call.n_args; ++i)
    each_tensor(call.args[i], [&](const Tensor& a) { is = is || same_head(a, t); });
  return is;
}

// It may have what only recordings know: control flow, functions with derivatives of their own. So it
// is recorded, on inputs that lie where the arguments lie.
void run_parts_for_metas(const CallArgs& call) {
  GraphRecorder recorder(recorder_of_thread().shape_env());
  recorder.for_metas = true;
  std::vector<std::pair<Tensor, Tensor>> known;
  bool reads_others = false;
  recorder.lift = [&](const Tensor& real) {
    reads_others = reads_others || !is_wrapped_number(real);
    return recorder.add_constant(real, "");
  };
  recorder.import = [&](const Tensor& outer) {
    auto found = std::ranges::find_if(known, [&](auto& k) { return same_head(k.first, outer); });
    if (found != known.end()) return found->second;
    reads_others = reads_others || !is_argument(call, outer);
    GraphValue value;
    value.flags.requires_grad = outer.requires_grad();
    Tensor own = recorder.add_input(meta_of(outer), sym_offset_of(outer), std::move(value),
                                    impl_of(outer)->storage_ref);
    if (is_wrapped_number(outer)) impl_of(own)->ensure_extra().wrapped_number = true;
    return known.emplace_back(outer, own).second;
  };
  RecordScope scope(recorder);
  BelowAutocast as_given;
  call.op->def->decomp.call(call);
  return_mutated(call);
  if (draws_numbers(recorder.graph())) note_drawing_parts(*call.op);
  for (const Node& node : recorder.graph().nodes())
    reads_others = reads_others || is_traced_through(entry_of(node.op));
  if (reads_others) note_reading_around(*call.op);
}

void ask_parts(const CallArgs& call) {
  try {
    run_meta_cached(call, run_parts_for_metas);
  } catch (const Error&) {  // which comes again
  }
  drop_results(call);
}

}  // namespace tenon
