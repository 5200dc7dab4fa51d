// What the program says about tensors: a mark that a version was not made for asks for another one.
#include "core/error.h"
#include "guards/guard_kind.h"

namespace tenon {

using detail::Leaves;

void MarkGuards::record(GuardSet& g, const GuardedCall& call) {
  for (size_t i = 0; i < g.tensors.size(); ++i) {
    const TensorMarks* marks = marks_of(*call.leaves.tensors[i]);
    if (!marks) continue;
    g.tensors[i].dynamic_marks = marks->dynamic;
    g.tensors[i].maybe_marks = marks->maybe_dynamic;
    g.tensors[i].unbacked_marks = marks->unbacked;
    if (marks->guards_address) g.tensors[i].address = call.leaves.tensors[i]->head()->data;
  }
}

// The mark that a version does not serve, or null.
static const char* unserved_mark(const TensorGuard& g, const TensorMarks& marks) {
  if (marks.dynamic & ~g.dynamic_marks) return "mark_dynamic";
  if (marks.maybe_dynamic & ~(g.free_sizes | g.maybe_marks)) return "maybe_mark_dynamic";
  if (marks.unbacked & ~g.unbacked_marks) return "mark_unbacked";
  return marks.fixed & g.free_sizes ? "mark_static" : nullptr;
}

bool MarkGuards::are_served(const GuardSet& g, const Leaves& leaves) {
  for (size_t i = 0; i < g.tensors.size(); ++i) {
    const Tensor& t = *leaves.tensors[i];
    if (g.tensors[i].address && g.tensors[i].address != t.head()->data) return false;
    const TensorMarks* marks = marks_of(t);
    if (marks && unserved_mark(g.tensors[i], *marks)) return false;
  }
  return true;
}

std::string MarkGuards::why(const GuardSet& g, const Leaves& leaves) {
  for (size_t i = 0; i < g.tensors.size(); ++i) {
    const Tensor& t = *leaves.tensors[i];
    if (g.tensors[i].address && g.tensors[i].address != t.head()->data)
      return message(
          "tensor argument {}: its memory is elsewhere, and mark_static_address says that it "
          "stays; leave the mark out, or give guard = false",
          i);
    const TensorMarks* marks = marks_of(t);
    if (const char* mark = marks ? unserved_mark(g.tensors[i], *marks) : nullptr)
      return message(
          "tensor argument {}: this version was not made for its {}; mark tensors before "
          "the first call",
          i, mark);
  }
  return "";
}

std::string MarkGuards::text(const GuardSet& g) {
  std::string out;
  for (size_t i = 0; i < g.tensors.size(); ++i)
    if (g.tensors[i].address) out += message("tensor {}: its memory stays where it is\n", i);
  return out;
}

}  // namespace tenon
