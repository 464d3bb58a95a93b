// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/stall_texts.h"

#include "sidecar/base/text.h"

namespace flushlight {
namespace {

using stalls::Kind;

double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

// What the device did, by kind.
constexpr std::string_view kKindWords[] = {
    "completed nothing",
    "was sent nothing of what it was asked",
    "was far slower than usual with reads",
    "was far slower than usual with writes",
    "was far slower than usual with cache flushes",
    "had a file system's journal that was far slower than usual, though the device served,"};

std::string culprit_words(const stalls::Stall &stall, const ViewContext &context) {
  const stalls::Culprit &culprit = stall.culprit;
  if (culprit.is_crowd) return crowd_words(culprit, context);
  if (culprit.process.empty() && stall.episode.kind == Kind::kJournal)
    return "a task that is not known kept a commit of it from beginning to write (see stall_tasks)";
  if (culprit.is_device)
    return stall.episode.kind == Kind::kQueue
               ? "no process wrote far more than usual before: the scheduler or the device itself"
               : "no process wrote far more than usual before: the device itself";
  std::string file = context.see_all ? file_text(culprit.file, context) : "";
  if (!file.empty()) file = " to " + file;
  if (culprit.bytes >= stalls::kFloodBytes)
    return fmt::format("before, {} wrote {} MB{} ({:.0f} % of all that was written)",
                       sanitize_utf8(culprit.process, 64), culprit.bytes >> 20, file, culprit.share * 100);
  return fmt::format("before, {} synced {} times{} ({:.0f} % of all syncs)", sanitize_utf8(culprit.process, 64),
                     culprit.syncs, file, culprit.share * 100);
}

}  // namespace

std::string crowd_words(const stalls::Culprit &culprit, const ViewContext &context) {
  std::string file = context.see_all ? file_text(culprit.file, context) : "";
  if (!file.empty()) file = ", most of it to " + file;
  return fmt::format(
      "the journal was kept busy by {}, which in the last seconds synced {} times and wrote {} MB{} "
      "({:.0f} % of all)",
      sanitize_utf8(culprit.process, 64), culprit.syncs, culprit.bytes >> 20, file, culprit.share * 100);
}

std::string file_text(const kernel::FileName &file, const ViewContext &context) {
  if (file.inode == 0) return "";
  if (file.path.empty()) return fmt::format("inode {}", file.inode);
  const std::string path = sanitize_utf8(file.path, 512);
  if (!file.is_whole) return "…/" + path;
  const auto device = context.host.devices->find(file.device);
  if (device == context.host.devices->end()) return path;
  const std::string &mount = device->second.mount_point;
  if (mount.empty() || mount.find(',') != std::string::npos) return path;
  return (mount == "/" ? "" : mount) + "/" + path;
}

std::string stall_verdict(const stalls::Stall &stall, const ViewContext &context) {
  const stalls::Episode &episode = stall.episode;
  const uint64_t end_ns = stall.lasts() ? context.clock.now_ns() : episode.end_ns;
  std::string sentence = fmt::format("{} {} for {:.0f} ms{}, with up to {} requests outstanding", stall.device,
                                     kKindWords[static_cast<size_t>(episode.kind)], ms(end_ns - episode.begin_ns),
                                     stall.lasts() ? " so far" : "", episode.inflight);
  if (episode.usual_ns) sentence += fmt::format(" (usual: below {:.1f} ms each)", ms(*episode.usual_ns));
  if (episode.began_unseen) sentence += "; it began before flushlightd could see it";
  if (episode.became_usual) sentence += "; it goes on and counts as usual now";
  return sentence + "; " + culprit_words(stall, context);
}

std::string stall_words(const stalls::Stall &stall, const ViewContext &context) {
  return fmt::format("it was hit by stall {}: {}", stall.episode.id, stall_verdict(stall, context));
}

}  // namespace flushlight
