// Reading sessions and running their calls.
#include "debug/replay_calls.h"

#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "debug/compare.h"
#include "debug/graph_runner.h"
#include "debug/random_inputs.h"
#include "formats/byte_reader.h"
#include "formats/json.h"
#include "formats/tensors.h"
#include "graph/text/parse.h"

#include <tenon/autograd.h>

#include <filesystem>
#include <map>
#include <optional>

namespace tenon {

namespace {

namespace fs = std::filesystem;

using Tensors = std::vector<Tensor>;

/// What a line says.
struct RecordedCall {
  ReplayedCall call;
  Tensors inputs;    ///< made up from sizes, or as they were
  Tensors expected;  ///< by output; empty without values
};

std::vector<int64_t> integers(const formats::JsonView& list) {
  std::vector<int64_t> out;
  for (const formats::JsonView& item : list.items()) out.push_back(item.integer());
  return out;
}

Tensor made_up(const formats::JsonView& described, uint64_t seed) {
  if (described.is_null()) return Tensor();
  std::string name = described.field("dtype").text();
  std::optional<Dtype> dtype = parse_dtype(name);
  require(dtype.has_value(), ErrorCode::bad_file, "calls.jsonl: there is no dtype {}", name);
  std::vector<int64_t> sizes = integers(described.field("sizes"));
  std::vector<int64_t> strides = integers(described.field("strides"));
  require(sizes.size() == strides.size(), ErrorCode::bad_file,
          "calls.jsonl: {} sizes and {} strides of one input", sizes.size(), strides.size());
  Tensor out = random_tensor(IntList(sizes), IntList(strides), *dtype, seed);
  // Positions in almost every table.
  if (is_integral(*dtype) && *dtype != Dtype::bool_) out.remainder_(2);
  return out;
}

// A name in the record is that of a file beside it.
std::string beside(const std::string& folder, const std::string& name) {
  require(name.find('/') == std::string::npos && !name.empty(), ErrorCode::bad_file,
          "calls.jsonl: '{}' is not the name of a file beside it", name);
  return (fs::path(folder) / name).string();
}

void take_values(RecordedCall& out, const std::string& path) {
  std::map<std::string, Tensor> values = formats::read_tensors(path).tensors;
  for (size_t i = 0; i < out.inputs.size(); ++i)
    if (auto found = values.find(message("in.{}", i)); found != values.end())
      out.inputs[i] = found->second;
  for (size_t i = 0;; ++i) {
    auto found = values.find(message("out.{}", i));
    if (found == values.end()) break;
    out.expected.push_back(found->second);
  }
  out.call.by_value = true;
}

RecordedCall read_call(const std::string& folder, std::string_view line) {
  formats::JsonDocument document = formats::parse_json(line, folder + "/calls.jsonl");
  formats::JsonView json = document.view();
  RecordedCall out;
  out.call.number = json.field("call").integer();
  out.call.graph = json.field("graph").text();
  out.call.backend = json.field("backend").text();
  std::vector<formats::JsonView> inputs = json.field("inputs").items();
  for (const formats::JsonView& input : inputs)
    out.inputs.push_back(made_up(input, out.inputs.size()));
  std::vector<int64_t> symbols = integers(json.field("symbols"));
  formats::JsonView values = json.field("values");
  if (!values.is_null()) take_values(out, beside(folder, values.text()));
  return out;
}

/// The graphs of a session, compiled once for each backend.
class Runners {
 public:
  Runners(std::string folder, const ReplayOptions& options)
      : folder_(std::move(folder)), options_(options) {}

  GraphRunner& runner(const RecordedCall& recorded) {
    std::unique_ptr<GraphRunner>& known = known_[{recorded.call.graph, recorded.call.backend}];
    if (known) return *known;
    formats::Bytes file = formats::map_file(beside(folder_, recorded.call.graph));
    known = std::make_unique<GraphRunner>(
        parse_graph(formats::as_text(file.span)),
        RunnerOptions{recorded.call.backend, options_.mode, "", false});
    return *known;
  }

 private:
  std::string folder_;
  const ReplayOptions& options_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<GraphRunner>> known_;
};

std::string problem_of(const Tensors& found, const Tensors& expected) {
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    Comparison c = compare_tensors(found[i], expected[i]);
    if (!c.ok)
      return message(
          "output {}: {}", i,
          c.problem.empty() ? message("max abs {}, max rel {}", c.max_abs, c.max_rel) : c.problem);
  }
  return "";
}

std::string run(Runners& runners, RecordedCall& recorded) try {
  NoGradGuard no_history;
  return problem_of(runners.runner(recorded).run(recorded.inputs), recorded.expected);
} catch (const Error& error) {
  return error.what();
}

}  // namespace

bool holds_session(const std::string& folder) {
  std::error_code failed;
  return fs::is_regular_file(fs::path(folder) / "calls.jsonl", failed);
}

std::vector<ReplayedCall> replay_calls(const std::string& folder, const ReplayOptions& options,
                                       const std::function<void(const ReplayedCall&)>& on_call) {
  formats::Bytes file = formats::map_file((fs::path(folder) / "calls.jsonl").string());
  std::string_view text = formats::as_text(file.span);
  Runners runners(folder, options);
  std::vector<ReplayedCall> out;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    RecordedCall recorded = read_call(folder, text.substr(begin, end - begin));
    if (!options.backend.empty()) recorded.call.backend = options.backend;
    recorded.call.problem = run(runners, recorded);
    on_call(recorded.call);
    out.push_back(std::move(recorded.call));
    begin = end + 1;
  }
  return out;
}

}  // namespace tenon
