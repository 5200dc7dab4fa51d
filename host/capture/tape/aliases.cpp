// From the numbers of a path to those of a recording.
#include "capture/tape/aliases.h"

#include "core/tensor/tensor_impl.h"
#include "graph/record.h"

namespace tenon {

bool AliasesOfTape::adopt(const Tensor& fake, GraphRecorder& recorder) const {
  if (!frame_ || !impl_of(fake)->extra) return false;
  TensorExtra& extra = *impl_of(fake)->extra;
  if (extra.trace_id != frame_ || values_[extra.trace_value] == no_value) return false;
  ValueId value = values_[extra.trace_value];
  const GraphValue& own = recorder.graph().value(value);
  replace_metadata(fake, list_of(own.meta.sizes), list_of(own.meta.strides), own.offset);
  extra.trace_id = recorder.id();
  extra.trace_value = value;
  return true;
}

}  // namespace tenon
