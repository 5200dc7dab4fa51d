// Text cases of the graph room.
//
//     graph BLOCK       a graph without its frame; a block that begins with `tng` is a whole text
//     error TEXT        the graph before is refused with this text in the message
//     text BLOCK        the graph prints as this
//     canonical BLOCK   its canonical text
//     pass NAME         dead_code [keep_random], cse, fold [ELEMENTS] or canonicalize, then
//     verified unchanged         the pass before did nothing becomes BLOCK     the graph after the
//     passes run LIST...       the interpreter on inputs with these elements gives LIST... elements
//     of the outputs of the run before problem TEXT      the verifier of metadata says this
#include <memory>
#include <sstream>

#include "case_file.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/passes/passes.h"
#include "graph/text/elements.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"

namespace tenon::cases {

namespace {

std::string framed(const std::string& block) {
  size_t first = block.find_first_not_of(" \t\n");
  if (first != std::string::npos && block.compare(first, 4, "tng ") == 0) return block;
  return "tng 1\ngraph {\n" + block + "}\n";
}

// "[1, 2] [3]" -> "[1, 2]", "[3]"
std::vector<std::string> lists_of(const std::string& text) {
  std::vector<std::string> lists;
  for (size_t at = 0; (at = text.find('[', at)) != std::string::npos;) {
    size_t end = text.find(']', at);
    lists.push_back(text.substr(at, end - at + 1));
    if (end == std::string::npos) break;
    at = end;
  }
  return lists;
}

std::string constant_text(const Tensor& tensor) {
  Graph graph;
  graph.add_constant(tensor, "c");
  return to_text(graph, {.inline_elements = 1 << 16});
}

Tensor tensor_of(const TensorMeta& meta, const std::string& elements) {
  Graph graph;
  GraphValue value;
  value.meta = meta;
  graph.add_input(value);
  std::string text = to_text(graph), type = text.substr(text.find(": ") + 2);
  type = type.substr(0, type.find('\n'));
  auto parsed = parse_graph(framed("constant %c: " + type + " = " + elements + "\noutput\n"));
  return parsed->constant(0);
}

class GraphCase {
 public:
  explicit GraphCase(const CaseFile& file) : file_(file) {}

  void run() {
    for (const Directive& d : file_.directives) {
      directive_ = &d;
      if (!error_.empty() && d.word != "error") return fail_case(file_, d, error_);
      try {
        step(d);
      } catch (const std::exception& error) {
        fail_case(file_, d, error.what());
        return;
      }
    }
    if (!error_.empty()) fail_case(file_, *directive_, error_);
  }

 private:
  void step(const Directive& d) {
    if (d.word == "graph") return read(d);
    if (d.word == "error") {
      expect_part(file_, d, d.text, error_.empty() ? "no error" : error_);
      error_.clear();
    } else if (d.word == "text") {
      expect_text(file_, d, framed(unindented(d.block)), unindented(to_text(*graph_)));
    } else if (d.word == "canonical") {
      expect_text(file_, d, framed(unindented(d.block)), unindented(canonical_text(*graph_)));
    } else if (d.word == "becomes") {
      expect_text(file_, d, to_text(*parse_graph(framed(d.block))), to_text(*graph_));
    } else if (d.word == "pass") {
      changed_ = apply(d);
      verify_meta(*graph_);
    } else if (d.word == "unchanged") {
      if (changed_) fail_case(file_, d, "the pass changed the graph:\n" + to_text(*graph_));
    } else if (d.word == "run") {
      interpret(d);
    } else if (d.word == "gives") {
      compare_outputs(d);
    } else if (d.word == "problem") {
      std::vector<std::string> problems = meta_problems_of(*graph_);
      expect_part(file_, d, d.text, problems.empty() ? "no problem" : problems[0]);
    } else {
      fail_case(file_, d, "no such directive of graph cases");
    }
  }

  void read(const Directive& d) {
    try {
      ParseOptions unchecked;
      unchecked.check_metadata = false;  // `problem` says what is wrong
      graph_ = parse_graph(framed(d.block), unchecked);
      changed_ = false;
    } catch (const UserError& error) {
      error_ = error.what();
    }
  }

  bool apply(const Directive& d) {
    std::istringstream words(d.text);
    std::string pass, option;
    words >> pass >> option;
    if (pass == "dead_code")
      return remove_dead_code(*graph_, {.keep_random = option == "keep_random"});
    if (pass == "cse") return merge_common_subexpressions(*graph_);
    if (pass == "fold")
      return fold_constants(*graph_, {.max_elements = option.empty() ? 16 : std::stoll(option)});
    if (pass == "canonicalize") return canonicalize(*graph_);
    throw std::runtime_error("there is no pass " + pass);
  }

  void interpret(const Directive& d) {
    std::vector<std::string> lists = lists_of(d.text);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < graph_->inputs().size(); ++i)
      inputs.push_back(tensor_of(graph_->value(graph_->inputs()[i]).meta, lists.at(i)));
    std::vector<detail::TensorHead*> heads;
    for (const Tensor& input : inputs) heads.push_back(input.head());
    outputs_.assign(graph_->outputs().size(), Tensor());
    Interpreter(graph_).run(heads, {}, outputs_);
  }

  void compare_outputs(const Directive& d) {
    std::vector<std::string> lists = lists_of(d.text);
    if (lists.size() != outputs_.size())
      return fail_case(file_, d, "the graph gives " + std::to_string(outputs_.size()) + " outputs");
    for (size_t i = 0; i < lists.size(); ++i)
      expect_text(file_, d, constant_text(tensor_of(meta_of(outputs_[i]), lists[i])),
                  constant_text(outputs_[i]));
  }

  // Each line without its indentation, so that blocks may be indented as they like.
  static std::string unindented(const std::string& text) {
    std::istringstream in(text);
    std::string out, line;
    while (std::getline(in, line))
      out += line.substr(std::min(line.find_first_not_of(' '), line.size())) + "\n";
    return out;
  }

  const CaseFile& file_;
  const Directive* directive_ = nullptr;
  std::shared_ptr<Graph> graph_;
  std::vector<Tensor> outputs_;
  std::string error_;
  bool changed_ = false;
};

const CaseRoom graph_room("graph", [](const CaseFile& file) { GraphCase(file).run(); });

}  // namespace
}  // namespace tenon::cases
