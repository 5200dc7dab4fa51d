// One compilation as plugins see it: tn_ctx, and the options that tn_options gives.
#pragma once

#include "backend/abi/graph_view.h"
#include "backend/backend.h"
#include "backend/find/manifest.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon {
struct CacheScope;
}

struct tn_options {
  std::map<std::string, tenon::OptionValue, std::less<>> values;  ///< all declared ones, resolved
  mutable std::map<std::string, std::vector<tn_str>, std::less<>> lists;
};

struct tn_ctx {
  const tenon::CompileRequest* request = nullptr;
  std::string backend, plugin;
  const tenon::CacheScope* cache = nullptr;  ///< null: nothing is kept on disk
  tn_options options;
  std::vector<const tenon::Expr*> guards;        ///< asked for by the plugin
  std::vector<tenon::FlagRead> flags_read;       ///< by the plugin: kept beside what it saves
  std::deque<std::unique_ptr<tn_graph>> graphs;  ///< made for it: extract, decompose
  std::deque<std::string> strings;
};
