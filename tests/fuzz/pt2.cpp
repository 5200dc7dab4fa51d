// .pt2 archives, their graphs and what these give. An input is an archive, or the records of one.
#include "formats/pt2/pt2_call.h"
#include "formats/pt2/pt2_import.h"
#include "formats/zip.h"
#include "harness/graph_checks.h"
#include "harness/run_checks.h"

#include <sstream>

using namespace tenon;
using namespace tenon::formats;

namespace {

// Empty where the records are not those of an archive.
std::string archive_of(const fuzz::Records& records) {
  std::ostringstream out;
  ZipWriter zip(out);
  bool complete = fuzz::accepts(fuzz::file_errors, [&] {
    for (const auto& [name, content] : records) zip.add("m/" + name, as_byte_span(content));
    zip.finish();
  });
  return complete ? out.str() : std::string();
}

}  // namespace

TENON_FUZZ_TARGET(pt2) {
  fuzz::Records records = fuzz::records_of(input);
  std::string archive = records.empty() ? std::string(input) : archive_of(records);
  Pt2Options options{.max_size = 16 << 20, .check_crc = false, .random_weights = true};
  Pt2Program program;
  // An archive with several programs asks which one is meant.
  if (!fuzz::accepts({ErrorCode::bad_file, ErrorCode::unsupported, ErrorCode::invalid_argument},
                     [&] { program = read_pt2(fuzz::bytes_of(archive), "a.pt2", options); }))
    return;
  ImportOptions without_data{.with_weights = false};
  fuzz::accepts(fuzz::file_errors, [&] {
    ImportedModel model = import_pt2(program, without_data);
    fuzz::check(model.inputs.size() == model.graph->inputs().size(), "inputs are missing");
    describe_leaves(model);
    fuzz::check_graph(*model.graph);
    fuzz::check_runs(to_text(*model.graph));
  });
}
