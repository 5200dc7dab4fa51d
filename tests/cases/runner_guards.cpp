// Text cases of the guards: calls of one compiled function, and what they cost.
//
//     body NAME          one of `bodies` below, over the arguments that the calls give
//     options WORD...    dynamic | static | fullgraph | pure
//     flag KEY VALUE     a flag of the configuration, an integer or true or false
//     grad on|off        the mode of the calls that follow
//     budget SHARE|none  the memory budget around the calls that follow
//     call ARGUMENT...   a call, whose result must be the one of the plain function:
//                          f32[4,3]            normal numbers; after it, in any order,
//                            :strides[1,4]  :grad  :negative  :static(0)  :dynamic(0)
//                            :dynamic(0,2,8)   with the least and the greatest size
//                          same(0)             the same tensor as argument 0
//                          view(0)             another tensor over its memory
//                          int=3 float=0.5 text=fast sym=4
//     compiles N, hits N, replays N, breaks N, eager N       counts since the file's start
//     reason TEXT        the newest recompile says this
//     guards BLOCK       the guards of the version that served last
//     error TEXT         the call before threw this
#include <charconv>
#include <map>
#include <sstream>

#include "case_file.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/memory_budget.h>
#include <tenon/tenon.h>

namespace tenon::cases {

namespace {

/// All arguments of a call: what a case writes, by kind.
struct Arguments {
  std::vector<Tensor> tensors;
  std::vector<int> ints;
  std::vector<double> floats;
  std::vector<std::string> texts;
  std::vector<SymInt> syms;
  TENON_TREE(Arguments, tensors, ints, floats, texts, syms)
};

using Body = Tensor (*)(const Arguments&);

const std::map<std::string, Body> bodies = {
    {"relu", [](const Arguments& a) { return a.tensors[0].relu(); }},
    {"sum_all",
     [](const Arguments& a) {
       Tensor sum = a.tensors[0] * 1;
       for (size_t i = 1; i < a.tensors.size(); ++i) sum = sum + a.tensors[i];
       return sum;
     }},
    {"times_size", [](const Arguments& a) { return a.tensors[0] * a.tensors[0].size(0); }},
    {"branch_above_five",
     [](const Arguments& a) {
       return a.tensors[0].size(0) > 5 ? a.tensors[0] * 2 : a.tensors[0] * 3;
     }},
    {"fixed_to_four",
     [](const Arguments& a) { return a.tensors[0] * int64_t{a.tensors[0].size(0)}; }},
    {"times_int", [](const Arguments& a) { return a.tensors[0] * a.ints[0]; }},
    {"times_float", [](const Arguments& a) { return a.tensors[0] * a.floats[0]; }},
    {"times_sym", [](const Arguments& a) { return a.tensors[0] * a.syms[0]; }},
    {"by_text",
     [](const Arguments& a) {
       return a.texts[0] == "double" ? a.tensors[0] * 2 : a.tensors[0] * -1;
     }},
    {"sign_by_item",
     [](const Arguments& a) {
       return a.tensors[0].sum().item<float>() > 0 ? a.tensors[0] + 1 : a.tensors[0] - 1;
     }},
    {"sign_by_truth",
     [](const Arguments& a) {
       Tensor y = a.tensors[0] * 2;
       if (y.sum() > 0) return y + 1;
       return y - 1;
     }},
    {"breaks_once",
     [](const Arguments& a) {
       Tensor y = a.tensors[0] * 2;
       graph_break("for a test");
       return y + 1;
     }},
    {"writes_first",
     [](const Arguments& a) {
       Tensor first = a.tensors[0];
       first.add_(1);
       return a.tensors.back() * 2;
     }},
};

int64_t integer_of(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "'{}' is not an integer", text);
  return value;
}

// "4,3" -> 4, 3
std::vector<int64_t> integers_of(const std::string& text) {
  std::vector<int64_t> values;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) values.push_back(integer_of(part));
  return values;
}

