/* Makes one call to the C library fail, or kills the process there. Preloaded into `annals` by runner/faults.rs.
 *
 * FAULT_DIRS   directories, separated by colons; only calls on what is below them count
 * FAULT_CALLS  which calls count, a letter each:
 *              w write   s fsync, fdatasync   t ftruncate, fallocate   o open   n rename, link   u unlink, rmdir
 *              d mkdir   m mmap   r read
 * FAULT_AT     the number of the call that fails, from 1 on; 0 for none
 * FAULT_KIND   kill, eio, enospc, emfile, eintr, short
 * FAULT_TELL   a file to which the number of calls of each letter is written when the process ends
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *dirs, *calls, *kind, *tell;
static long at;
static atomic_long n_calls;
static atomic_long n_by_letter[128];

__attribute__((constructor)) static void begin(void) {
  const char *value;
  dirs = (value = getenv("FAULT_DIRS")) ? value : "";
  calls = (value = getenv("FAULT_CALLS")) ? value : "";
  kind = (value = getenv("FAULT_KIND")) ? value : "eio";
  tell = getenv("FAULT_TELL");
  at = (value = getenv("FAULT_AT")) ? atol(value) : 0;
}

__attribute__((destructor)) static void end(void) {
  FILE *file = tell ? fopen(tell, "w") : NULL;
  if (!file) return;
  for (int letter = 0; letter < 128; letter++)
    if (n_by_letter[letter]) fprintf(file, "%c %ld\n", letter, (long)n_by_letter[letter]);
  fclose(file);
}

/* Whether a path is below one of the directories. */
static int is_below(const char *path) {
  if (!path || !dirs) return 0;
  for (const char *dir = dirs; *dir;) {
    size_t length = strcspn(dir, ":");
    if (length && !strncmp(path, dir, length) && (path[length] == '/' || !path[length])) return 1;
    dir += length + (dir[length] == ':');
  }
  return 0;
}

static int path_of(int fd, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, size - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return 1;
}

static int is_fd_below(int fd) {
  char path[4096];
  return fd > 2 && path_of(fd, path, sizeof path) && is_below(path);
}

/* A name relative to a directory that is open. */
static int is_at_below(int fd, const char *name) {
  char path[4096];
  if (!name || *name == '/') return is_below(name);
  return fd != AT_FDCWD && path_of(fd, path, sizeof path) && is_below(path);
}

enum { PASS, FAIL, SHORT };

/* What becomes of a call: it is made, fails with errno set, or does half of it. */
static int meet(char letter) {
  n_by_letter[(int)letter]++;
  if (!strchr(calls, letter) || atomic_fetch_add(&n_calls, 1) + 1 != at) return PASS;
  if (!strcmp(kind, "kill")) kill(getpid(), SIGKILL);
  if (!strcmp(kind, "short")) return SHORT;
  errno = !strcmp(kind, "enospc")   ? ENOSPC
          : !strcmp(kind, "emfile") ? EMFILE
          : !strcmp(kind, "eintr")  ? EINTR
                                    : EIO;
  return FAIL;
}

#define REAL(name)                                       \
  static __typeof__(name) *real;                         \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define FAULT(is_below, letter) ((is_below) ? meet(letter) : PASS)

