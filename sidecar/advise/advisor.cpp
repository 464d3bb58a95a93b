// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/advise/advisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sidecar/base/log.h"
#include "sidecar/join/servers.h"

namespace flushlight::advise {
namespace {

constexpr uint64_t kSlicesOfWindow = 20;
constexpr uint64_t kParts = 4;    // of a window, each of which must be the same load
constexpr double kPatience = 10;  // windows, until too few commits are too few

// Settings that change by themselves, or say nothing about how commits are made durable.
constexpr std::string_view kUnrelated[] = {"data_directory", "datadir", "session_preload_libraries"};

// "20GB" → bytes, as settings are read.
std::string base_value(const std::string &suggested) {
  const size_t unit = suggested.find_first_not_of("0123456789.");
  if (unit == 0 || unit == std::string::npos) return suggested;
  return in_base_unit(suggested.substr(0, unit), suggested.substr(unit)).value;
}

bool is_same_value(const std::string &a, const std::string &b) {
  if (a == b) return true;
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  return lower(a) == lower(b);
}

}  // namespace

std::string_view state_name(State state) {
  static constexpr std::string_view kNames[] = {"open",    "measuring",    "verified",
                                                "refuted", "inconclusive", "dismissed"};
  return kNames[static_cast<size_t>(state)];
}

Advisor::Advisor(const Clock &clock, const Config &config)
    : clock_(clock),
      enough_{config.advice_window_s, config.advice_commits_min},
      history_path_(config.advice_history),
      window_(clock, static_cast<uint64_t>(config.advice_window_s * 1e9) / kSlicesOfWindow),
      since_(static_cast<uint64_t>(config.advice_window_s * 1e9)) {
  set_options(config);
}

void Advisor::set_options(const Config &config) {
  interval_ns_ = uint64_t{config.advice_interval_ms} * 1'000'000;
  power_loss_protected_ = config.power_loss_protected;
  dismissed_ = config.advice_dismissed;
}

void Advisor::open_history() {
  if (history_path_.empty()) return;
  auto kept = history_.open(history_path_);
  if (!kept) {
    history_error_ = kept.error().text;
    spdlog::warn("verdicts on advice are not kept over restarts: {}", history_error_);
    return;
  }
  const size_t skip = kept->size() > kFinishedMax ? kept->size() - kFinishedMax : 0;
  for (size_t i = skip; i < kept->size(); i++) {
    const Outcomes &old = (*kept)[i];
    Entry entry;
    entry.id = ++last_id_;
    entry.instance_name = old.instance;
    entry.advice.rule = old.rule;
    entry.advice.scope = old.scope;
    entry.advice.setting = old.setting;
    entry.advice.now = old.value_before;
    entry.advice.suggested = entry.value_after = old.value_after;
    entry.advice.risk = old.risk;
    entry.advice.predicted_p50_ms = old.predicted_p50_ms;
    entry.advice.predicted_p99_ms = old.predicted_p99_ms;
    entry.measured_p50_ms = old.measured_p50_ms;
    entry.measured_p99_ms = old.measured_p99_ms;
    entry.why = old.why;
    for (const State state : {State::kVerified, State::kRefuted, State::kInconclusive})
      if (state_name(state) == old.state) entry.state = state;
    if (entry.state != State::kOpen) entries_.push_back(std::move(entry));
  }
}

std::shared_ptr<const EngineFacts> Advisor::server_of(const Instance &instance, const Inputs &inputs) const {
  for (auto &facts : inputs.engines.latest())
    if (facts->known() && find_server(inputs.intake, *facts) == &instance) return facts;
  return nullptr;
}

Facts Advisor::facts_of(const Instance &instance, const EngineFacts *server, uint64_t begin_ns, uint64_t end_ns,
                        const Inputs &inputs) {
  const auto writers = since_.writers(begin_ns);
  const auto histograms = since_.histograms(begin_ns);
  const Sources sources{inputs.intake, inputs.symbols, inputs.texts,         inputs.host,
                        writers,       histograms,     power_loss_protected_};
  return gather(instance, server, window_.between(instance.id, begin_ns, end_ns), sources);
}

void Advisor::step(const Inputs &inputs) {
  const uint64_t now_ns = clock_.now_ns();
  const bool due = now_ns >= next_ns_;
  if (due) {
    next_ns_ = now_ns + interval_ns_;
    since_.remember(now_ns, inputs.stalls.writers(),
                    inputs.kernel != nullptr ? inputs.kernel->histograms() : std::vector<kernel::DeviceHistogram>{});
  }
  for (const auto &[name, instance] : inputs.intake.instances()) look(*instance, inputs, due);
  forget_old();
}

void Advisor::look(const Instance &instance, const Inputs &inputs, bool due) {
  const uint64_t now_ns = clock_.now_ns();
  Tracked &tracked = tracked_[instance.id];
  auto server = server_of(instance, inputs);
  const bool is_new = server != nullptr && (tracked.server == nullptr || server->read_ns != tracked.server->read_ns);
  if (is_new) on_reading(instance, &tracked, server);
  if (!due && !is_new) return;
  measure(instance);
  // What was before a change is not evidence for what is now.
  const uint64_t begin_ns = std::max(now_ns - std::min(now_ns, window_ns()), tracked.changed_ns);
  Facts facts = facts_of(instance, server.get(), begin_ns, now_ns, inputs);
  recommend(instance, facts);
  if (is_new || !tracked.has_facts) {
    tracked.facts = std::move(facts);
    tracked.has_facts = true;
  }
}

void Advisor::on_reading(const Instance &instance, Tracked *tracked, std::shared_ptr<const EngineFacts> server) {
  const uint64_t now_ns = clock_.now_ns();  // not after the cut: what comes after it is under the new value
  window_.cut(instance.id);
  std::vector<Change> changes;
  if (tracked->server != nullptr)
    for (const auto &[name, setting] : server->settings) {
      const EngineSetting *before = tracked->server->setting(name);
      const bool unrelated = std::find(std::begin(kUnrelated), std::end(kUnrelated), name) != std::end(kUnrelated);
      if (before != nullptr && !unrelated && before->value != setting.value)
        changes.push_back({name, before->value, setting.value});
    }
  if (!changes.empty()) {
    tracked->changed_ns = now_ns;
    on_change(instance, *tracked, changes, server->statistics);
  }
  tracked->server = std::move(server);
}

// The prediction is made anew from what was before: since the change commits were already other ones.
void Advisor::on_change(const Instance &instance, const Tracked &tracked, const std::vector<Change> &changes,
                        const EngineStatistics &statistics) {
  const uint64_t end_ns = tracked.server->read_ns;  // the old value was in effect up to here
  const uint64_t begin_ns = end_ns - std::min(end_ns, window_ns());
  std::vector<Advice> then;
  CommitWindow::Found before = window_.between(instance.id, begin_ns, end_ns);
  if (tracked.has_facts) {
    Facts facts = tracked.facts;
    facts.server = *tracked.server;
    for (size_t i = 0; i < before.commits.roles.size(); i++)
      for (size_t k = 0; k < facts.commits.roles.size() && before.commits.roles.size() == facts.commits.roles.size();
           k++)
        before.commits.roles[i].name = facts.commits.roles[i].name;
    facts.commits = before.commits;
    then = advise(facts);
  }
  const Commits part = window_.between(instance.id, end_ns - (end_ns - begin_ns) / kParts, end_ns).commits;
  for (const Change &change : changes) {
    spdlog::info("{}: {} was changed from {} to {}", instance.name, change.name, change.from, change.to);
    for (Entry &entry : entries_) {
      if (entry.instance != instance.id) continue;
      if (entry.state == State::kMeasuring)
        measuring_[entry.id].disturbed = fmt::format("{} was changed too", change.name);
      if (entry.state != State::kOpen || entry.advice.setting != change.name || entry.advice.suggested.empty())
        continue;
      for (const Advice &advice : then)
        if (advice.rule == entry.advice.rule && advice.scope == entry.advice.scope) entry.advice = advice;
      const std::string wanted = base_value(entry.advice.suggested);
      entry.state = State::kMeasuring;
      entry.changed_ns = tracked.changed_ns;
      entry.value_after = change.to;
      measuring_[entry.id] = {before.commits, part, entry.changed_ns, "", statistics};
      if (changes.size() > 1) measuring_[entry.id].disturbed = "several settings were changed at once";
      if (!is_same_value(wanted, change.to))
        measuring_[entry.id].disturbed = fmt::format("it was set to {}, not to {}", change.to, entry.advice.suggested);
      entry.why = "commits are measured";
    }
  }
}

void Advisor::recommend(const Instance &instance, const Facts &facts) {
  std::vector<Advice> advice = advise(facts);
  // Those that are not given any more go, those that are stay under their number.
  std::erase_if(entries_, [&](const Entry &entry) {
    if (entry.instance != instance.id || (entry.state != State::kOpen && entry.state != State::kDismissed))
      return false;
    return std::none_of(advice.begin(), advice.end(), [&](const Advice &one) {
      return one.rule == entry.advice.rule && one.scope == entry.advice.scope;
    });
  });
  for (Advice &one : advice) {
    const bool dismissed = dismissed_.contains(one.rule);
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) {
      return entry.instance == instance.id && (entry.state == State::kOpen || entry.state == State::kDismissed) &&
             entry.advice.rule == one.rule && entry.advice.scope == one.scope;
    });
    Entry *entry = known != entries_.end() ? &*known : nullptr;
    if (entry == nullptr) {
      entry = &entries_.emplace_back();
      entry->id = ++last_id_;
      entry->instance = instance.id;
      entry->instance_name = instance.name;
    }
    entry->state = dismissed ? State::kDismissed : State::kOpen;
    entry->why = dismissed ? "dismissed by configuration (advice.dismissed)" : "";
    entry->advice = std::move(one);
  }
}

