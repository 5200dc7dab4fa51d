// `tenon man`: the manual page, written from the verbs' own options.
#include "cli/exit_status.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "core/version.h"

namespace tenon::cli {

namespace {

// Text for roff: its escape character and hyphens that are typed, no line that begins a request.
std::string roff(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

const char* type_of(const Option& option) {
  if (option.is_flag || dashed_names(option).empty()) return "";
  constexpr const char* names[] = {"", "INT", "UINT", "FLOAT", "TEXT", "TEXT"};
  static_assert(std::size(names) == std::variant_size_v<Option::Target>);
  return names[option.target.index()];
}

// "--backend TEXT" and what it means; positionals stand in the synopsis too.
std::string described(std::string_view names, std::string_view type, std::string_view doc) {
  std::string head = roff(names) + (type.empty() ? "" : " \\fI" + roff(type));
  return ".TP\n\\fB" + head + "\\fR\n" + roff(doc) + "\n";
}

std::string options_of(const Options& options, bool of_every_verb) {
  std::string out;
  for (const Option& option : options.options)
    if (!option.is_hidden() && (option.group == globals_group) == of_every_verb)
      out += described(option.name, type_of(option), option.doc);
  return out;
}

std::string example_of(const Verb& verb) {
  if (verb.example.empty()) return "";
  return ".PP\nExample:\n.PP\n.nf\n.RS\n" + roff(verb.example) + "\n.RE\n.fi\n";
}

std::string section_of(const Verb& verb, const Options& options) {
  std::string out = message(".SS tenon {}\n{}.\n", roff(verb.name), roff(verb.summary));
  out += options_of(options, false);
  for (const Options& sub : options.verbs) {
    out += message(".PP\n\\fBtenon {} {}\\fR: {}.\n", roff(verb.name), roff(sub.name),
                   roff(sub.summary));
    out += options_of(sub, false);
  }
  return out + example_of(verb);
}

constexpr std::string_view environment = R"(.SH ENVIRONMENT
.TP
TENON_PLUGIN_PATH
folders of plugins, separated by colons; a leading ! means only these
.TP
TENON_<MODULE>_<FLAG>
a flag, as tenon config list shows them
.TP
TENON_CONFIG_DIR
the folder of the project's TOML files
.TP
TENON_CACHE_DIR
the cache
)";

std::string exit_statuses() {
  std::string out = ".SH EXIT STATUS\n";
  for (const ExitMeaning& m : exit_meanings())
    out += message(".TP\n{}\n{}\n", static_cast<int>(m.status), roff(m.meaning));
  return out;
}

int write_manual() {
  std::string verb_sections, common;
  for (const Verb* verb : verbs()) {
    if (verb->hidden) continue;
    Globals globals;
    Action action;
    Options options = cli::options_of(*verb, globals, action);
    verb_sections += section_of(*verb, options);
    if (common.empty()) common = options_of(options, true);
  }
  print(
      message(".TH TENON 1 \"\" \"tenon {}\" \"User Commands\"\n"
              ".SH NAME\ntenon \\- compiles and runs tensor programs and models\n"
              ".SH SYNOPSIS\n\\fBtenon\\fR \\fIVERB\\fR [\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]\n",
              version));
  print(".SH VERBS\n" + verb_sections + ".SH OPTIONS OF EVERY VERB\n" + common);
  print(exit_statuses() + std::string(environment));
  return 0;
}

Action build_man(Options&) {
  return [](const Globals&) { return write_manual(); };
}

}  // namespace

extern constinit const Verb verb_man{.name = "man",
                                     .summary = "writes the manual page",
                                     .example = "tenon man | man -l -",
                                     .build = build_man,
                                     .hidden = true,
                                     .reads_flags = false};

}  // namespace tenon::cli