// The text between the first `open` and the `close` after it.
std::string between(const std::string& text, char open, char close) {
  size_t from = text.find(open), to = text.find(close, from);
  require(from != std::string::npos && to != std::string::npos, "'{}' has no {}{}", text, open,
          close);
  return text.substr(from + 1, to - from - 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

Tensor strided_like(const Tensor& dense, const std::vector<int64_t>& strides) {
  int64_t room = 1;
  for (size_t d = 0; d < strides.size(); ++d)
    room += (dense.size(static_cast<int64_t>(d)).guard_int() - 1) * strides[d];
  Tensor t = zeros({room}, dense.dtype()).as_strided(dense.sizes(), SymIntList(strides));
  return t.copy_(dense);
}

void apply_modifier(Tensor& t, const std::string& modifier) {
  if (modifier == "grad") {
    t.requires_grad_();
  } else if (modifier == "negative") {
    t = -t.abs() - 1;
  } else if (modifier.starts_with("strides")) {
    t = strided_like(t, integers_of(between(modifier, '[', ']')));
  } else {
    std::vector<int64_t> v = integers_of(between(modifier, '(', ')'));
    auto bound = [&](size_t i) { return i < v.size() ? std::optional(v[i]) : std::nullopt; };
    if (modifier.starts_with("static"))
      mark_static(t, v.at(0));
    else
      mark_dynamic(t, v.at(0), bound(1), bound(2));
  }
}

Tensor tensor_of(const std::string& text) {
  std::vector<std::string> parts = split(text, ':');
  auto dtype = parse_dtype(parts[0].substr(0, parts[0].find('[')));
  require(dtype.has_value(), "'{}' has no dtype", text);
  Tensor t = ones(integers_of(between(parts[0], '[', ']')), *dtype);
  for (size_t i = 1; i < parts.size(); ++i) apply_modifier(t, parts[i]);
  return t;
}

void add_argument(Arguments& to, const std::string& text) {
  size_t equals = text.find('=');
  std::string kind = text.substr(0, equals), value = text.substr(equals + 1);
  if (text.starts_with("same("))
    to.tensors.push_back(to.tensors.at(static_cast<size_t>(integer_of(between(text, '(', ')')))));
  else if (text.starts_with("view("))
    to.tensors.push_back(
        to.tensors.at(static_cast<size_t>(integer_of(between(text, '(', ')')))).slice(0, 0));
  else if (equals == std::string::npos)
    to.tensors.push_back(tensor_of(text));
  else if (kind == "int")
    to.ints.push_back(static_cast<int>(integer_of(value)));
  else if (kind == "float")
    to.floats.push_back(std::stod(value));
  else if (kind == "text")
    to.texts.push_back(value);
  else if (kind == "sym")
    to.syms.emplace_back(integer_of(value));
  else
    fail("there is no argument of kind {}", kind);
}

/// Arguments with tensors of their own, for the plain function. Two that shared memory still do.
Arguments copies_of(const std::string& text) {
  Arguments copies;
  for (const std::string& part : split(text, ' ')) add_argument(copies, part);
  return copies;
}

/// A flag value as the configuration takes it.
config::Value flag_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text.find_first_not_of("0123456789") == std::string::npos) return integer_of(text);
  return text;
}

class GuardCase {
 public:
  explicit GuardCase(const CaseFile& file) : file_(file) {}
  ~GuardCase() { thread_modes.grad_enabled = grad_before_; }

  void run() {
    for (const Directive& d : file_.directives) {
      if (!error_.empty() && d.word != "error") return fail_case(file_, d, error_);
      try {
        if (!step(d)) fail_case(file_, d, "no such directive of guard cases");
      } catch (const std::exception& error) {
        fail_case(file_, d, error.what());
      }
    }
    if (!error_.empty()) fail_case(file_, file_.directives.back(), error_);
  }

