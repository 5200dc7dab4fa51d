// .npy files: elements lie within the file, and a tensor made of one is written and read alike.
#include "formats/npy.h"
#include "formats/tensors.h"
#include "harness/fuzz.h"

#include <sstream>

using namespace tenon;
using namespace tenon::formats;

TENON_FUZZ_TARGET(npy) {
  fuzz::accepts(fuzz::file_errors, [&] {
    RawTensor raw = read_npy(fuzz::bytes_of(input), "a.npy");
    fuzz::check(raw.data.span.size() <= input.size(), "a tensor is larger than its file");
    RawTensor dense = to_raw(to_tensor(raw));
    std::ostringstream out;
    write_npy(out, dense);
    std::string written = out.str();
    RawTensor again = read_npy(fuzz::bytes_of(written), "again");
    fuzz::check(again.sizes == raw.sizes && again.dtype == raw.dtype &&
                    as_text(again.data.span) == as_text(dense.data.span),
                "a tensor changes when written");
  });
}
