// Compiling: the reasons against recording, then pieces, then code.
#include "compile.h"

namespace recordings {

using tenon::plugin::check;
using tenon::plugin::error;
using tenon::plugin::graph;
using tenon::plugin::program;
using tenon::plugin::str;
using tenon::plugin::sv;
using tenon::plugin::text;

namespace {

std::string name_of(const tn_compile_request& request) {
  std::string id(sv(request.compile_id));
  const char* half = request.stage == TN_STAGE_FORWARD    ? ", forward"
                     : request.stage == TN_STAGE_BACKWARD ? ", backward"
                                                          : "";
  return (id.empty() ? "graph" : "graph " + id) + half;
}

/// One compile.
class Compile {
 public:
  Compile(const tn_compile_request& request, Compiling how)
      : request_(request), g_(request), how_(std::move(how)), name_(name_of(request)) {}

  Outcome run() {
    std::optional<int32_t> device = device_of(g_);
    if (!device) return {};
    require_device(*device);
    if (std::optional<Skip> why = forbidden()) return left(*why);
    std::unique_ptr<program> steps;
    try {
      steps = std::make_unique<program>(request_);
    } catch (const error& e) {
      if (e.code != TN_DECLINED) throw;
      return left(first_skip(*device, e.what()));
    }
    Pieces pieces =
        divided(g_, *device, settings().divides ? settings().min_nodes : 0, how_.draws_there);
    if (!pieces.skips.empty() && (!settings().divides || pieces.n_recorded() == 0))
      return left(pieces.skips[0]);
    if (pieces.list.empty()) return {};
    if (std::optional<Skip> why = too_small(pieces)) return left(*why);
    try {
      std::vector<Skip> skips = pieces.skips;
      auto made = std::make_unique<Recorded>(request_, std::move(steps), std::move(pieces), *device,
                                             settings(), name_, how_.maker);
      for (const Skip& skip : skips) tell(skip);
      return {std::move(made), ""};
    } catch (const Unrecorded& e) {
      return left(e.why);
    }
  }

 private:
  const Settings& settings() const { return how_.settings; }

  // Throws the reason where there is no such device.
  static void require_device(int32_t device) {
    tn_cuda_facts facts{};
    facts.struct_size = sizeof facts;
    check(cuda().facts(device, &facts));
  }

  Skip skip(const char* reason, std::string sentence) const {
    return {reason, std::move(sentence), "", "", TN_NO_VALUE};
  }

  std::optional<Skip> forbidden() const {
    const std::string& backend = settings().backend;
    if (settings().is_blocking)
      return skip("disabled", text("{}.cuda_launch_blocking is on", backend));
    if (settings().n_symbols > 0 && settings().skips_dynamic)
      return skip(
          "dynamic_shapes",
          text("it has symbolic sizes, and {}.cudagraph_skip_dynamic_graphs is on", backend));
    if (settings().has_sizes && settings().sizes.empty())
      return skip("dynamic_shapes",
                  text("{}.cudagraph_capture_sizes lists no sizes for graphs with {} symbols",
                       backend, settings().n_symbols));
    return std::nullopt;
  }

  // The program cannot be kept: most often since a node has bodies.
  Skip first_skip(int32_t device, const std::string& problem) const {
    Pieces pieces = divided(g_, device, 0, how_.draws_there);
    if (!pieces.skips.empty()) return std::move(pieces.skips[0]);
    return skip("unsafe_op", "its nodes cannot be run one by one: " + problem);
  }

  std::optional<Skip> too_small(const Pieces& pieces) const {
    size_t nodes = 0;
    for (const Piece& piece : pieces.list) nodes += piece.is_recorded ? piece.nodes.size() : 0;
    if (nodes >= settings().min_nodes) return std::nullopt;
    return skip("too_small",
                text("it has {} nodes to record, and {}.cudagraph_min_partition_size is {}", nodes,
                     settings().backend, settings().min_nodes));
  }

  void tell(const Skip& skip) const {
    tn_cuda_skip told{};
    told.struct_size = sizeof told;
    told.function = str(name_);
    told.reason = str(skip.reason);
    told.sentence = str(skip.sentence);
    told.node = str(skip.node);
    told.source = str(skip.source);
    cuda().note_skip(&told);
  }

  Outcome left(const Skip& skip) const {
    tell(skip);
    if (settings().or_error)
      throw error(TN_FAILED_PRECONDITION,
                  text("{} is {}; with {}.cudagraph_or_error = false it runs directly", name_,
                       told_of(skip), settings().backend),
                  skip.at == TN_NO_VALUE ? nullptr : request_.graph, skip.at);
    return {nullptr, told_of(skip)};
  }

  const tn_compile_request& request_;
  graph g_;
  Compiling how_;
  std::string name_;
};

std::string quoted(std::string_view words) {
  std::string out = "\"";
  for (char c : words) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

Outcome compile(const tn_compile_request& request, Compiling how) {
  return Compile(request, std::move(how)).run();
}

std::string with_lists(std::string statistics, const std::vector<std::string>& told,
                       const std::vector<std::string>& recorded) {
  statistics.erase(statistics.rfind('}'));
  std::string lines, functions;
  for (const std::string& line : told) lines += (lines.empty() ? "" : ", ") + quoted(line);
  for (const std::string& one : recorded) functions += (functions.empty() ? "" : ", ") + one;
  return statistics + ", \"told\": [" + lines + "], \"recorded\": [" + functions + "]}";
}

}  // namespace recordings
