// Questions about layouts, with guards or without.
#include "core/tensor/layout_questions.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"

#include <utility>

namespace tenon {

namespace {

thread_local constinit bool quiet_layouts = false;

}  // namespace

// With quiet layouts only what holds is guarded.
bool holds_for_layout(SymBool equality) {
  if (!quiet_layouts || !equality.is_symbolic()) return guard_or_false(equality);
  ShapeEnv* env = current_shape_env();
  std::optional<SymValue> example = env ? env->hint(equality.expr()) : std::nullopt;
  return example && example->integer() != 0 && guard_or_false(equality);
}

QuietLayouts::QuietLayouts() : before_(std::exchange(quiet_layouts, true)) {}
QuietLayouts::~QuietLayouts() { quiet_layouts = before_; }

}  // namespace tenon
