// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/view.h"

namespace flushlight {

std::string device_name(uint32_t number, const ViewContext &context) {
  const auto found = context.host.devices->find(number);
  return found != context.host.devices->end() ? found->second.name
                                              : fmt::format("{}:{}", number >> 20, number & 0xfffff);
}

const std::vector<std::unique_ptr<View>> &all_views() {
  static const std::vector<std::unique_ptr<View>> views = [] {
    std::vector<std::unique_ptr<View>> list;
    for (auto *make :
         {make_statements_view, make_statements_recent_view, make_statements_info_view, make_slow_commits_view,
          make_threads_view, make_devices_view, make_latency_view, make_stalls_view, make_stall_tasks_view,
          make_slow_requests_view, make_writers_view, make_journals_view, make_rings_view, make_replication_view,
          make_pressure_view, make_advice_view, make_health_view})
      list.push_back(make());
    return list;
  }();
  return views;
}

const View *find_view(std::string_view name) {
  for (const auto &view : all_views())
    if (view->name() == name) return view.get();
  return nullptr;
}

const Instance *ViewContext::find_instance(uint32_t id) const { return intake.instance(id); }

Cell ViewContext::instance_name(uint32_t id) const {
  const Instance *found = find_instance(id);
  return found != nullptr ? text_cell(found->name) : null_cell();
}

std::string_view account_column_name(int vector_index) {
  static constexpr std::string_view kNames[] = {
  // NOLINTNEXTLINE(bugprone-suspicious-missing-comma): the two make one name
#define FL_X(ENUM, name, help) #name "_ms",
      FL_CAUSES(FL_X) FL_PATHS(FL_X)
#undef FL_X
  };
  static_assert(std::size(kNames) == FL_VECTOR_COUNT);
  return kNames[vector_index];
}

}  // namespace flushlight
