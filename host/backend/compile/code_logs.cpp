// Texts of compiled code as log artifacts.
#include "backend/compile/code_logs.h"

#include "backend/compile/artifact_stats.h"
#include "core/error.h"
#include "core/joined.h"
#include "formats/json.h"
#include "graph/text/print.h"
#include "report/log.h"

#include <tenon/plugin.h>

namespace tenon {

namespace {

std::string title_of(const std::string& backend, const CompileRequest& request) {
  std::string_view half = request.stage == Stage::forward    ? ", forward"
                          : request.stage == Stage::backward ? ", backward"
                                                             : "";
  std::string graph = request.compile_id.empty() ? "" : " " + request.compile_id;
  return message("{}{}{}", backend, graph, half);
}

void write(std::string_view artifact, const std::string& title, std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  if (!text.empty()) report::log_artifact(artifact, message("{}\n{}", title, text));
}

// A line an item, in their order.
std::string schedule_of(const std::string& statistics) try {
  formats::Json object = formats::parse_json(statistics, "statistics of an artifact").root();
  const formats::Json* items = object.find("items");
  const auto* list = items ? std::get_if<formats::Json::Array>(&items->value()) : nullptr;
  std::string out;
  for (size_t i = 0; list && i < list->size(); ++i) {
    auto text = [&](std::string_view key) {
      const formats::Json* member = (*list)[i].find(key);
      const auto* value = member ? std::get_if<std::string>(&member->value()) : nullptr;
      return value ? *value : std::string();
    };
    out += message("{} {} {}\n", i, text("kind"), text("name"));
  }
  return out;
} catch (const Error&) {
  return "";  // a plugin may write anything
}

struct TextOfCode {
  std::string_view artifact;
  int32_t what;
};

constexpr TextOfCode texts[] = {{"ir_pre_fusion", TN_DESC_IR},
                                {"fusion", TN_DESC_SOURCE},
                                {"ir_post_fusion", TN_DESC_GRAPH},
                                {"kernel_code", TN_DESC_ASM},
                                {"inductor_metrics", TN_DESC_STATS_JSON}};

}  // namespace

void log_graph_for(const std::string& backend, const CompileRequest& request) {
  if (report::artifact_enabled("post_grad_graphs"))
    write("post_grad_graphs", title_of(backend, request), to_text(*request.graph));
}

void log_code(const std::string& backend, const CompileRequest& request, const Artifact& artifact) {
  std::string title = title_of(backend, request);
  for (const TextOfCode& text : texts)
    if (report::artifact_enabled(text.artifact))
      write(text.artifact, title, artifact.describe(text.what));
  if (report::artifact_enabled("schedule"))
    write("schedule", title, schedule_of(artifact.describe(TN_DESC_STATS_JSON)));
  if (report::artifact_enabled("output_code"))
    write("output_code", title,
          schedule_of(artifact.describe(TN_DESC_STATS_JSON)) +
              artifact.describe(TN_DESC_MEMORY_PLAN));
  if (!report::artifact_enabled("perf_hints")) return;
  const auto ops = ArtifactStats::parse(artifact.describe(TN_DESC_STATS_JSON)).extern_ops;
  if (!ops.empty()) log_perf_hint(message("{}: the host runs {}", title, joined(ops)));
}

void log_perf_hint(const std::string& text) { report::log_artifact("perf_hints", text); }

}  // namespace tenon
