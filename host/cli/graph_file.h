// Graphs from files: .pt2 archives and saved Tenon graphs, as text or JSON; files with compiled
// code.
#pragma once

#include "cli/verb.h"
#include "formats/pt2/pt2.h"
#include "graph/graph.h"
#include "graph/text/document.h"

#include <memory>
#include <string>

namespace tenon::cli {

/// How a model is read and compiled.
struct ModelOptions {
  std::string program;
  std::string max_size;  ///< "4G", "512M" or bytes; empty: the limit of the reader
  bool no_crc = false;
  bool random_weights = false;
  std::string device;        ///< "cuda", "cuda:1"; empty: the CPU
  std::string mode;          ///< of the backend
  std::string options_toml;  ///< of the backend
};

/// The options of verbs that read archives.
void add_archive_options(Options& app, ModelOptions& options);
formats::Pt2Options pt2_options(const ModelOptions& options);

enum class GraphFileKind : uint8_t { archive, text, json, compiled };
/// What a model file is, by its name, or by its content where the name says nothing. Throws
/// UserError bad_file for a missing file and for other kinds.
GraphFileKind graph_file_kind(const std::string& path);

/// Throws UserError for --device beside what is no archive.
void require_no_device_for_graph(const std::string& path, const ModelOptions& options);

/// The graph of a file of any kind.
std::shared_ptr<Graph> load_graph(const std::string& path, const ModelOptions& options,
                                  const ParseOptions& parsing = {});

}  // namespace tenon::cli
