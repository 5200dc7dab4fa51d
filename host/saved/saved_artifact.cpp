// Writing, reading and loading of compiled graphs, part by part.
#include "saved/saved_artifact.h"

#include "aot/saved_plan.h"
#include "backend/backend.h"
#include "backend/compile/compile_bodies.h"
#include "backend/compile/fallback.h"
#include "backend/compile/stitched.h"
#include "core/error.h"
#include "graph/dependencies.h"

#include <tenon/config.h>
#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

using formats::as_text;
using formats::Json;
using formats::JsonView;
using Kind = SavedArtifact::Kind;

namespace {

constexpr std::string_view kind_names[] = {"interpreter", "plugin", "functional", "pieces",
                                           "bodies"};

Json::Object flags_json(const std::vector<FlagRead>& flags) {
  Json::Object out;
  for (const FlagRead& flag : flags) out.push_back({flag.key, flag.value});
  return out;
}

}  // namespace

// ---- writing

Json ArtifactWriter::add(const SavedArtifact& saved) {
  Json::Object out = code(saved);
  out.push_back({"graph", graph(*saved.graph)});
  return out;
}

Json::Object ArtifactWriter::code(const SavedArtifact& saved) {
  Json::Object out{{"kind", kind_names[static_cast<size_t>(saved.kind)]}};
  if (saved.kind == Kind::plugin) {
    out.push_back({"backend", saved.backend});
    out.push_back({"fingerprint", saved.fingerprint});
    if (!saved.flags.empty()) out.push_back({"flags", flags_json(saved.flags)});
    out.push_back({"mutated_inputs", formats::json_list(saved.mutated_inputs)});
    out.push_back({"code", int64_t{n_codes_}});
    sections_.add_owned(message("code/{}", n_codes_++), saved.bytes);
  }
  if (saved.kind == Kind::functional) {
    out.push_back({"plan", saved.bytes});
    out.push_back({"inner", add(saved.parts.at(0).code)});
  }
  if (saved.kind == Kind::pieces || saved.kind == Kind::bodies)
    out.push_back({"parts", parts(saved)});
  return out;
}

Json::Array ArtifactWriter::parts(const SavedArtifact& saved) {
  Json::Array out;
  for (const SavedPart& part : saved.parts) {
    Json::Object described{{"code", code(part.code)}};
    if (saved.kind == Kind::bodies) {
      described.push_back({"body", int64_t{part.body}});
    } else {
      described.push_back({"nodes", formats::json_list(part.nodes)});
      described.push_back({"title", part.title});
      described.push_back({"is_region", part.is_region});
    }
    out.emplace_back(std::move(described));
  }
  return out;
}

// A graph that several artifacts have is written once.
int64_t ArtifactWriter::graph(const Graph& g) {
  auto [at, is_new] = graphs_.try_emplace(&g, static_cast<int64_t>(graphs_.size()));
  if (!is_new) return at->second;
  constants_.push_back(add_graph(sections_, message("graph/{}", at->second), g));
  return at->second;
}

// ---- reading

SavedArtifact ArtifactReader::read(const JsonView& view) {
  SavedArtifact out = code(view);
  out.graph = graph(view.field("graph"));
  return out;
}

SavedArtifact ArtifactReader::code(const JsonView& view) {
  SavedArtifact out;
  auto known = std::ranges::find(kind_names, view.field("kind").text());
  require(known != std::end(kind_names), ErrorCode::bad_file, "{}: code of an unknown kind", view);
  out.kind = static_cast<Kind>(known - std::begin(kind_names));
  if (out.kind == Kind::plugin) {
    out.backend = view.field("backend").text();
    if (auto fingerprint = view.optional_field("fingerprint"))
      out.fingerprint = fingerprint->text();
    if (auto flags = view.optional_field("flags"))
      for (const auto& [key, value] : flags->members())
        out.flags.push_back({std::string(key), value.text()});
    out.mutated_inputs = view.field("mutated_inputs").numbers_below(no_value);
    out.bytes = as_text(section_(message("code/{}", view.field("code").integer())).span);
  }
  if (out.kind == Kind::functional) {
    out.bytes = view.field("plan").text();
    out.parts.push_back({read(view.field("inner"))});
  }
  if (out.kind == Kind::pieces || out.kind == Kind::bodies)
    for (const JsonView& p : view.field("parts").items()) out.parts.push_back(part(p, out.kind));
  return out;
}

SavedPart ArtifactReader::part(const JsonView& view, Kind kind) {
  SavedPart out{code(view.field("code"))};
  require(out.code.kind != Kind::functional, ErrorCode::bad_file,
          "{}: a part of a graph has effects", view);
  if (kind == Kind::bodies) {
    out.body = view.field("body").number_below(no_value);
  } else {
    out.nodes = view.field("nodes").numbers_below(no_value);
    out.title = view.field("title").text();
    out.is_region = view.field("is_region").boolean();
  }
  return out;
}

std::shared_ptr<Graph> ArtifactReader::graph(const JsonView& number) {
  const uint32_t n = number.number_below(constants_.size());
  std::shared_ptr<Graph>& found = graphs_[n];
  if (!found) found = read_graph(section_, message("graph/{}", n), constants_[n]);
  return found;
}

// ---- loading

