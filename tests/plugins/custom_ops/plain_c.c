/* The header of added ops as C11, and an op in C. */
#include <tenon/custom_ops.h>

static tn_status* kernel(void* self, tn_op_call* c) {
  (void)self;
  (void)c;
  return NULL;
}

tn_op_def plain_c_op(void) {
  tn_op_def def = {.struct_size = sizeof def, .schema = TN_STR("plain::c(Tensor x) -> Tensor")};
  def.flags = TN_OP_LIKE;
  def.kernel = kernel;
  return def;
}
