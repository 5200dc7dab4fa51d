// eager: the captured graph in the host's interpreter, plain or with more checks.
#include "schema_check.h"

using namespace tenon::plugin;

namespace {

struct Eager : Backend {
  artifact compile(const tn_compile_request& request) {
    return interpret(request.ctx, request.graph);
  }
};

/// Errors of the program were met while it was captured: one that comes later is the capture's.
struct NoExceptions {
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;
  artifact inner;

  void call(tn_call& c) {
    try {
      inner.call(c);
    } catch (const error& e) {
      throw error(
          TN_INTERNAL,
          text("eager_noexcept: unexpected error while the captured graph ran: {}", e.what()));
    }
  }
};

struct EagerNoExcept : Backend {
  std::unique_ptr<NoExceptions> compile(const tn_compile_request& request) {
    return std::make_unique<NoExceptions>(NoExceptions{interpret(request.ctx, request.graph)});
  }
};

struct EagerDebug : Backend {
  std::unique_ptr<SchemaChecked> compile(const tn_compile_request& request) {
    return std::make_unique<SchemaChecked>(request);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Eager, "eager"), (EagerNoExcept, "eager_noexcept"),
                      (EagerDebug, "eager_debug"), (Eager, "pre_dispatch_eager"))
