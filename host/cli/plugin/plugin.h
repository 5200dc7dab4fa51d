// The sub-commands of `tenon plugin`: one file each, listed in plugin.cpp. Each is described as a
// verb is, and its options stand behind its own name.
#pragma once

#include "backend/find/discover.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace tenon::cli {

extern const Verb plugin_list;
extern const Verb plugin_info;
extern const Verb plugin_check;
extern const Verb plugin_load;
extern const Verb plugin_new;
extern const Verb plugin_release;

/// State, code, reason and hint of a plugin, as the verbs print them: "" for what is not there.
Json verdict_json(const FoundPlugin& plugin);
/// What is doubtful about it, each with its cure.
std::vector<std::string> warning_texts(const FoundPlugin& plugin);

}  // namespace tenon::cli