void Advisor::measure(const Instance &instance) {
  const uint64_t now_ns = clock_.now_ns();
  for (Entry &entry : entries_) {
    if (entry.instance != instance.id || entry.state != State::kMeasuring) continue;
    const Measuring &measuring = measuring_[entry.id];
    const Commits after = window_.between(instance.id, measuring.begin_ns, now_ns).commits;
    entry.measured_p50_ms = after.p50_ms;
    entry.measured_p99_ms = after.p99_ms;
    if (!measuring.disturbed.empty()) {
      finish(&entry, State::kInconclusive, measuring.disturbed);
      continue;
    }
    const double passed_s = static_cast<double>(now_ns - measuring.begin_ns) / 1e9;
    entry.why = fmt::format("commits are measured: {} in {:.0f} s", after.commits, after.window_s);
    if (measuring.before.commits < enough_.commits || measuring.before.window_s < enough_.seconds / 2) {
      finish(&entry, State::kInconclusive,
             fmt::format("only {} commits in {:.0f} s were seen before the change", measuring.before.commits,
                         measuring.before.window_s));
      continue;
    }
    if (after.window_s < 0.9 * enough_.seconds || after.commits < enough_.commits) {
      if (passed_s > kPatience * enough_.seconds)
        finish(&entry, State::kInconclusive,
               fmt::format("only {} commits in {:.0f} s after the change", after.commits, passed_s));
      continue;
    }
    // A load that changed half way hides in the whole.
    std::string difference;
    const Work work = entry.advice.measure ? Work::kMayChange : Work::kSame;
    const uint64_t part_ns = (now_ns - measuring.begin_ns) / kParts;
    for (uint64_t i = 0; i < kParts && difference.empty() && measuring.before_part.commits > 0; i++) {
      const uint64_t begin_ns = measuring.begin_ns + i * part_ns;
      difference = load_difference(measuring.before_part,
                                   window_.between(instance.id, begin_ns, begin_ns + part_ns).commits, work);
    }
    Judgement judgement = judge(measuring.before, after, entry.advice.predicted_p50_ms, entry.advice.predicted_p99_ms);
    if (const auto &measure = entry.advice.measure; measure && tracked_[instance.id].server != nullptr) {
      judgement = judge_measure(*measure, measuring.statistics, tracked_[instance.id].server->statistics);
      if (difference.empty()) difference = load_difference(measuring.before, after, work);
    }
    if (!difference.empty() && judgement.verdict != Verdict::kInconclusive)
      judgement = {Verdict::kInconclusive, "the load changed: " + difference, {}, {}};
    static constexpr State kStates[] = {State::kVerified, State::kRefuted, State::kInconclusive};
    finish(&entry, kStates[static_cast<size_t>(judgement.verdict)], judgement.why);
  }
}

void Advisor::finish(Entry *entry, State state, std::string why) {
  entry->state = state;
  entry->why = std::move(why);
  measuring_.erase(entry->id);
  spdlog::info("{}: advice on {} is {}: {}", entry->instance_name, entry->advice.setting, state_name(state),
               entry->why);
  history_.add({entry->instance_name, entry->advice.rule, entry->advice.scope, entry->advice.setting, entry->advice.now,
                entry->value_after, std::string(state_name(state)), entry->why, entry->advice.risk,
                clock_.to_unix_ns(entry->changed_ns), entry->advice.predicted_p50_ms, entry->advice.predicted_p99_ms,
                entry->measured_p50_ms, entry->measured_p99_ms});
}

// The oldest verdicts go: entries are in the order in which they came.
void Advisor::forget_old() {
  const auto is_finished = [](const Entry &entry) {
    return entry.state == State::kVerified || entry.state == State::kRefuted || entry.state == State::kInconclusive;
  };
  auto finished = static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), is_finished));
  std::erase_if(entries_,
                [&](const Entry &entry) { return is_finished(entry) && finished > kFinishedMax && finished--; });
}

}  // namespace flushlight::advise
