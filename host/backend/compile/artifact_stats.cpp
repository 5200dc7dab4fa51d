// Reading and writing the statistics of artifacts.
#include "backend/compile/artifact_stats.h"

#include "core/error.h"
#include "formats/json.h"

namespace tenon {

namespace {

template <class T>
void read(const formats::Json& object, std::string_view name, T& to) {
  const formats::Json* member = object.find(name);
  if (!member) return;
  if (const T* value = std::get_if<T>(&member->value())) to = *value;
  if constexpr (std::is_same_v<T, double>)
    if (const int64_t* whole = std::get_if<int64_t>(&member->value()))
      to = static_cast<double>(*whole);
}

}  // namespace

ArtifactStats ArtifactStats::parse(const std::string& json) {
  ArtifactStats s;
  try {
    formats::Json object = formats::parse_json(json, "statistics of an artifact").root();
    read(object, "kernels", s.kernels);
    read(object, "extern_calls", s.extern_calls);
    read(object, "fused_nodes", s.fused_nodes);
    read(object, "planned_bytes", s.planned_bytes);
    read(object, "naive_bytes", s.naive_bytes);
    read(object, "compile_ms", s.compile_ms);
    read(object, "codegen_ms", s.codegen_ms);
    read(object, "from_cache", s.from_cache);
    read(object, "regions", s.regions);
    formats::Json::Array ops;
    read(object, "extern_ops", ops);
    for (const formats::Json& op : ops)
      if (const auto* name = std::get_if<std::string>(&op.value())) s.extern_ops.insert(*name);
  } catch (const Error&) {
    // A plugin may write anything; its code is as good without numbers.
  }
  return s;
}

void ArtifactStats::add(const ArtifactStats& other) {
  kernels += other.kernels;
  extern_calls += other.extern_calls;
  fused_nodes += other.fused_nodes;
  planned_bytes += other.planned_bytes;
  naive_bytes += other.naive_bytes;
  compile_ms += other.compile_ms;
  codegen_ms += other.codegen_ms;
  from_cache = from_cache && other.from_cache;
  regions += other.regions;
  extern_ops.insert(other.extern_ops.begin(), other.extern_ops.end());
}

std::string ArtifactStats::to_json() const {
  formats::Json::Array ops(extern_ops.begin(), extern_ops.end());
  return formats::Json(formats::Json::Object{{"kernels", kernels},
                                             {"extern_calls", extern_calls},
                                             {"extern_ops", std::move(ops)},
                                             {"fused_nodes", fused_nodes},
                                             {"planned_bytes", planned_bytes},
                                             {"naive_bytes", naive_bytes},
                                             {"compile_ms", compile_ms},
                                             {"codegen_ms", codegen_ms},
                                             {"from_cache", from_cache},
                                             {"regions", regions}})
      .dump();
}

}  // namespace tenon
