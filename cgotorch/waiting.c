#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "load.h"

// libgomp, OpenMP's runtime beside libtorch, lets a thread look 300,000 times whether the others have come before it sleeps. When the
// process has more threads of OpenMP than CPUs it looks 100 times only. A team that is idle counts: here is a thread that holds one.

typedef void (*parallel_region)(void (*body)(void *), void *data, unsigned threads, unsigned flags);

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t thread;
  parallel_region parallel;
  int32_t threads; // of the team; 0: there is none
  int wanted, made;
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void nothing(void *data) { (void)data; }

static void *hold(void *unused) {
  team.parallel(nothing, NULL, (unsigned)team.threads, 0);
  pthread_mutex_lock(&team.lock);
  team.made = 1;
  pthread_cond_broadcast(&team.changed);
  while (team.wanted) pthread_cond_wait(&team.changed, &team.lock);
  pthread_mutex_unlock(&team.lock);
  return unused; // libgomp ends the team with its thread
}

int32_t ct_hold_team(int32_t threads) {
  if (team.threads == threads) return 1;
  if (team.threads > 0) {
    pthread_mutex_lock(&team.lock);
    team.wanted = 0;
    pthread_cond_broadcast(&team.changed);
    pthread_mutex_unlock(&team.lock);
    pthread_join(team.thread, NULL);
    team.threads = 0;
  }
  if (threads == 0) return 1;
  if (!team.parallel) team.parallel = (parallel_region)ct_symbol("GOMP_parallel");
  if (!team.parallel) return 0;
  team.threads = threads, team.wanted = 1, team.made = 0;
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former); // signals are for Go's threads
  int failed = pthread_create(&team.thread, NULL, hold, NULL);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  if (failed) {
    team.threads = 0;
    return 0;
  }
  pthread_mutex_lock(&team.lock);
  while (!team.made) pthread_cond_wait(&team.changed, &team.lock);
  pthread_mutex_unlock(&team.lock);
  return 1;
}
