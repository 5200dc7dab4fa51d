// Recorded calls of ops: a .safetensors file whose metadata holds the arguments as JSON.
#include "debug/op_recording.h"
#include "harness/fuzz.h"

using namespace tenon;

TENON_FUZZ_TARGET(op_recording) {
  fuzz::InputFile file(input);
  fuzz::accepts(fuzz::file_errors, [&] {
    OpRecording recording = OpRecording::read(file.path());
    const OpEntry* op = find_op(recording.op());
    if (op == nullptr) return;
    for (const RecordedCall& call : recording.cases())
      fuzz::accepts(fuzz::file_errors,
                    [&] { make_call(recording, call, *op, ArgumentKind::real); });
  });
}
