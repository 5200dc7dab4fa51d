// Checks that recorded calls give the dtypes under autocast that PyTorch's ops give there, on real
// tensors and on fakes.
//
//   autocast_dtypes_test FILE
//
// FILE is what make_autocast_dtypes.py wrote for the project's own recordings. Lists every call
// that differs.
#include "debug/op_compare.h"
#include "folders.h"

#include <tenon/autocast.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace tenon::testing {
namespace {

// Rows whose parts differ from PyTorch's, each with its reason.
const std::set<std::string> different = {
    "aten.linalg_pinv.atol_rtol_tensor",  // not made of products
    "aten.tensordot.default",  // always a product, PyTorch sums where one element is left
};

struct Expected {
  size_t number;
  std::string dtypes;
};

std::map<std::string, std::vector<Expected>> read_expected(const char* path) {
  std::map<std::string, std::vector<Expected>> ops;
  std::ifstream file(path);
  std::string op, line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    Expected e;
    words >> op >> e.number >> e.dtypes;
    ops[op].push_back(e);
  }
  return ops;
}

std::string dtypes_under_autocast(const OpRecording& r, const OpEntry& op, const RecordedCall& c,
                                  ArgumentKind kind) {
  CallValues call = make_call(r, c, op, kind);
  AutocastGuard autocast;
  OpResults results(op.n_returns);
  run_op(op, call, results);
  std::string text;
  for (const Value& v : flattened(results)) {
    Tensor t = tensor_in(v);
    if (!t.defined()) continue;
    text += text.empty() ? "" : ",";
    text += torch_name_of(t.dtype());
  }
  return text;
}

struct Counts {
  int run = 0, failed = 0;
};

void check(const OpRecording& r, const OpEntry& op, const Expected& e, Counts& counts) {
  for (ArgumentKind kind : {ArgumentKind::real, ArgumentKind::fake}) {
    std::string found;
    try {
      found = dtypes_under_autocast(r, op, r.cases()[e.number], kind);
    } catch (const UserError& error) {
      // Fakes have no data that decides about sizes.
      if (error.code() == ErrorCode::unsupported || error.code() == ErrorCode::data_dependent)
        continue;
      found = error.what();
    }
    ++counts.run;
    if (found == e.dtypes) continue;
    ++counts.failed;
    std::printf("%s case %zu%s: expected %s, found %s\n", op.name.c_str(), e.number,
                kind == ArgumentKind::fake ? " on fakes" : "", e.dtypes.c_str(), found.c_str());
  }
}

int run_all(const char* file) {
  Counts counts;
  for (const auto& [name, cases] : read_expected(file)) {
    const OpEntry* op = find_op(name);
    if (!op || different.contains(name)) continue;
    OpRecording r = OpRecording::read(own_recording("reference/ops/" + name + ".safetensors"));
    for (const Expected& e : cases) check(r, *op, e, counts);
  }
  std::printf("%d calls, %d failed\n", counts.run, counts.failed);
  return counts.failed || counts.run < 2500;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    if (argc == 2) return tenon::testing::run_all(argv[1]);
    std::fputs("usage: autocast_dtypes_test FILE\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "autocast_dtypes_test: %s\n", e.what());
  }
  return 2;
}
