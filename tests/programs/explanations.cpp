// What people are told when a pure body turns out not to be, and about callables that are slow.
#include "program.h"

#include <unistd.h>
#include <cstdio>

namespace tenon::programs {
namespace {

// Whether `text` says all of `words`; a plain run has nothing to say.
bool says(const Run& run, const std::string& text, std::initializer_list<const char*> words) {
  bool all = true;
  for (const char* word : words) {
    bool found = text.find(word) != std::string::npos;
    if (!found && !run.is_plain()) std::printf("no \"%s\" in: %s\n", word, text.c_str());
    all = all && found;
  }
  return run.is_plain() || all;
}

/// What goes to the error stream while one lives.
class ErrorStream {
 public:
  ErrorStream() : before_(::dup(STDERR_FILENO)), file_(std::tmpfile()) {
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  ~ErrorStream() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fclose(file_);
  }
  std::string text() const {
    std::string out;
    std::rewind(file_);
    for (int c; (c = std::fgetc(file_)) != EOF;) out += char(c);
    return out;
  }

 private:
  int before_;
  std::FILE* file_;
};

TENON_PROGRAM(AStaleNumberIsNamed, 4) {
  double factor = 2;
  auto f =
      run.compile([&](const Tensor& x) { return (x + 1.0) * factor; },
                  {.options = {{"capture.retrace_check", "1"}}, .pure = true, .name = "scale"});
  f(row({1, 2}));
  factor = 5;
  ErrorStream stream;
  run.log(f(row({1, 2})), f(row({1, 2})));
  run.log(says(run, stream.text(), {"scale", "mul", "2", "5", "explanations.cpp"}));
  run.log(says(run, f.explain(), {"every call"}));
  run.log(f.explain().find("alone") == std::string::npos);
}

TENON_PROGRAM(AStaleNumberAsAnError, 4) {
  double factor = 2;
  auto f =
      run.compile([&](const Tensor& x) { return x * factor; },
                  {.options = {{"capture.retrace_check", "1"}, {"capture.on_stale", "\"error\""}},
                   .pure = true});
  f(row({1, 2}));
  f(row({1, 2}));
  factor = 5;
  std::string error;
  for (int i = 0; i < 2; ++i) try {
      f(row({1, 2}));
    } catch (const UserError& e) {
      error = e.what();
    }
  run.log(says(run, error, {"mul", "2", "5"}));
}

TENON_PROGRAM(AnExplanationNamesWhatDiffered, 3) {
  int mode = 0;
  auto f =
      run.compile([&](const Tensor& x) { return mode ? x.relu() : x.abs(); }, {.name = "pick"});
  for (mode = 0; mode < 2; ++mode) run.log(f(row({1, -2})));
  run.log(says(run, f.explain(), {"relu", "abs"}));
}

TENON_PROGRAM(AnExplanationNamesTheLook, 3) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x * 2.0;
    return y.sum().item<float>() > 3 ? y : -y;
  });
  for (int i = 0; i < 3; ++i) run.log(f(row({1, float(i)})));
  run.log(says(run, f.explain(), {"explanations.cpp"}));
}

TENON_PROGRAM(TheLimitIsNamedOnce, 2) {
  auto f = run.compile([](const Tensor& x) { return x * 2.0; },
                       {.dynamic = false, .recompile_limit = 2, .name = "many"});
  ErrorStream stream;
  for (int i = 0; i < 8; ++i) run.log(f(ones({i + 2})));
  std::string text = stream.text();
  size_t first = text.find("recompile_limit");
  run.log(says(run, text, {"many", "recompile_limit"}));
  run.log(run.is_plain() || text.find("recompile_limit", first + 200) == std::string::npos);
}

}  // namespace
}  // namespace tenon::programs
