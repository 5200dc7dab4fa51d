// cudagraphs: eager kernels of a GPU, recorded and replayed by the plugin cuda.
#include "recorded.h"

#include <variant>

using namespace tenon::plugin;

namespace cudagraphs {
namespace {

std::string name_of(const tn_compile_request& request) {
  std::string id(sv(request.compile_id));
  const char* half = request.stage == TN_STAGE_FORWARD    ? ", forward"
                     : request.stage == TN_STAGE_BACKWARD ? ", backward"
                                                          : "";
  return (id.empty() ? "graph" : "graph " + id) + half;
}

/// What runs a graph: at least one recording, or the host's interpreter.
class Code {
 public:
  explicit Code(std::unique_ptr<Recorded> code) : code_(std::move(code)) {}
  explicit Code(Direct code) : code_(std::move(code)) {}

  void call(tn_call& c) {
    if (auto* recorded = std::get_if<std::unique_ptr<Recorded>>(&code_))
      (*recorded)->call(c);
    else
      std::get<Direct>(code_).call(c);
  }
  std::string describe(int32_t what) {
    if (auto* recorded = std::get_if<std::unique_ptr<Recorded>>(&code_))
      return (*recorded)->describe(what);
    return std::get<Direct>(code_).describe(what);
  }

 private:
  std::variant<std::unique_ptr<Recorded>, Direct> code_;
};

// Of graphs that only pass inputs, constants and numbers on; nobody is told.
const Skip nothing_to_record{"too_small", "it has nothing to record", "", "", TN_NO_VALUE};

/// One compile.
class Compile {
 public:
  explicit Compile(const tn_compile_request& request)
      : request_(request), g_(request), settings_(settings_of(request)), name_(name_of(request)) {}

  std::unique_ptr<Code> run() {
    std::optional<int32_t> device = device_of(g_);
    if (!device) return directly(nothing_to_record);
    require_device(*device);
    if (std::optional<Skip> why = forbidden()) return left(*std::move(why));
    std::optional<program> steps;
    try {
      steps.emplace(request_);
    } catch (const error& e) {
      if (e.code != TN_DECLINED) throw;
      return left(first_skip(*device, e.what()));
    }
    Pieces pieces =
        divided(g_, *device, settings_.divides ? settings_.min_nodes : 0, draws_there());
    if (!pieces.skips.empty() && (!settings_.divides || pieces.n_recorded() == 0))
      return left(std::move(pieces.skips[0]));
    if (pieces.list.empty()) return directly(nothing_to_record);
    if (std::optional<Skip> why = too_small(pieces)) return left(*std::move(why));
    for (const Skip& skip : pieces.skips) tell(skip);
    return std::make_unique<Code>(std::make_unique<Recorded>(
        request_, *std::move(steps), std::move(pieces), *device, settings_, name_));
  }

 private:
  // Throws the reason where there is no such device.
  static void require_device(int32_t device) {
    tn_cuda_facts facts{};
    facts.struct_size = sizeof facts;
    check(cuda().facts(device, &facts));
  }

  // Eager ops of the device are compiled by its code generator, and so is this node alone: does that
  // leave the drawing to the host?
  DrawsThere draws_there() const {
    return [this](uint32_t node) {
      try {
        const tn_graph* alone = nullptr;
        const uint32_t *inputs = nullptr, *outputs = nullptr;
        check(
            host->run->extract(request_.ctx, request_.graph, &node, 1, &alone, &inputs, &outputs));
        artifact code = compile_with(request_.ctx, alone, "inductor");
        if (!TN_HAS(code.get()->api, describe)) return false;
        std::string told = collect([&](const tn_sink* sink) {
          return code.get()->api->describe(code.get(), TN_DESC_STATS_JSON, sink);
        });
        std::erase(told, ' ');
        return told.find("\"extern_ops\":[]") != told.npos;
      } catch (const error&) {
        return false;  // nobody compiles it
      }
    };
  }

  std::optional<Skip> forbidden() const {
    if (settings_.is_blocking)
      return Skip{"disabled", "cudagraphs.cuda_launch_blocking is on", "", "", TN_NO_VALUE};
    bool is_dynamic = settings_.n_symbols > 0;
    if (is_dynamic && settings_.skips_dynamic)
      return Skip{"dynamic_shapes",
                  "it has symbolic sizes, and cudagraphs.cudagraph_skip_dynamic_graphs is on", "",
                  "", TN_NO_VALUE};
    if (settings_.has_sizes && settings_.sizes.empty())
      return Skip{
          "dynamic_shapes",
          text("cudagraphs.cudagraph_capture_sizes lists no sizes for graphs with {} symbols",
               settings_.n_symbols),
          "", "", TN_NO_VALUE};
    return std::nullopt;
  }

  // The program cannot be kept: most often since a node has bodies.
  Skip first_skip(int32_t device, const std::string& problem) const {
    Pieces pieces = divided(g_, device, 0, draws_there());
    if (!pieces.skips.empty()) return std::move(pieces.skips[0]);
    return {"unsafe_op", "its nodes cannot be run one by one: " + problem, "", "", TN_NO_VALUE};
  }

  std::optional<Skip> too_small(const Pieces& pieces) const {
    size_t nodes = 0;
    for (const Piece& piece : pieces.list) nodes += piece.is_recorded ? piece.nodes.size() : 0;
    if (nodes >= settings_.min_nodes) return std::nullopt;
    return Skip{"too_small",
                text("it has {} nodes to record, and cudagraphs.cudagraph_min_partition_size is {}",
                     nodes, settings_.min_nodes),
                "", "", TN_NO_VALUE};
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

  std::unique_ptr<Code> left(Skip skip) const {
    tell(skip);
    if (settings_.or_error)
      throw error(TN_FAILED_PRECONDITION,
                  text("{} is {}; with cudagraphs.cudagraph_or_error = false it runs directly",
                       name_, told_of(skip)),
                  skip.at == TN_NO_VALUE ? nullptr : request_.graph, skip.at);
    return directly(std::move(skip));
  }
  std::unique_ptr<Code> directly(Skip skip) const {
    return std::make_unique<Code>(Direct{interpret(request_.ctx, request_.graph), std::move(skip)});
  }

  const tn_compile_request& request_;
  graph g_;
  Settings settings_;
  std::string name_;
};

struct CudaGraphs : Backend {
  std::unique_ptr<Code> compile(const tn_compile_request& request) {
    return Compile(request).run();
  }
};

}  // namespace
}  // namespace cudagraphs

TENON_PLUGIN_BACKENDS((cudagraphs::CudaGraphs, "cudagraphs"))
