// Graphs and their constants in files of sections.
#include "saved/saved_graphs.h"

#include "core/error.h"
#include "core/tensor/exposure.h"
#include "core/tensor/tensor_impl.h"
#include "formats/limits.h"
#include "graph/hash.h"
#include "graph/text/elements.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"

#include <algorithm>

namespace tenon {

using formats::Bytes;
using formats::Json;
using formats::JsonView;

namespace {

constexpr size_t inline_elements = 16;
constexpr std::string_view constant_sections = "constant/";

void add_constants(Sections& sections, const Graph& graph) {
  for (ValueId c : graph.constants()) {
    Tensor t = graph.constant(c);
    if (static_cast<size_t>(t.numel().guard_int()) <= inline_elements) continue;
    std::string bytes = element_bytes(t);
    Digest digest = sha256(bytes);
    std::string name = std::string(constant_sections) +
                       to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
    if (!sections.has(name)) sections.add_owned(name, std::move(bytes));
  }
  for (const auto& sub : graph.subgraphs) add_constants(sections, *sub);
}

Tensor read_constant(const SectionReader& section, const MissingConstant& c) {
  Bytes bytes = section(std::string(constant_sections) + c.sha256);
  std::vector<int64_t> sizes;
  for (SymInt s : c.meta.sizes) sizes.push_back(s.guard_int());
  int64_t n = formats::checked_numel(sizes, c.meta.dtype, c.name);
  require(bytes.span.size() == static_cast<size_t>(n * itemsize(c.meta.dtype)), ErrorCode::bad_file,
          "constant {} has {} bytes, expected {}", c.name, bytes.span.size(),
          n * itemsize(c.meta.dtype));
  auto* owner = new std::shared_ptr<const void>(bytes.owner);
  Tensor mapped = from_memory(
      const_cast<std::byte*>(bytes.span.data()), sizes, c.meta.dtype, {},
      [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); }, owner);
  keep_private(*impl_of(mapped)->storage_ref.get());
  return c.meta.device == kCPU ? mapped : mapped.to(c.meta.device, c.meta.dtype);
}

// `given`: the number of each constant, in the order of the text.
void number_constants(Graph& graph, const JsonView& given) {
  std::vector<JsonView> numbers = given.items();
  std::vector<Tensor> tensors;
  for (ValueId c : graph.constants()) tensors.push_back(graph.constant(c));
  std::vector<bool> taken(tensors.size());
  bool fits = numbers.size() == tensors.size();
  for (size_t i = 0; fits && i < numbers.size(); ++i) {
    int64_t at = numbers[i].integer();
    fits = at >= 0 && static_cast<size_t>(at) < taken.size() && !taken[static_cast<size_t>(at)];
    if (fits) taken[static_cast<size_t>(at)] = true;
  }
  require(fits, ErrorCode::bad_file, "{}: the graph has other constants", given);
  for (size_t i = 0; i < tensors.size(); ++i) {
    ValueId c = graph.constants()[i];
    graph.value(c).source_index = static_cast<uint32_t>(numbers[i].integer());
    graph.replace_constant(c, tensors[i]);
  }
}

}  // namespace

bool Sections::has(const std::string& name) const {
  return std::ranges::any_of(list_, [&](const auto& s) { return s.first == prefix_ + name; });
}

Json add_graph(Sections& sections, const std::string& name, const Graph& graph) {
  add_constants(sections, graph);
  sections.add_owned(
      name, to_text(graph, PrintOptions{.locations = false, .inline_elements = inline_elements}));
  Json::Array numbers;
  for (ValueId c : constants_as_written(graph))
    numbers.emplace_back(int64_t{graph.value(c).source_index});
  return numbers;
}

std::shared_ptr<Graph> read_graph(const SectionReader& section, const std::string& name,
                                  const JsonView& constants) {
  Bytes text = section(name);
  ParseOptions options;
  options.check_digests = false;  // sections have digests of their own
  options.constant = [&](const MissingConstant& c) { return read_constant(section, c); };
  std::shared_ptr<Graph> graph = parse_graph(formats::as_text(text.span), options);
  number_constants(*graph, constants);
  return graph;
}

}  // namespace tenon
