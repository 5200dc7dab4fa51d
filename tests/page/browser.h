// Headless Chromium, driven through its DevTools protocol over two pipes: no port, no driver.
//
//   Browser browser;                     // throws where there is none
//   browser.open("file:///page.html", {.width = 390, .height = 844, .is_phone = true});
//   EXPECT_EQ(browser.evaluate("document.title"), "page");
//   EXPECT_EQ(browser.complaints(), std::vector<std::string>{});
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace tenon::page {

struct Window {
  int width = 1280, height = 800;
  bool is_phone = false, is_dark = false;
};

class Browser {
 public:
  using Json = nlohmann::json;

  explicit Browser(const std::string& program);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// Opens a page in place of the one before, and waits until it has loaded.
  void open(const std::string& url, const Window& window);
  /// The value of an expression, when its promise is fulfilled; throws what the page throws.
  Json evaluate(const std::string& expression);
  /// A press of the left button, a way and the release; equal points: a click.
  void drag(double from_x, double from_y, double to_x, double to_y);
  /// The wheel turned towards the reader, with Ctrl held.
  void turn_wheel_with_ctrl(double x, double y, double by);
  /// What the window shows, as PNG.
  std::string screenshot();
  /// Errors and warnings of the console, exceptions nobody caught, and requests that are not for a
  /// file, since open().
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  Json call(const std::string& method, const Json& params);
  Json next_message();
  void hear(const Json& message);
  void navigate(const std::string& url);
  void mouse(const std::string& type, double x, double y, const Json& more);

  std::filesystem::path profile_;
  int to_ = -1, from_ = -1;
  int child_ = -1;
  int64_t last_id_ = 0;
  bool has_loaded_ = false;
  std::string session_, unread_;
  std::vector<std::string> complaints_;
};

}  // namespace tenon::page