namespace {

std::shared_ptr<Artifact> load(const SavedArtifact& saved, const std::shared_ptr<Graph>& graph,
                               const std::string& subject);

// Each node once, and after those that it waits for: so pieces are convex, too.
void check_order(const SavedArtifact& saved, const Graph& graph, const std::string& subject) {
  Dependencies dependencies(graph);
  size_t n_nodes = graph.nodes().size(), n_seen = 0;
  std::vector<bool> seen(n_nodes);
  for (const SavedPart& part : saved.parts)
    for (NodeId n : part.nodes) {
      bool is_next = n < n_nodes && !seen[n] &&
                     std::ranges::all_of(dependencies.before(n), [&](NodeId b) { return seen[b]; });
      require(is_next, ErrorCode::bad_file, "{}: node {} of a graph in {} pieces is not to be run",
              subject, n, saved.parts.size());
      seen[n] = true;
      ++n_seen;
    }
  require(n_seen == n_nodes, ErrorCode::bad_file, "{}: the pieces of a graph lack {} of its nodes",
          subject, n_nodes - n_seen);
}

std::shared_ptr<Artifact> load_pieces(const SavedArtifact& saved,
                                      const std::shared_ptr<Graph>& graph,
                                      const std::string& subject) {
  check_order(saved, *graph, subject);
  Extractor extractor(*graph);
  std::vector<CompiledPiece> pieces;
  for (const SavedPart& part : saved.parts) {
    CompiledPiece& piece = pieces.emplace_back();
    piece.nodes = part.nodes;
    piece.part = extractor.cut(part.nodes);
    piece.artifact = load(part.code, piece.part.graph, subject);
    piece.title = part.title;
    piece.is_region = part.is_region;
  }
  return stitch(graph, std::move(pieces));
}

std::shared_ptr<Artifact> load_bodies(const SavedArtifact& saved,
                                      const std::shared_ptr<Graph>& graph,
                                      const std::string& subject) {
  BodyCode code;
  for (const SavedPart& part : saved.parts) {
    require(part.body < graph->subgraphs.size(), ErrorCode::bad_file,
            "{}: a graph of {} bodies has no body {}", subject, graph->subgraphs.size(), part.body);
    const std::shared_ptr<Graph>& body = graph->subgraphs[part.body];
    code.emplace(body.get(), load(part.code, body, subject));
  }
  return interpreter_over_bodies(graph, std::move(code));
}

std::shared_ptr<Artifact> load(const SavedArtifact& saved, const std::shared_ptr<Graph>& graph,
                               const std::string& subject) {
  for (uint32_t i : saved.mutated_inputs)
    require(i < graph->inputs().size(), ErrorCode::bad_file,
            "{}: code writes input {} of a graph of {} inputs", subject, i, graph->inputs().size());
  CompileRequest request;
  request.graph = graph;
  request.stage = Stage::inference;
  request.mutated_inputs = saved.mutated_inputs;
  request.dynamic = !graph->symbols.empty();
  return load_code(saved, request, subject);
}

// A flag may be the option of a backend that is not installed any more.
std::string value_now(const std::string& key) {
  try {
    return config::value_text(config::get(key));
  } catch (const UserError&) {
    return "unknown";
  }
}

void check_flags(const SavedArtifact& saved, const std::string& subject) {
  std::string changed = changed_flag(saved);
  if (!changed.empty())
    throw BackendError(ErrorCode::backend_compiler_failed, TN_FAILED_PRECONDITION,
                       message("{}: {}; set it so, or compile again", subject, changed));
}

}  // namespace

std::string changed_flag(const SavedArtifact& saved) {
  for (const FlagRead& flag : saved.flags)
    if (std::string now = value_now(flag.key); now != flag.value)
      return message("backend {} compiled with {} = {}, which is {} now", saved.backend, flag.key,
                     flag.value, now);
  for (const SavedPart& part : saved.parts)
    if (std::string changed = changed_flag(part.code); !changed.empty()) return changed;
  return {};
}

std::shared_ptr<Artifact> load_code(const SavedArtifact& saved, const CompileRequest& request,
                                    const std::string& subject) {
  switch (saved.kind) {
    case Kind::interpreter:
      return as_fallback(interpreter_artifact(request.graph), *request.graph);
    case Kind::plugin:
      check_flags(saved, subject);
      return load_with_backend(saved, request);
    case Kind::pieces:
      return load_pieces(saved, request.graph, subject);
    case Kind::bodies:
      return load_bodies(saved, request.graph, subject);
    case Kind::functional:
      break;
  }
  fail("{}: effects of a part of a graph", subject);
}

std::shared_ptr<Artifact> load_artifact(const SavedArtifact& saved, size_t n_inputs,
                                        size_t n_outputs, const std::string& subject) {
  auto graph = std::const_pointer_cast<Graph>(saved.graph);
  auto check_outputs = [&](size_t n) {
    require(n == n_outputs, ErrorCode::bad_file, "{}: the code gives {} outputs, the model has {}",
            subject, n, n_outputs);
  };
  if (saved.kind == Kind::functional) {
    Lowered lowered = read_plan(saved.bytes, graph, n_inputs, subject + ": plan");
    check_outputs(lowered.outputs.size());
    auto code = load_artifact(saved.parts.at(0).code, graph->inputs().size(),
                              graph->outputs().size(), subject);
    return wrap_inference(std::move(lowered), std::move(code));
  }
  require(graph->inputs().size() == n_inputs, ErrorCode::bad_file,
          "{}: the code takes {} inputs, the model has {}", subject, graph->inputs().size(),
          n_inputs);
  check_outputs(graph->outputs().size());
  return load(saved, graph, subject);
}

}  // namespace tenon
