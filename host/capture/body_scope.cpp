// The scope of a thread, innermost first.
#include "capture/body_scope.h"

#include "core/error.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"
#include "ops/op_table.h"

#include <utility>

namespace tenon {

static constinit thread_local const BodyScope* innermost = nullptr;

BodyScope::BodyScope(std::string place, GraphRecorder& outer)
    : place_(std::move(place)), recorder_(outer), outer_(std::exchange(innermost, this)) {}
BodyScope::~BodyScope() { innermost = outer_; }

bool BodyScope::is_inside() { return innermost != nullptr; }

const Tensor* BodyScope::around(const Tensor& fake) {
  for (const BodyScope* scope = innermost; scope; scope = scope->outer_)
    for (const auto& [input, outside] : scope->stand_ins_)
      if (same_head(input, fake)) return &outside;
  return nullptr;
}

GraphRecorder* BodyScope::owner_of(const Tensor& fake) {
  for (const BodyScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->recorder_.owns(fake)) return &scope->recorder_;
  return nullptr;
}

void BodyScope::check(const std::string& reason) {
  require(!innermost, ErrorCode::graph_break,
          "{}, {}: a body runs where no data can be looked at; decide with cond or where, or move "
          "it out of the body",
          reason, innermost ? innermost->place_ : "");
}

void BodyScope::check_for_tape(const std::string& reason) {
  require(!innermost, ErrorCode::graph_break,
          "{}, {}: to the tape the body is a part of one operation; do it outside of the body",
          reason, innermost ? innermost->place_ : "");
}

void require_own_code(const GraphRecorder& recorder, const std::string& problem) {
  const OpEntry* op = recorder.op_in_meta();
  require(!op, ErrorCode::data_dependent,
          "{}, inside of {}, which is run on tensors without data to find what its results look "
          "like; choose with tenon::where, or do it outside of the operation",
          problem, op ? op->name : "");
  bool is_other = thread_modes.tracer && !thread_modes.follower && thread_modes.tracer != &recorder;
  require(!is_other, ErrorCode::unsupported,
          "{}, inside of an operation or a derivative that is recorded on tensors without data; "
          "choose with tenon::where, or do it outside of the operation",
          problem);
}

}  // namespace tenon
