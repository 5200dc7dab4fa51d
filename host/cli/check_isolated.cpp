// One file checked in a child process.
#include "cli/check_isolated.h"

#include "core/error.h"
#include "debug/child_process.h"

#include <sys/wait.h>

#include <cstring>

namespace tenon::cli {

IsolatedRun check_isolated(const std::string& file, const std::string& backend,
                           const std::vector<std::string>& arguments) {
  std::vector<std::string> line{"tenon", "check", file, "--json", "-q"};
  if (!backend.empty()) line.push_back("--backend=" + backend);
  line.insert(line.end(), arguments.begin(), arguments.end());
  auto [text, status] = output_of_self(line);
  IsolatedRun run;
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    run.error = message("crashed with signal {} ({})", signal, strsignal(signal));
    return run;
  }
  Json document = formats::json_or_null(text);
  if (document.is_object() && document.find("cases"))
    for (const Json& result : document["cases"]) run.cases.push_back(result);
  else
    run.error =
        message("the child process ended with status {} and no results", WEXITSTATUS(status));
  return run;
}

}  // namespace tenon::cli
