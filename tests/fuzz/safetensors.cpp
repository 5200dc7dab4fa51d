// .safetensors files: sizes fit the bytes, and what is read is written alike.
#include "formats/safetensors.h"
#include "formats/tensors.h"
#include "harness/fuzz.h"
#include "harness/run_checks.h"

#include <sstream>

using namespace tenon;
using namespace tenon::formats;

namespace {

void check_equal(const Safetensors& a, const Safetensors& b) {
  fuzz::check(a.metadata == b.metadata && a.tensors.size() == b.tensors.size(),
              "metadata or tensors are lost when written");
  for (const auto& [name, tensor] : a.tensors) {
    auto found = b.tensors.find(name);
    fuzz::check(found != b.tensors.end() && found->second.dtype == tensor.dtype &&
                    found->second.sizes == tensor.sizes &&
                    as_text(found->second.data.span) == as_text(tensor.data.span),
                "a tensor changes when written");
  }
}

// As weights of a small graph, on every backend.
void run_with(const Tensor& tensor) {
  if (tensor.numel() > 1 << 12 || tensor.dim() > 8) return;
  std::string type = message("{}{}", name_of(tensor.dtype()), to_text(tensor.sizes()));
  std::string text = message(
      "tng 1\ngraph {\n  input %x: {}\n"
      "  %y: {} = aten.add.Tensor(%x, %x)\n  output %y\n}\n",
      type, type);
  fuzz::check_runs_with(text, {tensor});
}

}  // namespace

TENON_FUZZ_TARGET(safetensors) {
  fuzz::accepts(fuzz::file_errors, [&] {
    Safetensors file = read_safetensors(fuzz::bytes_of(input), "a.safetensors");
    for (const auto& [name, tensor] : file.tensors) {
      fuzz::check(tensor.data.span.size() <= input.size(), "a tensor is larger than its file");
      run_with(to_tensor(tensor));
    }
    std::ostringstream out;
    write_safetensors(out, file);
    std::string written = out.str();
    check_equal(file, read_safetensors(fuzz::bytes_of(written), "again"));
  });
}
