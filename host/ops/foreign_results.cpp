// Results of foreign kernels: present, and as the shape function says.
#include "ops/foreign_results.h"

#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op_table.h"
#include "ops/pointwise.h"

namespace tenon {

namespace {

const TensorImpl& impl_in(const Value& result) {
  return *reinterpret_cast<const TensorImpl*>(result.payload);
}

// Along dimensions of one element, and in tensors of none, strides say nothing.
bool is_promised(const TensorImpl& t, const TensorMeta& m) {
  if (t.dtype != static_cast<int32_t>(m.dtype) || static_cast<size_t>(t.ndim) != m.sizes.size())
    return false;
  bool is_empty = false;
  for (size_t d = 0; d < m.sizes.size(); ++d) {
    if (t.sizes[d] != m.sizes[d].word()) return false;
    is_empty |= t.sizes[d] == 0;
  }
  for (size_t d = 0; d < m.sizes.size() && !is_empty; ++d)
    if (t.sizes[d] > 1 && t.strides[d] != m.strides[d].word()) return false;
  return true;
}

std::string text_of(const Value& result) {
  auto* head = reinterpret_cast<detail::TensorHead*>(result.payload);
  Tensor borrowed = Tensor::adopt(head);
  std::string text =
      message("{}{} with strides {}", borrowed.dtype(), borrowed.sizes(), borrowed.strides());
  borrowed.release();
  return text;
}

bool is_given_back(const CallArgs& call, uint32_t r) {
  return r == 0 && call.op->returned_arg >= 0;
}

// What the op promises. False where only the run knows, or where it writes its arguments.
bool read_promise(const CallArgs& call, Metas& metas) {
  const OpEntry& op = *call.op;
  if (op.tags & TN_TAG_DATA_DEPENDENT || op.functional || op.out_form || op.def->view) return false;
  if (op.def->meta.metas)
    op.def->meta.metas(call, metas);
  else if (op.def->formula)
    pointwise_meta(call, metas);
  else
    return false;
  return true;
}

bool may_miss(const CallArgs& call, uint32_t r, Metas& said) {
  return is_given_back(call, r) || (r < said.size() && !said[r].defined);
}

}  // namespace

std::optional<std::string> foreign_result_problem(const CallArgs& call) {
  Metas said;
  bool is_known = read_promise(call, said);
  for (uint32_t r = 0; r < call.n_results; ++r)
    if (call.results[r].tag == Tag::none && !may_miss(call, r, said))
      return message("result {} is missing", r);
  for (uint32_t r = 0; is_known && r < call.n_results && r < said.size(); ++r) {
    const TensorMeta& m = said[r];
    if (call.results[r].tag != Tag::tensor_owned || is_given_back(call, r) || !m.defined ||
        is_promised(impl_in(call.results[r]), m))
      continue;
    return message("result {} is {}, expected {}{} with strides {}", r, text_of(call.results[r]),
                   m.dtype, list_of(m.sizes), list_of(m.strides));
  }
  return std::nullopt;
}

void drop_results(const CallArgs& call) {
  for (uint32_t r = 0; r < call.n_results; ++r) drop(call.results[r]);
}

}  // namespace tenon
