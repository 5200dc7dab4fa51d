// Views as loads, and loops that store.
#include "step_loops.h"

namespace inductor_cuda {

using loopir::Buffer;
using loopir::Loop;
using loopir::none;
using loopir::View;

Ids StepLoops::variables(const Ids& sizes) {
  Ids out;
  for (Id size : sizes) out.push_back(x.is(size, 1) ? x.constant(0) : x.variable(size));
  return out;
}

Ids StepLoops::only_variables(const Ids& indices) const {
  Ids out;
  for (Id i : indices)
    if (x.index_at(i).kind == loopir::IndexKind::variable) out.push_back(i);
  return out;
}

Id StepLoops::place(const View& v, const Ids& indices) {
  Id out = v.offset;
  for (size_t d = 0; d < indices.size(); ++d)
    out = x.add(out, x.multiply(indices[d], v.strides[d]));
  return out;
}

Id StepLoops::at(const View& v, const Ids& indices, Id mask) {
  return x.load(v.buffer, place(v, indices), dtype_of(v), mask);
}

Id StepLoops::is_within(Id index, Id size) {
  Id i = x.index_value(index);
  Id from = x.apply(TN_F_GE, TN_BOOL, i, x.number(int64_t{0}, TN_I64));
  return both(from, x.apply(TN_F_LT, TN_BOOL, i, x.index_value(size)));
}

Ids StepLoops::dense_strides(const Ids& sizes) {
  Ids strides(sizes.size());
  Id step = x.constant(1);
  for (size_t d = strides.size(); d-- > 0;) {
    strides[d] = step;
    step = x.multiply(step, sizes[d]);
  }
  return strides;
}

View StepLoops::temporary(int32_t dtype, const Ids& sizes, const std::string& name) {
  Ids strides = dense_strides(sizes);
  Id buffer = program.add_buffer({Buffer::Place::temporary, 0, dtype, sizes, strides, name});
  return {buffer, x.constant(0), sizes, strides};
}

void StepLoops::store(const View& result, const Ids& indices, Id value, const std::string& name) {
  Loop loop;
  loop.outer = only_variables(indices);
  loop.value = x.cast(value, dtype_of(result));
  loop.buffer = result.buffer;
  loop.index = place(result, indices);
  loop.name = name;
  steps.emplace_back(std::move(loop));
}

View StepLoops::fold(loopir::Fold how, const Ids& sizes, const Ids& outer, const Ids& reduced,
                     Id value, int32_t dtype, const std::string& name) {
  View out = temporary(dtype, sizes, name);
  Loop loop;
  loop.outer = only_variables(outer);
  loop.reduced = only_variables(reduced);
  loop.fold = loop.reduced.empty() ? loopir::Fold::none : how;
  loop.value = value;
  loop.buffer = out.buffer;
  loop.index = place(out, outer);
  loop.name = name;
  steps.emplace_back(std::move(loop));
  return out;
}

}  // namespace inductor_cuda
