// A host of some threads for parts of the inductor backend: chunks run one after the other and are
// counted.
#pragma once

#include <gtest/gtest.h>

#include <tenon/plugin.hpp>

namespace inductor {

template <int32_t threads>
class PlainHost : public testing::Test {
 protected:
  void SetUp() override {
    before_ = tenon::plugin::host;
    services_.num_threads = [] { return threads; };
    services_.parallel_chunks = [](int64_t n, tn_status* (*body)(void*, int64_t, int32_t),
                                   void* user) {
      chunks_asked = n;
      for (int64_t c = 0; c < n; ++c) body(user, c, 0);
      return static_cast<tn_status*>(nullptr);
    };
    host_.svc = &services_;
    tenon::plugin::host = &host_;
    chunks_asked = 0;
  }
  void TearDown() override { tenon::plugin::host = before_; }

  inline static int64_t chunks_asked = 0;  // by the last call

 private:
  tn_svc_api services_{};
  tn_host host_{};
  const tn_host* before_ = nullptr;
};

}  // namespace inductor
