// nnc: fused loops, interpreted by blocks of elements: no code is generated.
#include <blocks/compile.h>
#include <loopir/supported.h>

using namespace tenon::plugin;

namespace {

/// An executable that is not saved: to make it again takes no longer than to read it.
struct Fused {
  static constexpr uint32_t flags = inductor::Executable::flags;
  std::unique_ptr<inductor::Executable> code;

  void call(tn_call& c) { code->call(c); }
  bool fills_outputs() const { return code->fills_outputs(); }
  std::string describe(int32_t what) { return code->describe(what); }
};

struct Nnc : Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    loopir::support_nodes(request, false, verdicts);
  }
  std::unique_ptr<Fused> compile(const tn_compile_request& request) {
    options given(request);
    blocks::Choices choices;
    choices.verifies = given.get<bool>("verify");
    choices.profiles = given.get<bool>("profile");
    choices.threads = given.get<int64_t>("threads");
    return std::make_unique<Fused>(Fused{blocks::compile(request, choices)});
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Nnc, "nnc"))
