// The scope of a thread, innermost first.
#include "capture/body_scope.h"

#include "core/error.h"

#include <utility>

namespace tenon {

static constinit thread_local const BodyScope* innermost = nullptr;

BodyScope::BodyScope(std::string place)
    : place_(std::move(place)), outer_(std::exchange(innermost, this)) {}
BodyScope::~BodyScope() { innermost = outer_; }

bool BodyScope::is_inside() { return innermost != nullptr; }

void BodyScope::check(const std::string& reason) {
  require(!innermost, ErrorCode::graph_break,
          "{}, {}: a body runs where no data can be looked at; decide with cond or where, or move "
          "it out of the body",
          reason, innermost ? innermost->place_ : "");
}

}  // namespace tenon
