// SPDX-License-Identifier: GPL-2.0-only
// See session.h. A session is found through the thd_specifics service. The key is made once and kept: the
// server cannot take keys back, and the library stays in memory (wrap.cpp) so that the key does too.
//
// A connection that ends while the plugin is not installed leaves its session behind: a few kilobytes, for
// which nothing is left that could free them.
#include "session.h"

#include <cstdlib>
#include <cstring>

#include "probe.h"

namespace flushlight {
namespace {

bool have_key;
MYSQL_THD_KEY_T key;

uint64_t unix_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void reset(Session *session, THD *thd) {
  memset(static_cast<void *>(session), 0, sizeof *session);
  session->installation = probe_installation();
  session->id = thd->thread_id;
  // the connection's age on the server's own clock: older connections get their real start
  const uint64_t age_us = thd->thr_create_utime ? microsecond_interval_timer() - thd->thr_create_utime : 0;
  session->start_unix_ns = unix_ns() - age_us * 1000;
}

}  // namespace

bool sessions_init() {
  have_key = have_key || thd_key_create(&key) == 0;
  return have_key;
}

Session *session_of(THD *thd) {
  auto *session = static_cast<Session *>(thd_getspecific(thd, key));
  return session && session->installation == probe_installation() ? session : nullptr;
}

Session *session_make(THD *thd) {
  auto *session = static_cast<Session *>(thd_getspecific(thd, key));
  if (session && session->installation == probe_installation()) return session;
  if (!session) {
    session = static_cast<Session *>(calloc(1, sizeof(Session)));
    if (!session) return nullptr;
    if (thd_setspecific(thd, key, session) != 0) {
      free(session);
      return nullptr;
    }
  }
  reset(session, thd);
  return session;
}

void session_free(THD *thd) {
  auto *session = static_cast<Session *>(thd_getspecific(thd, key));
  if (!session) return;
  thd_setspecific(thd, key, nullptr);
  free(session);
}

}  // namespace flushlight
