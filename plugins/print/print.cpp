// print: writes each graph that reaches a backend, then runs it node by node.
#include <tenon/plugin.hpp>

#include <cstdio>

using namespace tenon::plugin;

namespace {

std::string_view stage_name(int32_t stage) {
  switch (stage) {
    case TN_STAGE_CAPTURED:
      return "captured";
    case TN_STAGE_FORWARD:
      return "forward";
    case TN_STAGE_BACKWARD:
      return "backward";
    case TN_STAGE_INFERENCE:
      return "inference";
    default:
      return "single op";
  }
}

int32_t dump_format(std::string_view name) {
  return name == "dot" ? TN_DUMP_DOT : name == "canonical" ? TN_DUMP_CANONICAL : TN_DUMP_TEXT;
}

struct Print : Backend {
  artifact compile(const tn_compile_request& request) {
    options given(request);
    std::string body = graph(request).dump(dump_format(given.get<std::string_view>("format")));
    write(given.get<std::string_view>("to"),
          text("# {} graph {}\n{}", stage_name(request.stage), sv(request.compile_id), body));
    return interpret(request.ctx, request.graph);
  }

  // One call a graph, so that graphs compiled at the same time do not mix.
  static void write(std::string_view to, std::string out) {
    if (to == "log") return log(TN_LOG_INFO, "print", "{}", out);
    if (!out.ends_with('\n')) out += '\n';
    FILE* file = to == "stderr" ? stderr : stdout;
    std::fwrite(out.data(), 1, out.size(), file);
    std::fflush(file);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Print, "print"))
