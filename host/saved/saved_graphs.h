// Graphs in files of sections: `.tenon` files and entries of the cache on disk.
//
// A graph is a section of text; constants of more than a few elements are sections of their own,
// named by the digest of their bytes, so that graphs share them.
#pragma once

#include "formats/json.h"
#include "formats/tenon_file.h"
#include "graph/graph.h"

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace tenon {

/// The sections of one file, and what of their bytes is nobody else's.
class Sections {
 public:
  /// `prefix` stands before each name in the file.
  explicit Sections(std::string_view prefix = {}) : prefix_(prefix) {}
  void add(const std::string& name, formats::ByteSpan bytes) {
    list_.emplace_back(prefix_ + name, bytes);
  }
  void add_owned(const std::string& name, std::string bytes) {
    add(name, formats::as_byte_span(owned_.emplace_back(std::move(bytes))));
  }
  bool has(const std::string& name) const;
  const formats::TenonSections& list() const { return list_; }

 private:
  std::string prefix_;
  formats::TenonSections list_;
  std::deque<std::string> owned_;
};

/// Adds the graph as section `name`, and its constants. The result tells in what order code knows
/// these, which the text does not keep; it is for read_graph().
formats::Json add_graph(Sections& sections, const std::string& name, const Graph& graph);

/// Gives a section by its name; throws UserError bad_file where there is none.
using SectionReader = std::function<formats::Bytes(const std::string& name)>;

/// The graph again; constants lie where `section` says. Throws UserError bad_file.
std::shared_ptr<Graph> read_graph(const SectionReader& section, const std::string& name,
                                  const formats::JsonView& constants);

}  // namespace tenon
