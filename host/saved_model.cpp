#include "saved_model.h"

#include "aot/saved_plan.h"
#include "backend/backend.h"
#include "backend/fallback.h"
#include "core/error.h"
#include "core/tensor_impl.h"
#include "core/version.h"
#include "formats/json.h"
#include "formats/pt2.h"
#include "formats/tenon_file.h"
#include "report/log.h"
#include "saved_graphs.h"

#include <tenon/ops.h>

#include <algorithm>
#include <map>

namespace tenon {

using formats::as_text;
using formats::Bytes;
using formats::ByteSpan;
using formats::Json;
using formats::JsonView;
using formats::TenonFile;
using Kind = SavedArtifact::Kind;

namespace {

constexpr std::string_view kind_names[] = {"interpreter", "plugin", "functional"};
constexpr std::string_view weight_sections = "data/";

// ---- writing

/// Writes artifacts: what is large goes into sections, of which the plan has the numbers.
class PlanWriter {
 public:
  explicit PlanWriter(Sections& sections) : sections_(sections) {}

  Json artifact(const SavedArtifact& saved) {
    Json::Object out{{"kind", kind_names[static_cast<size_t>(saved.kind)]},
                     {"graph", graph(*saved.graph)}};
    if (saved.loses_code)
      report::log(report::LogLevel::warning, "compile",
                  "graph {}: the code of its parts is not saved; the file runs its {} nodes one by "
                  "one",
                  saved.graph->name, saved.graph->nodes().size());
    if (saved.kind == Kind::plugin) {
      out.push_back({"backend", saved.backend});
      Json::Array mutated;
      for (uint32_t i : saved.mutated_inputs) mutated.emplace_back(int64_t{i});
      out.push_back({"mutated_inputs", mutated});
      out.push_back({"code", int64_t{n_codes_}});
      sections_.add_owned(message("code/{}", n_codes_++), saved.bytes);
    }
    if (saved.kind == Kind::functional) {
      out.push_back({"plan", saved.bytes});
      out.push_back({"inner", artifact(saved.parts.at(0))});
    }
    return out;
  }
  /// By graph, after all artifacts.
  Json constants() const { return constants_; }

 private:
  // A graph that several artifacts have is written once.
  int64_t graph(const Graph& g) {
    auto [at, is_new] = graphs_.try_emplace(&g, static_cast<int64_t>(graphs_.size()));
    if (!is_new) return at->second;
    constants_.push_back(add_graph(sections_, message("graph/{}", at->second), g));
    return at->second;
  }

  Sections& sections_;
  std::map<const Graph*, int64_t> graphs_;
  Json::Array constants_;  // by graph
  uint32_t n_codes_ = 0;
};

Json manifest(const SavedModel& model) {
  return Json::Object{{"tenon", version},
                      {"program", model.program->name},
                      {"source", model.program->file},
                      {"backend", model.backend},
                      {"mode", model.mode},
                      {"options", model.options_toml},
                      {"versions", static_cast<int64_t>(model.versions.size())}};
}

Json guards(const SavedModel& model) {
  Json::Array versions;
  for (const SavedVersion& v : model.versions) {
    Json::Array conditions;
    for (const std::string& c : v.conditions) conditions.emplace_back(c);
    versions.emplace_back(Json::Object{{"conditions", conditions}});
  }
  return Json::Object{{"versions", versions}};
}

Json plan(const SavedModel& model, Sections& sections) {
  PlanWriter writer(sections);
  Json::Array versions;
  for (const SavedVersion& v : model.versions) {
    Json::Object hints;
    for (const auto& [name, value] : v.hints) hints.push_back({name, value});
    versions.emplace_back(
        Json::Object{{"hints", hints}, {"artifact", writer.artifact(v.artifact)}});
  }
  return Json::Object{{"versions", versions}, {"constants", writer.constants()}};
}

ByteSpan memory_of(const Tensor& t) {
  const StorageRef& storage = impl_of(t)->storage_ref;
  return {static_cast<const std::byte*>(storage->data), storage->bytes};
}

// Each record once, as its tensors are now.
void add_weights(const SavedModel& model, const std::vector<std::pair<std::string, Tensor>>& live,
                 Sections& sections) {
  std::map<std::string, Tensor> changed(live.begin(), live.end());
  for (const auto* weights : {&model.program->weights, &model.program->constants})
    for (const formats::Pt2Weight& w : *weights) {
      std::string name = std::string(weight_sections) + w.record;
      if (sections.has(name)) continue;
      require(w.has_data, ErrorCode::unsupported,
              "{}: the archive holds no weights; made-up ones are not saved", model.program->file);
      ByteSpan bytes = w.storage.span;
      auto now = changed.find(w.record);
      if (now != changed.end()) bytes = memory_of(now->second);
      require(bytes.size() >= w.storage.span.size() / static_cast<size_t>(itemsize(w.dtype)) *
                                  static_cast<size_t>(itemsize(w.dtype)),
              "{}: weight {} has fewer bytes than in the archive", model.program->file, w.name);
      sections.add(std::move(name), bytes);
    }
}

// ---- reading

class PlanReader {
 public:
  /// `constants`: by graph, the numbers of its constants.
  PlanReader(const TenonFile& file, const JsonView& constants)
      : file_(file), constants_(constants.items()) {}