ssize_t write(int fd, const void *bytes, size_t n) {
  REAL(write);
  int fault = FAULT(is_fd_below(fd), 'w');
  return fault == FAIL ? -1 : real(fd, bytes, fault == SHORT && n > 1 ? n / 2 : n);
}
ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset) {
  REAL(pwrite);
  int fault = FAULT(is_fd_below(fd), 'w');
  return fault == FAIL ? -1 : real(fd, bytes, fault == SHORT && n > 1 ? n / 2 : n, offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t offset) {
  REAL(pwrite64);
  int fault = FAULT(is_fd_below(fd), 'w');
  return fault == FAIL ? -1 : real(fd, bytes, fault == SHORT && n > 1 ? n / 2 : n, offset);
}
ssize_t writev(int fd, const struct iovec *pieces, int n) {
  REAL(writev);
  int fault = FAULT(is_fd_below(fd), 'w');
  return fault == FAIL ? -1 : real(fd, pieces, fault == SHORT && n > 1 ? n / 2 : n);
}
ssize_t read(int fd, void *bytes, size_t n) {
  REAL(read);
  int fault = FAULT(is_fd_below(fd), 'r');
  return fault == FAIL ? -1 : real(fd, bytes, fault == SHORT && n > 1 ? n / 2 : n);
}
ssize_t pread64(int fd, void *bytes, size_t n, off64_t offset) {
  REAL(pread64);
  int fault = FAULT(is_fd_below(fd), 'r');
  return fault == FAIL ? -1 : real(fd, bytes, fault == SHORT && n > 1 ? n / 2 : n, offset);
}
int fsync(int fd) {
  REAL(fsync);
  return FAULT(is_fd_below(fd), 's') == FAIL ? -1 : real(fd);
}
int fdatasync(int fd) {
  REAL(fdatasync);
  return FAULT(is_fd_below(fd), 's') == FAIL ? -1 : real(fd);
}
int ftruncate(int fd, off_t length) {
  REAL(ftruncate);
  return FAULT(is_fd_below(fd), 't') == FAIL ? -1 : real(fd, length);
}
int ftruncate64(int fd, off64_t length) {
  REAL(ftruncate64);
  return FAULT(is_fd_below(fd), 't') == FAIL ? -1 : real(fd, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  REAL(fallocate64);
  return FAULT(is_fd_below(fd), 't') == FAIL ? -1 : real(fd, mode, offset, length);
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
  REAL(posix_fallocate64);
  return FAULT(is_fd_below(fd), 't') == FAIL ? errno : real(fd, offset, length);
}

#define MODE(flags)                                      \
  mode_t mode = 0;                                       \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                 \
    va_list arguments;                                   \
    va_start(arguments, flags);                          \
    mode = va_arg(arguments, int);                       \
    va_end(arguments);                                   \
  }
int open(const char *path, int flags, ...) {
  REAL(open);
  MODE(flags)
  return FAULT(is_below(path), 'o') == FAIL ? -1 : real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  REAL(open64);
  MODE(flags)
  return FAULT(is_below(path), 'o') == FAIL ? -1 : real(path, flags, mode);
}
int openat(int fd, const char *path, int flags, ...) {
  REAL(openat);
  MODE(flags)
  return FAULT(is_at_below(fd, path), 'o') == FAIL ? -1 : real(fd, path, flags, mode);
}
int openat64(int fd, const char *path, int flags, ...) {
  REAL(openat64);
  MODE(flags)
  return FAULT(is_at_below(fd, path), 'o') == FAIL ? -1 : real(fd, path, flags, mode);
}
int rename(const char *from, const char *to) {
  REAL(rename);
  return FAULT(is_below(from) || is_below(to), 'n') == FAIL ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
  REAL(link);
  return FAULT(is_below(to), 'n') == FAIL ? -1 : real(from, to);
}
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
  REAL(linkat);
  return FAULT(is_at_below(to_fd, to), 'n') == FAIL ? -1 : real(from_fd, from, to_fd, to, flags);
}
int unlink(const char *path) {
  REAL(unlink);
  return FAULT(is_below(path), 'u') == FAIL ? -1 : real(path);
}
int unlinkat(int fd, const char *path, int flags) {
  REAL(unlinkat);
  return FAULT(is_at_below(fd, path), 'u') == FAIL ? -1 : real(fd, path, flags);
}
int rmdir(const char *path) {
  REAL(rmdir);
  return FAULT(is_below(path), 'u') == FAIL ? -1 : real(path);
}
int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return FAULT(is_below(path), 'd') == FAIL ? -1 : real(path, mode);
}
void *mmap(void *start, size_t length, int protection, int flags, int fd, off_t offset) {
  REAL(mmap);
  return fd > 2 && FAULT(is_fd_below(fd), 'm') == FAIL ? MAP_FAILED : real(start, length, protection, flags, fd, offset);
}
void *mmap64(void *start, size_t length, int protection, int flags, int fd, off64_t offset) {
  REAL(mmap64);
  return fd > 2 && FAULT(is_fd_below(fd), 'm') == FAIL ? MAP_FAILED : real(start, length, protection, flags, fd, offset);
}
