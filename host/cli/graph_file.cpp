// Reads graphs from archives, text and JSON.
#include "cli/graph_file.h"

#include "formats/byte_reader.h"
#include "formats/formats.h"
#include "formats/graph_json.h"
#include "formats/pt2/pt2_import.h"
#include "graph/text/parse.h"

#include <tenon/error.h>

#include <charconv>
#include <limits>

namespace tenon::cli {

namespace {

uint64_t parse_bytes(const std::string& text) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : unit.empty() ? 0 : -1;
  require(error == std::errc() && shift >= 0 &&
              number <= (std::numeric_limits<uint64_t>::max() >> shift),
          "--max-size: expected a number of bytes such as 512M or 4G, found '{}'", text);
  return number << shift;
}

}  // namespace

void add_archive_options(Options& app, ModelOptions& options) {
  app.add_option("--program", options.program, "the program of an archive that holds several");
  app.add_option("--max-size", options.max_size, "the largest archive to read: 512M, 4G");
  app.add_flag("--no-crc", options.no_crc, "do not check the records' checksums");
  app.add_flag("--random-weights", options.random_weights,
               "seeded random weights, also for archives without data");
}

formats::Pt2Options pt2_options(const ModelOptions& options) {
  formats::Pt2Options out;
  out.program = options.program;
  if (!options.max_size.empty()) out.max_size = parse_bytes(options.max_size);
  out.check_crc = !options.no_crc;
  out.random_weights = options.random_weights;
  return out;
}

GraphFileKind graph_file_kind(const std::string& path) {
  if (path.ends_with(".json")) return GraphFileKind::json;
  if (path.ends_with(".tng")) return GraphFileKind::text;
  if (path.ends_with(".pt2")) return GraphFileKind::archive;
  if (path.ends_with(".tenon")) return GraphFileKind::compiled;
  const formats::FormatDef& format = formats::find_format(path, ".tng, .tng.json");
  if (format.name == "tenon") return GraphFileKind::compiled;
  require(format.name == "pt2", ErrorCode::bad_file,
          "{}: expected a model (.pt2, .tenon) or a graph (.tng, .tng.json), found {} ({})", path,
          format.description, format.name);
  return GraphFileKind::archive;
}

void require_no_device_for_graph(const std::string& path, const ModelOptions& options) {
  require(options.device.empty() || graph_file_kind(path) == GraphFileKind::archive,
          "{}: only an archive (.pt2) is placed on a device; a graph names its own, so leave "
          "--device out",
          path);
}

std::shared_ptr<Graph> load_graph(const std::string& path, const ModelOptions& options,
                                  const ParseOptions& parsing) {
  GraphFileKind kind = graph_file_kind(path);
  require(kind != GraphFileKind::compiled, ErrorCode::unsupported,
          "{}: holds compiled code; ask about the archive that it was made from", path);
  if (kind == GraphFileKind::archive) {
    formats::Pt2Program program = formats::read_pt2(path, pt2_options(options));
    return formats::import_pt2(program, {.random_weights = options.random_weights}).graph;
  }
  formats::Bytes file = formats::map_file(path);
  std::string_view text = formats::as_text(file.span);
  try {
    return kind == GraphFileKind::json ? formats::parse_graph_json(text, parsing)
                                       : parse_graph(text, parsing);
  } catch (const UserError& error) {
    throw UserError(error.code(), path + ": " + error.what());
  }
}

}  // namespace tenon::cli