  SavedArtifact artifact(const JsonView& view) {
    SavedArtifact out;
    const std::string& kind = view.field("kind").text();
    auto known = std::ranges::find(kind_names, kind);
    require(known != std::end(kind_names), ErrorCode::bad_file, "{}: code of an unknown kind",
            view);
    out.kind = static_cast<Kind>(known - std::begin(kind_names));
    out.graph = graph(view.field("graph").integer());
    if (out.kind == Kind::plugin) {
      out.backend = view.field("backend").text();
      for (const JsonView& i : view.field("mutated_inputs").items())
        out.mutated_inputs.push_back(static_cast<uint32_t>(i.integer()));
      for (uint32_t i : out.mutated_inputs)
        require(i < out.graph->inputs().size(), ErrorCode::bad_file, "{}: no such input", view);
      out.bytes = as_text(file_.section(message("code/{}", view.field("code").integer())).span);
    }
    if (out.kind == Kind::functional) {
      out.bytes = view.field("plan").text();
      out.parts.push_back(artifact(view.field("inner")));
    }
    return out;
  }

 private:
  std::shared_ptr<Graph> graph(int64_t number) {
    std::shared_ptr<Graph>& found = graphs_[number];
    if (found) return found;
    require(number >= 0 && static_cast<size_t>(number) < constants_.size(), ErrorCode::bad_file,
            "{}: plan: graph {} has no list of constants", file_.subject(), number);
    found = read_graph([this](const std::string& name) { return file_.section(name); },
                       message("graph/{}", number), constants_[static_cast<size_t>(number)]);
    return found;
  }

  const TenonFile& file_;
  std::vector<JsonView> constants_;
  std::map<int64_t, std::shared_ptr<Graph>> graphs_;
};

formats::JsonDocument json_section(const TenonFile& file, const char* name) {
  return formats::parse_json(file.section(name).span, file.subject() + ": " + name);
}

std::vector<SavedVersion> read_versions(const TenonFile& file) {
  formats::JsonDocument plan = json_section(file, "plan"), guards = json_section(file, "guards");
  std::vector<JsonView> codes = plan.view().field("versions").items();
  std::vector<JsonView> conditions = guards.view().field("versions").items();
  require(!codes.empty() && codes.size() == conditions.size(), ErrorCode::bad_file,
          "{}: plan and guards have different versions", file.subject());
  PlanReader reader(file, plan.view().field("constants"));
  std::vector<SavedVersion> out;
  for (size_t i = 0; i < codes.size(); ++i) {
    SavedVersion& v = out.emplace_back();
    for (const auto& [name, value] : codes[i].field("hints").members())
      v.hints[std::string(name)] = value.integer();
    for (const JsonView& c : conditions[i].field("conditions").items())
      v.conditions.push_back(c.text());
    v.artifact = reader.artifact(codes[i].field("artifact"));
  }
  return out;
}

}  // namespace

void write_saved_model(const std::string& path, const SavedModel& model,
                       const std::vector<std::pair<std::string, Tensor>>& live) {
  Sections sections;
  sections.add_owned("manifest", manifest(model).dump());
  sections.add_owned("guards", guards(model).dump());
  sections.add_owned("plan", plan(model, sections).dump());
  for (const auto& [name, bytes] : model.program->texts) sections.add(name, bytes.span);
  add_weights(model, live, sections);
  formats::write_tenon_file(path, sections.list());
}

SavedModel read_saved_model(const std::string& path, bool check_weights) {
  TenonFile file = TenonFile::open(path, check_weights ? "" : weight_sections);
  check_trusted_code(path);
  SavedModel model;
  formats::JsonDocument manifest = json_section(file, "manifest");
  JsonView top = manifest.view();
  model.backend = top.field("backend").text();
  model.mode = top.field("mode").text();
  model.options_toml = top.field("options").text();
  model.program = std::make_shared<const formats::Pt2Program>(
      formats::read_pt2(file, top.field("program").text()));
  model.versions = read_versions(file);
  return model;
}

std::shared_ptr<Artifact> load_artifact(const SavedArtifact& saved, size_t n_inputs,
                                        const std::string& subject) {
  auto graph = std::const_pointer_cast<Graph>(saved.graph);
  if (saved.kind == Kind::functional) {
    Lowered lowered = read_plan(saved.bytes, graph, n_inputs, subject + ": plan");
    size_t n_inner = graph->inputs().size();
    return wrap_inference(std::move(lowered), load_artifact(saved.parts.at(0), n_inner, subject));
  }
  require(graph->inputs().size() == n_inputs, ErrorCode::bad_file,
          "{}: the code takes {} inputs, the model has {}", subject, graph->inputs().size(),
          n_inputs);
  if (saved.kind == Kind::interpreter) return as_fallback(interpreter_artifact(graph), *graph);
  CompileRequest request;
  request.graph = graph;
  request.stage = Stage::inference;
  request.mutated_inputs = saved.mutated_inputs;
  request.dynamic = !graph->symbols.empty();
  return load_with_backend(saved.backend, request, saved.bytes);
}

bool is_saved_model(const std::string& path) {
  return formats::is_tenon_file(formats::map_file(path).span);
}

}  // namespace tenon
