// SPDX-License-Identifier: GPL-2.0-only
// The one thread that attaches to the daemon, notices when it goes, and attaches again. No statement ever
// waits for it.
//
// Owner: the thread that starts and stops the plugin; the loop's own state is the engine client's.
#include <pthread.h>
#include <sys/prctl.h>

#include "probe.h"

namespace flushlight {
namespace {

constexpr long kStepMs = 200;

pthread_t thread;
bool started;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
bool stop_asked;
bool path_changed;
char socket_path[108];  // under mutex
char instance[64];

// Sleeps a step; false: stop.
bool sleep_a_step() {
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kStepMs * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&mutex);
  if (!stop_asked && !path_changed) pthread_cond_timedwait(&wake, &mutex, &until);
  const bool go_on = !stop_asked;
  pthread_mutex_unlock(&mutex);
  return go_on;
}

uint32_t slots_wanted() {
  const uint32_t wanted = static_cast<uint32_t>(max_connections) + 32;
  return wanted < kStateWordsMax ? wanted : kStateWordsMax;
}

void configure() {
  flc_config config{};
  config.socket_path = socket_path;
  config.hello.engine = FL_ENGINE_MARIADB;
  config.hello.slots_wanted = slots_wanted();
  config.hello.state_word_address = reinterpret_cast<uintptr_t>(&state_words[0]);
  config.hello.state_word_stride = sizeof(StateWord);
  config.hello.state_rules[0] = {UINT32_MAX, kStateIdle, FL_CAUSE_IDLE, 0};
  config.hello.state_rules[1] = {UINT32_MAX, kStateReplication, FL_CAUSE_REPLICATION, 0};
  config.hello.state_rules[2] = {UINT32_MAX, kStateOrdering, FL_CAUSE_REPLICATION, FL_STATE_UNEXPLAINED};
  snprintf(config.hello.instance, sizeof config.hello.instance, "%s", instance);
  snprintf(config.hello.engine_version, sizeof config.hello.engine_version, "%.31s", server_version);
  snprintf(config.hello.client_version, sizeof config.hello.client_version, "%s", FLUSHLIGHT_VERSION);
  flc_configure(&config);
}

void take_new_path() {
  pthread_mutex_lock(&mutex);
  const bool changed = path_changed;
  path_changed = false;
  if (changed) configure();
  pthread_mutex_unlock(&mutex);
  if (changed) flc_reattach();
}

void *run(void *) {
  prctl(PR_SET_NAME, "flushlight");
  bool attached = false;
  do {
    take_new_path();
    const bool now = flc_attach_step(kStepMs);
    if (now == attached) continue;
    char why[256] = "";
    flc_attach_error(why, sizeof why);
    if (now)
      sql_print_information("flushlight: attached to the daemon%s%s", *why ? "; " : "", why);
    else
      sql_print_warning("flushlight: detached: %s", why);
    attached = now;
  } while (sleep_a_step());
  return nullptr;
}

}  // namespace

bool attach_start(const char *path, const char *name) {
  snprintf(socket_path, sizeof socket_path, "%s", path && *path ? path : FL_SOCKET_PATH_DEFAULT);
  if (name && *name) {
    snprintf(instance, sizeof instance, "%s", name);
  } else {
    // the end of its socket's path tells servers of one host apart best
    const char *unix_path = mysqld_unix_port ? mysqld_unix_port : "";
    const size_t length = strlen(unix_path), room = sizeof instance - sizeof "mariadb:";
    snprintf(instance, sizeof instance, "mariadb:%s", unix_path + (length > room ? length - room : 0));
  }
  configure();
  path_changed = false;
  stop_asked = false;
  // signals belong to the server's own thread
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread, nullptr, run, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  started = error == 0;
  if (!started) sql_print_error("flushlight: cannot start a thread: %s", strerror(error));
  return started;
}

void attach_stop() {
  if (!started) return;
  pthread_mutex_lock(&mutex);
  stop_asked = true;
  pthread_cond_signal(&wake);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, nullptr);
  started = false;
  flc_detach();
}

const char *attach_instance() { return instance; }

void attach_socket_path(char *path, size_t bytes) {
  pthread_mutex_lock(&mutex);
  snprintf(path, bytes, "%s", socket_path);
  pthread_mutex_unlock(&mutex);
}

void attach_change_path(const char *path) {
  pthread_mutex_lock(&mutex);
  snprintf(socket_path, sizeof socket_path, "%s", path && *path ? path : FL_SOCKET_PATH_DEFAULT);
  path_changed = true;
  pthread_cond_signal(&wake);
  pthread_mutex_unlock(&mutex);
}

}  // namespace flushlight