 private:
  bool step(const Directive& d) {
    if (d.word == "body")
      body_ = bodies.at(d.text);
    else if (d.word == "options")
      for (const std::string& word : split(d.text, ' ')) set_option(word);
    else if (d.word == "flag")
      patches_.push_back(config::patch({{d.text.substr(0, d.text.find(' ')),
                                         flag_value(d.text.substr(d.text.rfind(' ') + 1))}}));
    else if (d.word == "grad")
      thread_modes.grad_enabled = d.text == "on";
    else if (d.word == "budget")
      set_budget(d.text);
    else if (d.word == "call")
      call(d);
    else if (d.word == "error")
      expect_part(file_, d, d.text, std::exchange(error_, ""));
    else if (d.word == "reason")
      expect_part(file_, d, d.text, newest_reason());
    else if (d.word == "guards")
      expect_text(file_, d, unindented(d.block), newest_guards());
    else
      return count(d);
    return true;
  }

  void set_option(const std::string& word) {
    if (word == "fullgraph")
      options_.fullgraph = true;
    else if (word == "pure")
      options_.pure = true;
    else
      options_.dynamic = word == "dynamic";
  }

  void set_budget(const std::string& share) {
    budget_.reset();
    if (share != "none") budget_.emplace(std::stod(share));
  }

  bool count(const Directive& d) {
    CallStats s = function().stats();
    const std::map<std::string, int64_t> counts = {{"compiles", s.compiles},
                                                   {"hits", s.hits},
                                                   {"replays", s.replays},
                                                   {"breaks", s.graph_breaks},
                                                   {"eager", s.eager_calls}};
    auto found = counts.find(d.word);
    if (found == counts.end()) return false;
    expect_text(file_, d, d.text, std::to_string(found->second));
    return true;
  }

  void call(const Directive& d) {
    Arguments ours = copies_of(d.text), plain = copies_of(d.text);
    Tensor expected = body_(plain), found;
    try {
      found = function()(ours);
    } catch (const Error& error) {
      error_ = error.what();
      return;
    }
    expect_same(d, expected, found);
    for (size_t i = 0; i < plain.tensors.size(); ++i)
      expect_same(d, plain.tensors[i], ours.tensors[i]);
  }

  void expect_same(const Directive& d, const Tensor& expected, const Tensor& found) {
    auto text = [](const Tensor& t) {
      std::string out = to_text(t);
      for (double v : t.to(Dtype::f64).to_vector<double>()) out += message(" {}", v);
      return out;
    };
    expect_text(file_, d, text(expected), text(found));
  }

  CompiledFunction<Body>& function() {
    options_.backend = "eager";
    if (!function_) function_.emplace(body_, options_);
    return *function_;
  }

  // explain() names the version that served last first, and the newest reason last.
  std::string newest_guards() {
    std::istringstream lines(function().explain());
    std::string line, out;
    while (std::getline(lines, line) && !line.starts_with("version")) continue;
    while (std::getline(lines, line) && !line.starts_with("tng") && !line.starts_with("version") &&
           !line.starts_with("recompiled"))
      out += line + "\n";
    return out;
  }
  std::string newest_reason() {
    std::istringstream lines(function().explain());
    std::string out = "nothing was recompiled";
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("recompiled because ")) out = line;
    return out;
  }
  static std::string unindented(const std::string& block) {
    std::string out;
    for (const std::string& line : split(block, '\n'))
      out += line.substr(std::min(line.find_first_not_of(' '), line.size())) + "\n";
    return out;
  }

  const CaseFile& file_;
  const bool grad_before_ = thread_modes.grad_enabled;
  Body body_ = bodies.at("relu");
  Options options_;
  std::optional<CompiledFunction<Body>> function_;
  std::vector<decltype(config::patch({}))> patches_;
  std::optional<autograd::MemoryBudget> budget_;
  std::string error_;
};

const CaseRoom guards_room("guards", [](const CaseFile& file) { GuardCase(file).run(); });

}  // namespace
}  // namespace tenon::cases
