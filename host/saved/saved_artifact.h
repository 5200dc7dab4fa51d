// Compiled graphs as bytes, for `.tenon` files and for the cache on disk: JSON that says of what
// code is put together, and in sections graphs (saved_graphs.h) and the bytes that plugins saved.
//
// A piece of a graph that was cut is not written as a graph: nodes are cut out of the whole again.
#pragma once

#include "backend/backend.h"
#include "graph/artifact.h"
#include "saved/saved_graphs.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// What is written must outlive the sections.
class ArtifactWriter {
 public:
  explicit ArtifactWriter(Sections& sections) : sections_(sections) {}

  /// What describes it; what is large becomes sections.
  formats::Json add(const SavedArtifact& saved);
  /// The same without its graph, which the reader has.
  formats::Json::Object code(const SavedArtifact& saved);
  /// The number of the graph in the file.
  int64_t graph(const Graph& g);
  /// The order of constants, by graph, for the reader; to be asked after all of them.
  formats::Json constants() const { return constants_; }

 private:
  formats::Json::Array parts(const SavedArtifact& saved);

  Sections& sections_;
  std::map<const Graph*, int64_t> graphs_;
  formats::Json::Array constants_;  // by graph
  uint32_t n_codes_ = 0;
};

class ArtifactReader {
 public:
  /// `constants`: what the writer told of them.
  ArtifactReader(SectionReader section, const formats::JsonView& constants)
      : section_(std::move(section)), constants_(constants.items()) {}

  /// What add(), code() and graph() of the writer gave. Throw UserError bad_file.
  SavedArtifact read(const formats::JsonView& view);
  SavedArtifact code(const formats::JsonView& view);
  std::shared_ptr<Graph> graph(const formats::JsonView& number);

 private:
  SavedPart part(const formats::JsonView& view, SavedArtifact::Kind kind);

  SectionReader section_;
  std::vector<formats::JsonView> constants_;
  std::map<int64_t, std::shared_ptr<Graph>> graphs_;
};

/// The code again, for callers that pass `n_inputs` inputs and take `n_outputs`. `subject` names the
/// file in errors. Throws UserError bad_file, BackendError.
std::shared_ptr<Artifact> load_artifact(const SavedArtifact& saved, size_t n_inputs,
                                        size_t n_outputs, const std::string& subject);
/// Which flag that the plugins read when they compiled the code is another one now; "" where none.
std::string changed_flag(const SavedArtifact& saved);
/// Code without effects around it, for the graph of `request`. Throws BackendError where a flag has
/// changed that decided it.
std::shared_ptr<Artifact> load_code(const SavedArtifact& saved, const CompileRequest& request,
                                    const std::string& subject);

}  // namespace tenon
