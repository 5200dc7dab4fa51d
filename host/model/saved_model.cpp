// Models as sections of a `.tenon` file.
#include "model/saved_model.h"

#include "backend/backend.h"
#include "core/device/device_memory.h"
#include "core/error.h"
#include "core/sym/symbol_numbers.h"
#include "core/tensor/tensor_impl.h"
#include "core/version.h"
#include "formats/json.h"
#include "formats/pt2/pt2.h"
#include "formats/tenon_file.h"
#include "graph/text/parse.h"
#include "saved/saved_artifact.h"

#include <algorithm>
#include <map>

namespace tenon {

using formats::ByteSpan;
using formats::Json;
using formats::JsonView;
using formats::TenonFile;

namespace {

constexpr std::string_view weight_sections = "data/";

// ---- writing

Json manifest(const SavedModel& model) {
  Json::Object out{{"tenon", version},
                   {"program", model.program->name},
                   {"source", model.program->file},
                   {"backend", model.backend},
                   {"mode", model.mode},
                   {"options", model.options_toml},
                   {"versions", static_cast<int64_t>(model.versions.size())}};
  if (model.device != kCPU) out.push_back({"device", to_text(model.device)});
  return out;
}

Json overlaps(const CallMemory& memory) {
  Json::Array out;
  for (const Overlap& o : memory.overlaps)
    out.emplace_back(Json::Array{int64_t{o.first}, int64_t{o.second}, o.bytes});
  return out;
}

Json guards(const SavedModel& model) {
  Json::Array versions;
  for (const SavedVersion& v : model.versions) {
    Json::Array conditions;
    for (const std::string& c : v.conditions) conditions.emplace_back(c);
    Json::Object out{{"conditions", conditions}};
    if (v.memory.as_given) out.push_back({"as_given", true});
    if (!v.memory.overlaps.empty()) out.push_back({"overlaps", overlaps(v.memory)});
    versions.emplace_back(std::move(out));
  }
  return Json::Object{{"versions", versions}};
}

Json plan(const SavedModel& model, Sections& sections) {
  ArtifactWriter writer(sections);
  Json::Array versions;
  for (const SavedVersion& v : model.versions) {
    Json::Object hints;
    for (const auto& [symbol, value] : v.hints) hints.push_back({symbol_text(symbol), value});
    versions.emplace_back(Json::Object{{"hints", hints}, {"artifact", writer.add(v.artifact)}});
  }
  return Json::Object{{"versions", versions}, {"constants", writer.constants()}};
}

ByteSpan memory_of(const Tensor& t) {
  const StorageRef& storage = impl_of(t)->storage_ref;
  return {static_cast<const std::byte*>(storage->data), storage->bytes};
}

std::string memory_from_device(const Tensor& t) {
  std::string out(memory_of(t).size(), '\0');
  copy_bytes(out.data(), kCPU, impl_of(t)->storage_ref->data, t.device(), out.size());
  return out;
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
      std::string brought;
      if (now != changed.end() && now->second.device() != kCPU)
        bytes = formats::as_byte_span(brought = memory_from_device(now->second));
      else if (now != changed.end())
        bytes = memory_of(now->second);
      require(bytes.size() >= w.storage.span.size() / static_cast<size_t>(itemsize(w.dtype)) *
                                  static_cast<size_t>(itemsize(w.dtype)),
              "{}: weight {} has fewer bytes than in the archive", model.program->file, w.name);
      if (brought.empty())
        sections.add(std::move(name), bytes);
      else
        sections.add_owned(name, std::move(brought));
    }
}

// ---- reading

formats::JsonDocument json_section(const TenonFile& file, const char* name) {
  return formats::parse_json(file.section(name).span, file.subject() + ": " + name);
}

CallMemory read_memory(const JsonView& guards, size_t n_inputs) {
  CallMemory memory;
  if (auto as_given = guards.optional_field("as_given")) memory.as_given = as_given->boolean();
  auto overlaps = guards.optional_field("overlaps");
  if (!overlaps) return memory;
  for (const JsonView& o : overlaps->items()) {
    std::vector<JsonView> parts = o.items();
    require(parts.size() == 3, ErrorCode::bad_file, "{}: expected two inputs and a distance", o);
    memory.overlaps.push_back(
        {parts[0].number_below(n_inputs), parts[1].number_below(n_inputs), parts[2].integer()});
  }
  return memory;
}

std::vector<SavedVersion> read_versions(const TenonFile& file, const formats::Pt2Program& program) {
  formats::JsonDocument plan = json_section(file, "plan"), guards = json_section(file, "guards");
  std::vector<JsonView> codes = plan.view().field("versions").items();
  std::vector<JsonView> conditions = guards.view().field("versions").items();
  require(!codes.empty() && codes.size() == conditions.size(), ErrorCode::bad_file,
          "{}: plan and guards have different versions", file.subject());
  ArtifactReader reader([&](const std::string& name) { return file.section(name); },
                        plan.view().field("constants"));
  std::vector<SavedVersion> out;
  for (size_t i = 0; i < codes.size(); ++i) {
    SavedVersion& v = out.emplace_back();
    for (const auto& [name, value] : codes[i].field("hints").members()) {
      const Expr* symbol = program.symbols->find_symbol(name);
      require(symbol != nullptr, ErrorCode::bad_file, "{}: the program has no such symbol", value);
      v.hints[symbol] = value.integer();
    }
    for (const JsonView& c : conditions[i].field("conditions").items())
      v.conditions.push_back(c.text());
    v.memory = read_memory(conditions[i], program.inputs.size());
    v.artifact = reader.read(codes[i].field("artifact"));
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

namespace {

// Who renames a new file over the old one while this one opens it does nothing wrong: the new one is
// judged instead. One who never rests is refused in the end.
TenonFile open_trusted(const std::string& path, std::string_view unchecked) {
  constexpr int most_attempts = 20;
  for (int attempt = 1;; ++attempt) {
    formats::OpenedFile opened(path);
    try {
      check_trusted_code(path, opened.descriptor());
    } catch (const BackendError&) {
      if (attempt == most_attempts || opened.is_at_its_path()) throw;
      continue;
    }
    return TenonFile::open(opened, unchecked);
  }
}

}  // namespace

SavedModel read_saved_model(const std::string& path, bool check_weights) {
  TenonFile file = open_trusted(path, check_weights ? "" : weight_sections);
  SavedModel model;
  formats::JsonDocument manifest = json_section(file, "manifest");
  JsonView top = manifest.view();
  model.backend = top.field("backend").text();
  model.mode = top.field("mode").text();
  model.options_toml = top.field("options").text();
  if (auto device = top.optional_field("device")) {
    std::optional<Device> named = parse_device(device->text());
    require(named.has_value(), ErrorCode::bad_file, "{}: expected a device such as cpu or cuda:0",
            *device);
    model.device = *named;
  }
  model.program = std::make_shared<const formats::Pt2Program>(
      formats::read_pt2(file, top.field("program").text()));
  model.versions = read_versions(file, *model.program);
  return model;
}

bool is_saved_model(const std::string& path) {
  return formats::is_tenon_file(formats::map_file(path).span);
}

}  // namespace tenon
