// SPDX-License-Identifier: GPL-2.0-or-later
// /metrics: names and units, figures against the views, what strangers send.
#include "sidecar/serve/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "fixture.h"
#include "http.h"
#include "sidecar/serve/metrics_catalog.h"

namespace flushlight::test {
namespace {

class Metrics : public DaemonTest {
 protected:
  void serve(bool with_kernel = false) {
    config_.metrics_listen = "127.0.0.1:0";
    start(with_kernel);
    ASSERT_TRUE(daemon_->metrics().running()) << daemon_->state().metrics_error;
  }
  HttpClient request(std::string_view bytes) {
    HttpClient client(daemon_->metrics().port());
    client.send(bytes);
    EXPECT_TRUE(client.finish([this] { daemon_->step(0); })) << "no end of the answer";
    return client;
  }
  HttpClient get(std::string_view path, std::string_view accept = "") {
    return request("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" +
                   (accept.empty() ? "" : "Accept: " + std::string(accept) + "\r\n") + "\r\n");
  }
  // Samples of an answer: "name{labels}" to value.
  std::map<std::string, double> scrape() {
    clock_.advance_ms(2000);
    return parse(get("/metrics", "application/openmetrics-text").body());
  }
  static std::map<std::string, double> parse(const std::string &text) {
    std::map<std::string, double> samples;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t blank = line.rfind(' ');
      EXPECT_TRUE(samples.try_emplace(line.substr(0, blank), std::stod(line.substr(blank + 1))).second)
          << "twice: " << line;
    }
    return samples;
  }
  static double sum_of(const std::map<std::string, double> &samples, const std::string &name) {
    double sum = 0;
    for (const auto &[key, value] : samples)
      if (key.starts_with(name + "{")) sum += value;
    return sum;
  }
};

TEST(MetricsCatalog, EveryViewIsThereOrSaysWhyNot) {
  std::set<std::string_view> views, listed;
  for (const CatalogView &view : catalog_views()) views.insert(view.name);
  for (const auto &list : {metric_views(), views_without_metrics()})
    for (const std::string_view view : list) EXPECT_TRUE(listed.insert(view).second) << view << " is in both lists";
  EXPECT_EQ(views, listed) << "abi/metrics.def: a FL_METRIC, or FL_NO_METRICS and why";
}

TEST(MetricsCatalog, EveryNumericColumnOfAViewWithMetricsIsOne) {
  static constexpr std::pair<std::string_view, std::string_view> kNone[] = {
#define FL_NO_METRIC(view, column, why) {#view, #column},
#include "abi/metrics.def"
  };
  for (const std::string_view view : metric_views()) {
    std::set<std::string_view> used, numeric;
    for (const Metric &metric : metrics_of(view)) used.insert(metric.column);
    for (const MetricLabel &label : labels_of(view)) used.insert(label.column);
    for (const auto &[of, column] : kNone)
      if (of == view) used.insert(column);
    for (const CatalogColumn &column : catalog_columns())
      if (column.view == view && (column.type == FL_CELL_INT || column.type == FL_CELL_DOUBLE)) {
        const bool bound = column.name.starts_with("bucket_");  // le
        EXPECT_TRUE(bound || column.name == "query_truncated" || used.contains(column.name))
            << view << "." << column.name << " is missing in abi/metrics.def";
      }
  }
}

TEST(MetricsCatalog, ColumnsExistAndNamesAreBaseUnits) {
  std::set<std::string> names;
  for (const std::string_view view : metric_views()) {
    for (const Metric &metric : metrics_of(view)) {
      EXPECT_FALSE(metric.help.empty()) << view << "." << metric.column << " is no column";
      EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
      for (const char *suffix : {"_ms", "_us", "_kb", "_percent", "_total", "_info", "_count", "_sum", "_bucket"})
        EXPECT_FALSE(metric.name.ends_with(suffix)) << metric.name;
    }
    std::set<std::string> labels;
    for (const auto &list : {labels_of(view), info_labels_of(view)})
      for (const MetricLabel &label : list) {
        EXPECT_NE(label.column, "query");
        EXPECT_TRUE(labels.insert(std::string(label.label)).second);
        EXPECT_TRUE(std::any_of(
            catalog_columns().begin(), catalog_columns().end(),
            [&](const CatalogColumn &column) { return column.view == view && column.name == label.column; }))
            << view << "." << label.column;
      }
  }
  EXPECT_TRUE(names.contains("flushlight_statements_flush_seconds"));
  EXPECT_TRUE(names.contains("flushlight_statements_commit_seconds"));
  EXPECT_TRUE(names.contains("flushlight_devices_read_ahead_bytes"));
  EXPECT_TRUE(names.contains("flushlight_devices_wbt_lat_seconds"));
  EXPECT_TRUE(names.contains("flushlight_health_cost_ratio"));
  EXPECT_TRUE(names.contains("flushlight_statements_info_stats_reset_timestamp_seconds"));
}

TEST(MetricsNegotiation, AsPrometheusExporters) {
  const std::string old_type = "text/plain; version=0.0.4; charset=utf-8";
  const std::string new_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
  const std::string first_type = "application/openmetrics-text; version=0.0.1; charset=utf-8";
  const std::pair<const char *, std::string> cases[] = {
      {"", old_type},
      {"*/*", old_type},
      {"text/plain", old_type},
      {"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", old_type},
      {"application/openmetrics-text", new_type},
      {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
       "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
       new_type},
      {"application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", first_type},
      {"application/openmetrics-text; version=2.0.0", old_type},
      {"application/openmetrics-text;q=0, text/plain", old_type},
      {"text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.3", old_type},
      {";;;=,,q=;version", old_type},
  };
  for (const auto &[accept, type] : cases) EXPECT_EQ(negotiate(accept).content_type, type) << accept;
  EXPECT_TRUE(negotiate("application/openmetrics-text").openmetrics);
}

TEST_F(Metrics, FiguresAreThoseOfTheView) {
  serve();
  RawClient client = attached("pg");
  client.ring(0).write(session_record(1, "al\"ice\\", "shop\n", 16, 5));
  client.ring(0).write(text_record(5, "INSERT INTO secret VALUES ($1)"));
  for (int i = 1; i <= 100; i++) {
    client.ring(0).write(bytes(commit(1, 5, i)));
    client.ring(0).write(bytes(statement(1, 5, i + 1)));
    if (i % 20 == 0) daemon_->step(0), clock_.advance_ms(20);
  }
  const auto samples = scrape();
  const auto row = rows_of("statements", "pg").at(0);
  const auto find = [&](const std::string &name) {
    const std::string labels =
        "{instance=\"pg\",userid=\"16\",dbid=\"5\",user_name=\"al\\\"ice\\\\\",db_name=\"shop" +
        std::string(row.at("db_name").text == "shop\n" ? "\\n" : row.at("db_name").text.substr(4)) +
        "\",toplevel=\"1\",queryid=\"5\",kind=\"statement\"}";
    const auto found = samples.find(name + labels);
    EXPECT_NE(found, samples.end()) << name << labels;
    return found != samples.end() ? found->second : -1;
  };
  EXPECT_EQ(find("flushlight_statements_calls_total"), 100);
  EXPECT_EQ(find("flushlight_statements_commits_total"), 100);
  EXPECT_DOUBLE_EQ(find("flushlight_statements_commit_seconds_total"), row.at("total_commit_ms").real / 1000);
  EXPECT_DOUBLE_EQ(find("flushlight_statements_flush_seconds_total"), row.at("flush_ms").real / 1000);
  EXPECT_DOUBLE_EQ(find("flushlight_statements_p99_commit_seconds"), row.at("p99_commit_ms").real / 1000);
  EXPECT_EQ(find("flushlight_statements_wal_bytes_total"), 10000);
  EXPECT_EQ(find("flushlight_statements_coverage_ratio"), 1);
  for (const auto &[name, value] : samples) {
    EXPECT_EQ(name.find("secret"), std::string::npos) << "a query text in the metrics";
    EXPECT_FALSE(name.starts_with("flushlight_statements_rows_changed")) << "NULL is no sample";
  }
}

TEST_F(Metrics, TheRestIsSummedUpSoThatTotalsAreRight) {
  config_.metrics_statements_max = 10;
  config_.statements_max = 100;
  serve();
  RawClient one = attached("one"), two = attached("two");
  for (uint64_t i = 1; i <= 200; i++) {
    one.ring(0).write(bytes(commit(1, i, static_cast<double>(i % 37 + 1))));
    two.ring(0).write(bytes(commit(1, i, 1)));
    if (i % 20 == 0) rows_of("health");
  }
  const auto samples = scrape();
  EXPECT_EQ(sum_of(samples, "flushlight_statements_commits_total"), 400);
  double seconds = 0, rows = 0;
  for (const auto &row : rows_of("statements")) seconds += row.at("total_commit_ms").real / 1000;
  EXPECT_NEAR(sum_of(samples, "flushlight_statements_commit_seconds_total"), seconds, 1e-9);
  for (const auto &[name, value] : samples) rows += name.starts_with("flushlight_statements_commits_total{");
  EXPECT_EQ(rows, 12) << "ten, and one for the rest of each server";
  EXPECT_TRUE(samples.contains("flushlight_statements_commits_total{instance=\"two\",kind=\"rest\"}"));
}

TEST(TopStatementsTest, WhoHasARowKeepsItUnlessAnotherHasTwiceAsMuch) {
  StatementTable table(100);
  TopStatements top(1);
  const auto add = [&](uint64_t queryid, uint64_t commit_ns) {
    StatementKey key;
    key.queryid = queryid;
    table.row(key, 1).figures.commit_ns += commit_ns;
  };
  const auto first = [&] { return top.choose(table).top.at(0)->first.queryid; };
  add(1, 100);
  add(2, 90);
  EXPECT_EQ(first(), 1u);
  add(2, 100);  // 190
  EXPECT_EQ(first(), 1u);
  add(2, 20);  // 210
  EXPECT_EQ(first(), 2u);
  EXPECT_EQ(top.choose(table).rest.at(0).figures.commit_ns, 100u);
}

TEST_F(Metrics, HistogramsAddUp) {
  serve(true);
  RawClient client = attached("pg");
  double sum = 0;
  for (int i = 1; i <= 50; i++) {
    client.ring(0).write(bytes(commit(1, 5, i * 0.37)));
    sum += static_cast<double>(static_cast<uint64_t>(i * 0.37 * 1e6)) * 1e-9;
  }
  client.ring(0).write(bytes(commit(1, 5, 1'048'576 * 1e-6)));  // 2^20 ns: not below 2^20
  sum += 0.001048576;
  kernel::DeviceHistogram device{device_number(7, 0), kernel::Operation::kFlush, kernel::Stage::kDevice, {}};
  device.buckets.resize(FL_HISTOGRAM_BUCKETS);
  device.buckets[fl_histogram_bucket(50'000'000)] = 3;
  device.buckets[FL_HISTOGRAM_BUCKETS - 1] = 1;
  device.sum_ns = 150'000'000;
  kernel_->histogram_list = {device};
  const auto samples = scrape();
  const std::string labels = R"(object="commit",instance="pg",operation="commit",stage="total")";
  EXPECT_EQ(samples.at("flushlight_latency_seconds_count{" + labels + "}"), 51);
  EXPECT_NEAR(samples.at("flushlight_latency_seconds_sum{" + labels + "}"), sum, 1e-12);
  EXPECT_EQ(samples.at("flushlight_latency_seconds_bucket{" + labels + ",le=\"+Inf\"}"), 51);
  EXPECT_EQ(samples.at("flushlight_latency_seconds_bucket{" + labels + ",le=\"0.001048575\"}"), 2) << "0.37 and 0.74";
  EXPECT_EQ(samples.at("flushlight_latency_seconds_bucket{" + labels + ",le=\"0.002097151\"}"), 6);
  double before = 0;
  int bounds = 0;
  for (int bits = kHistogramFirstBits; bits <= kHistogramLastBits; bits++, bounds++) {
    const auto le = fmt::format(",le=\"{:.9f}\"}}", static_cast<double>((1ull << bits) - 1) * 1e-9);
    const double now = samples.at("flushlight_latency_seconds_bucket{" + labels + le);
    EXPECT_GE(now, before);
    before = now;
  }
  EXPECT_EQ(bounds, 22);
  const std::string flush = R"(object="7:0",operation="flush",stage="flush")";
  EXPECT_EQ(samples.at("flushlight_latency_seconds_count{" + flush + "}"), 4);
  EXPECT_EQ(samples.at("flushlight_latency_seconds_bucket{" + flush + ",le=\"34.359738367\"}"), 3);
  EXPECT_DOUBLE_EQ(samples.at("flushlight_latency_seconds_sum{" + flush + "}"), 0.15);
}

TEST_F(Metrics, BothFormats) {
  serve();
  RawClient client = attached("pg");
  client.ring(0).write(bytes(commit(1, 5, 20)));
  const HttpClient old_text = get("/metrics"), new_text = get("/metrics", "application/openmetrics-text");
  EXPECT_EQ(old_text.status(), "HTTP/1.1 200 OK");
  EXPECT_NE(old_text.head().find("text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(new_text.head().find("application/openmetrics-text; version=1.0.0"), std::string::npos);
  EXPECT_TRUE(new_text.body().ends_with("\n# EOF\n"));
  EXPECT_EQ(old_text.body().find("# EOF"), std::string::npos);
  EXPECT_NE(new_text.body().find("# TYPE flushlight_statements_commit_seconds counter\n"
                                 "# UNIT flushlight_statements_commit_seconds seconds\n"),
            std::string::npos);
  EXPECT_NE(old_text.body().find("# TYPE flushlight_statements_commit_seconds_total counter\n"), std::string::npos);
  EXPECT_EQ(parse(old_text.body()), parse(new_text.body()));
  EXPECT_EQ(request("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").body(), "");
  EXPECT_NE(get("/").body().find("/metrics"), std::string::npos);
}

TEST_F(Metrics, StrangersGetErrorsAndTheDaemonGoesOn) {
  serve();
  const std::pair<std::string, const char *> cases[] = {
      {"GET /secret HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
      {"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
      {"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "405"},
      {"GET /metrics HTTP/1.1\r\n\r\n", "200"},
      {"\x16\x03\x01\x02\r\n\r\n", ""},
      {"GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n", ""},
      {"GET /metrics HTTP/1.1\r\nHost: x\r\nA: " + std::string(100'000, 'x') + "\r\n\r\n", ""},
      {"GET /metrics?x=1&y HTTP/1.0\r\n\r\n", "200"},
  };
  for (const auto &[bytes, status] : cases)
    EXPECT_NE(request(bytes).status().find(status), std::string::npos) << bytes.substr(0, 40);
  EXPECT_EQ(get("/metrics").status(), "HTTP/1.1 200 OK");
}

TEST_F(Metrics, SlowClientsAreCutOffAndHoldNobodyUp) {
  serve();
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (unsigned i = 0; i < MetricsServer::kConnectionsMax + 20; i++) {
    slow.push_back(std::make_unique<HttpClient>(daemon_->metrics().port()));
    slow.back()->send("GET /metr");
  }
  const auto begin = std::chrono::steady_clock::now();
  rows_of("health");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << "views are answered all the same";
  HttpClient scraper(daemon_->metrics().port());
  scraper.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(scraper.finish([this] {
    clock_.advance_ms(100);  // the clients' time runs out
    daemon_->step(0);
  }));
  EXPECT_EQ(scraper.status(), "HTTP/1.1 200 OK");
}

TEST_F(Metrics, APortThatIsTakenIsSaidAndTriedAgain) {
  serve();
  const std::string taken = fmt::format("127.0.0.1:{}", daemon_->metrics().port());
  auto first = std::move(daemon_);
  config_.socket_path = folder_ + "/other";
  config_.metrics_listen = taken;
  start();
  EXPECT_FALSE(daemon_->metrics().running());
  const auto state = [this] {
    for (const auto &row : rows_of("health"))
      if (row.at("component").text == "metrics") return row.at("state").text + ": " + row.at("detail").text;
    return std::string();
  };
  EXPECT_TRUE(state().starts_with("failed: serving metrics on " + taken)) << state();
  first.reset();
  clock_.advance_ms(11'000);
  daemon_->step(0);
  EXPECT_TRUE(daemon_->metrics().running());
  EXPECT_EQ(state(), "ok: http://" + taken + "/metrics");
  Config none = config_;
  none.metrics_listen = "";
  daemon_->reload(none);
  EXPECT_FALSE(daemon_->metrics().running());
}

TEST(MetricsConfig, AddressesAreChecked) {
  Config config = default_config();
  EXPECT_EQ(config.metrics_listen, "127.0.0.1:9188");
  for (const char *good : {"", "0.0.0.0:80", "[::1]:9188", "[::]:1"}) {
    EXPECT_TRUE(set_config("metrics.listen", good, &config)) << good;
    EXPECT_EQ(config.metrics_listen, good);
  }
  for (const char *bad : {"9188", ":9188", "localhost:9188", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "1.2.3:99999",
                          "::1:9188", "127.0.0.1:70000", "[127.0.0.1]:80", "off"})
    EXPECT_FALSE(set_config("metrics.listen", bad, &config)) << bad;
}

}  // namespace
}  // namespace flushlight::test
