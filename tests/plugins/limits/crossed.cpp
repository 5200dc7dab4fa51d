// Backends that hand graphs to each other: in circles, and from one that is not thread-safe to
// another; and one whose statistics are not an object and whose options have names that C++ keeps
// for itself. The entry runs an op.
#include <tenon/custom_ops.hpp>

#include <odd_statistics_options.h>

using namespace tenon::plugin;

namespace {

struct Interpreted : Backend {
  artifact compile(const tn_compile_request& r) { return interpret(r.ctx, r.graph); }
};

struct SerialOuter : Backend {
  artifact compile(const tn_compile_request& r) {
    return compile_with(r.ctx, r.graph, "serial_inner");
  }
};

struct OddProgram {
  artifact inner;
  void call(tn_call& c) { inner.call(c); }
  std::string describe(int32_t what) { return what == TN_DESC_STATS_JSON ? "[]" : ""; }
};
struct OddStatistics : Backend {
  std::unique_ptr<OddProgram> compile(const tn_compile_request& r) {
    auto given = odd_statistics_options::read(r);
    using Choice = odd_statistics_options::default_choice;
    bool good = given.default_ == Choice::a_b_ && given.read_ == 1 && given.words.empty();
    if (!good) throw error(TN_INTERNAL, "the options have other values than their defaults");
    return std::make_unique<OddProgram>(OddProgram{interpret(r.ctx, r.graph)});
  }
};

}  // namespace

TENON_PLUGIN(p) {
  const int64_t sizes[] = {64, 64};
  tensor a = tensor::empty(sizes, TN_F32);
  call("aten.mm.default", a, a);  // whose kernel another plugin may have
  for (const char* name : {"circle", "circle_there", "circle_back", "serial_inner"})
    p.backend<Interpreted>(name);
  p.backend<SerialOuter>("serial_outer");
  p.backend<OddStatistics>("odd_statistics");
}
