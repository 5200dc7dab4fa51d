// Saved code that is damaged, or of another device: refused with a sentence, whatever it says.
#include "graphs.h"

#include "backend/backend.h"
#include "core/error.h"
#include "graph/artifact.h"
#include "graph/text/parse.h"

#include <inductor_cuda/saved/saved_form.h>

#include <cstring>
#include <random>

namespace tenon::graphs {
namespace {

using testing::HasSubstr;

constexpr const char* graphs_to_save[] = {
    "tng 1\n"
    "graph @f {\n"
    "  input %x: f32[6, 8] on cuda:0\n"
    "  input %w: f32[8, 8] on cuda:0\n"
    "  %y: f32[6, 8] on cuda:0 = aten.mm.default(%x, %w)\n"
    "  %z: f32[6, 8] on cuda:0 = aten._softmax.default(%y, -1, false)\n"
    "  %s: f32[8] on cuda:0 = aten.sum.dim_IntList(%z, [0], false)\n"
    "  output %z, %s\n"
    "}\n",
    "tng 1\n"
    "graph @g {\n"
    "  symbol s0 in [1, inf] hint 5 from size(%x, 0)\n"
    "  input %x: f32[s0, 8] on cuda:0\n"
    "  %y: f32[s0, 8] on cuda:0 = aten.relu.default(%x)\n"
    "  %s: f32[s0] on cuda:0 = aten.sum.dim_IntList(%y, [1], false)\n"
    "  output %y, %s\n"
    "}\n"};

class SavedBytes : public Graphs {
 protected:
  void SetUp() override {
    TENON_NEEDS_THE_DOUBLE();
    Graphs::SetUp();
  }

  static CompileRequest request_of(const char* graph, bool is_recorded) {
    CompileRequest request;
    request.graph = parse_graph(graph);
    request.stage = Stage::inference;
    request.options_toml = is_recorded ? "cudagraphs = true" : "";
    return request;
  }
  static std::string saved(const CompileRequest& request) {
    return compile_with_backend("inductor", request)->save().bytes;
  }
  /// What loading says, empty where it does not fail.
  static std::string refusal(const CompileRequest& request, const std::string& bytes) {
    try {
      load_with_backend(
          {.kind = SavedArtifact::Kind::plugin, .backend = "inductor", .bytes = bytes}, request);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }
  /// The bytes with another body, which the head then says is whole.
  template <class F>
  static std::string with_body(const std::string& bytes, F&& change) {
    inductor_cuda::SavedKind kind{};
    std::string body(inductor_cuda::body_of(bytes, kind));
    change(body);
    return inductor_cuda::with_head(kind, body);
  }
};

// A text is its length, in 8 bytes, and itself; the version of the driver is behind that of the device.
TEST_F(SavedBytes, OfAnotherDeviceOrDriverAreRefused) {
  CompileRequest request = request_of(graphs_to_save[0], false);
  std::string bytes = saved(request), name("\4\0\0\0\0\0\0\0simt", 12);
  ASSERT_EQ(refusal(request, bytes), "");
  auto at = [&](std::string& body) { return body.find(name) + 8; };
  std::string other =
      with_body(bytes, [&](std::string& body) { body.replace(at(body), 4, "sm75"); });
  EXPECT_THAT(refusal(request, other),
              HasSubstr("the code is for GPUs of architecture sm75, device 0 is simt; compile it "
                        "again on such a device"));
  std::string newer = with_body(bytes, [&](std::string& body) {
    uint32_t version = 99010;
    std::memcpy(&body[at(body) + 4], &version, sizeof version);
  });
  EXPECT_THAT(refusal(request, newer),
              HasSubstr("the code was made by a driver of CUDA 99.1, this one is of 13.0; install "
                        "that driver or a newer one, or compile it again"));
}

TEST_F(SavedBytes, OfAnotherGraphAreRefused) {
  for (bool is_recorded : {false, true}) {
    std::string bytes = saved(request_of(graphs_to_save[0], is_recorded));
    EXPECT_THAT(refusal(request_of(graphs_to_save[1], is_recorded), bytes),
                HasSubstr("saved code: the "));
  }
}

TEST_F(SavedBytes, DamagedAreRefused) {
  for (const char* graph : graphs_to_save)
    for (bool is_recorded : {false, true}) {
      CompileRequest request = request_of(graph, is_recorded);
      std::string bytes = saved(request);
      std::mt19937 random(7);
      for (int i = 0; i < 60; ++i) {
        std::string damaged = bytes;
        damaged[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
        EXPECT_NE(refusal(request, damaged), "") << i;
        EXPECT_NE(refusal(request, bytes.substr(0, random() % bytes.size())), "") << i;
      }
    }
}

// Bytes that are whole but say something else: mostly refused, never a crash. Machine code, at the
// end, is what it is.
TEST_F(SavedBytes, ForgedAreReadWithCare) {
  size_t n_refused = 0, n = 0;
  for (const char* graph : graphs_to_save) {
    CompileRequest request = request_of(graph, false);
    std::string bytes = saved(request);
    for (uint32_t seed = 0; seed < 400; ++seed, ++n) {
      std::mt19937 random(seed);
      std::string forged = with_body(bytes, [&](std::string& body) {
        size_t end = body.find(
            "\x7f"
            "ELF");
        ASSERT_NE(end, std::string::npos);
        const uint64_t values[] = {0,       1, 0xFF, 0xFFFFFFFF, ~uint64_t{0}, uint64_t{1} << 63,
                                   random()};
        uint64_t value = values[random() % std::size(values)];
        size_t bytes_of_value = size_t{1} << random() % 4;
        size_t place = random() % (end - bytes_of_value);
        std::memcpy(&body[place], &value, bytes_of_value);
      });
      n_refused += !refusal(request, forged).empty();
    }
  }
  EXPECT_GT(n_refused, n / 4);
}

}  // namespace
}  // namespace tenon::graphs
