// `tenon completion`: shell completion, written from the verbs' own options.
#include "cli/output.h"
#include "cli/parser.h"
#include "core/joined.h"

#include <tenon/error.h>

namespace tenon::cli {

namespace {

struct Words {
  std::string verb, summary;
  std::vector<std::string> options, subverbs;
};

void add_long_names(const Options& options, std::vector<std::string>& out) {
  for (const Option& option : options.options)
    for (const std::string& name : dashed_names(option))
      if (name.starts_with("--") && !option.is_hidden()) out.push_back(name);
  for (const Options& sub : options.verbs) add_long_names(sub, out);
}

std::vector<Words> all_words() {
  std::vector<Words> out;
  for (const Verb* verb : verbs()) {
    if (verb->hidden) continue;
    Globals globals;
    Action action;
    Options options = options_of(*verb, globals, action);
    Words words{std::string(verb->name), std::string(verb->summary), {"--help"}, {}};
    add_long_names(options, words.options);
    for (const Options& sub : options.verbs) words.subverbs.push_back(sub.name);
    out.push_back(std::move(words));
  }
  return out;
}

std::string bash(const std::vector<Words>& verbs_words) {
  std::vector<std::string> names;
  std::string cases;
  for (const Words& w : verbs_words) {
    names.push_back(w.verb);
    cases += message("    {}) words=\"{} {}\" ;;\n", w.verb, joined(w.options, " "),
                     joined(w.subverbs, " "));
  }
  return message(
      "_tenon() {{\n"
      "  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" words=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"${{COMP_WORDS[1]}}\" in\n{}  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\"))\n"
      "}}\n"
      "complete -o filenames -F _tenon tenon\n",
      joined(names, " "), cases);
}

std::string zsh(const std::vector<Words>& verbs_words) {
  std::string names, cases;
  for (const Words& w : verbs_words) {
    names += message("    '{}:{}'\n", w.verb, w.summary);
    cases += message("    {}) compadd -- {} {} ;;\n", w.verb, joined(w.subverbs, " "),
                     joined(w.options, " "));
  }
  return message(
      "#compdef tenon\n"
      "_tenon() {{\n"
      "  local -a verbs=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then _describe 'verb' verbs; return; fi\n"
      "  case $words[2] in\n{}  esac\n"
      "  _files\n"
      "}}\n"
      "compdef _tenon tenon\n",
      names, cases);
}

std::string fish(const std::vector<Words>& verbs_words) {
  std::string out;
  for (const Words& w : verbs_words) {
    out += message("complete -c tenon -n __fish_use_subcommand -a {} -d '{}'\n", w.verb, w.summary);
    std::string seen = message("complete -c tenon -n '__fish_seen_subcommand_from {}'", w.verb);
    for (const std::string& option : w.options) out += seen + " -l " + option.substr(2) + "\n";
    for (const std::string& sub : w.subverbs) out += seen + " -a " + sub + "\n";
  }
  return out;
}

int complete(const std::string& shell) {
  std::vector<Words> words = all_words();
  print(shell == "bash" ? bash(words) : shell == "zsh" ? zsh(words) : fish(words));
  return 0;
}

Action build_completion(Options& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  return [shell](const Globals&) { return complete(*shell); };
}

}  // namespace

extern constinit const Verb verb_completion{
    .name = "completion",
    .summary = "writes the completion of this command for a shell",
    .example = "source <(tenon completion bash)",
    .build = build_completion,
    .reads_flags = false};

}  // namespace tenon::cli
