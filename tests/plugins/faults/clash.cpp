// Plugins that have the same C++ names for different things: FAULT_NUMBER tells them apart.
#include "fault.h"

#include <tenon/plugin.hpp>

#include <map>

using namespace tenon::plugin;

namespace clash {

/// Of another layout in each plugin.
struct State {
  std::array<double, FAULT_NUMBER> filler{};
  std::string made_by = "constructor " + std::to_string(FAULT_NUMBER);
  std::map<std::string, int> calls;
};

struct Shared {
  static inline State state;
};
inline int& counter() {
  static int n = 1000 * FAULT_NUMBER;
  return n;
}
template <class T>
struct Named {
  static std::string& name() {
    static std::string n = "name " + std::to_string(FAULT_NUMBER);
    return n;
  }
};

/// Runs when the library is mapped.
struct AtStart {
  AtStart() { ++Shared::state.calls["start"]; }
} at_start;

}  // namespace clash

TN_EXPORT int clash_number();
TN_EXPORT int clash_number() { return FAULT_NUMBER; }

namespace {

struct Program {
  artifact inner;
  void call(tn_call& c) {
    ++clash::Shared::state.calls["call"];
    ++clash::counter();
    try {
      throw clash::Named<int>();
    } catch (const clash::Named<int>&) {
      ++clash::Shared::state.calls["caught"];
    }
    inner.call(c);
  }
  std::string describe(int32_t) {
    std::string out = clash::Shared::state.made_by + ", " + clash::Named<int>::name() +
                      text(", counter {}, number {}", clash::counter(), clash_number());
    for (const auto& [what, n] : clash::Shared::state.calls) out += text(", {} {}", what, n);
    return out;
  }
};

struct Clash : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& request) {
    auto out = std::make_unique<Program>();
    out->inner = interpret(request.ctx, request.graph);
    return out;
  }
};

}  // namespace

FAULT_MANIFEST("fault_" FAULT_NAME);
TENON_PLUGIN_BACKENDS((Clash, "fault_" FAULT_NAME))
