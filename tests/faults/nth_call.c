/* Fails the n-th call of one kind, as SQLite's tests do: preloaded before the system's library.

   A test and the process share a page (`struct control`, in the file QUIVER_FAULTS): the
   test says which kind fails and when, and reads how many calls there were. Memory fails
   for the modules of quiver_fast only: neither the interpreter nor the engine, which are
   others' work, survive without memory. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
  MEMORY = 1,
  MAPPING = 2,
  WRITE = 4,
  SYNC = 8,
  SIZE = 16,
  NAME = 32,
  OPEN = 64
};

/* As tests/support/faults.py lays it out. */
struct control {
  uint64_t armed;
  uint64_t kind;
  /* The call that fails; 0 for none. */
  uint64_t number;
  /* All calls after it fail as well. */
  uint64_t lasting;
  uint64_t seen;
  uint64_t failed;
  /* Opening a path that contains this arms it: empty for never. */
  char armed_by[256];
};

static struct control *control;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

#define NEXT(name) \
  static __typeof__(&name) next; \
  if (next == NULL) next = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("QUIVER_FAULTS");
  if (path == NULL) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  void *page = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) abort();
  control = page;
}

/* Say whether this call is one that fails, and count it. */
static bool fails(enum kind kind) {
  if (control == NULL || !__atomic_load_n(&control->armed, __ATOMIC_ACQUIRE)) return false;
  if (control->kind != kind) return false;
  uint64_t number = __atomic_add_fetch(&control->seen, 1, __ATOMIC_RELAXED);
  if (control->number == 0 || number < control->number) return false;
  if (number > control->number && !control->lasting) return false;
  __atomic_add_fetch(&control->failed, 1, __ATOMIC_RELAXED);
  return true;
}

static void arm(const char *path) {
  if (control != NULL && control->armed_by[0] && strstr(path, control->armed_by) != NULL)
    __atomic_store_n(&control->armed, 1, __ATOMIC_RELEASE);
}

/* Say whether the caller at an address is a module of ours. */
static bool is_ours(void *caller) {
  Dl_info info;
  if (control == NULL || !control->armed || control->kind != MEMORY) return false;
  return dladdr(caller, &info) && info.dli_fname != NULL &&
    strstr(info.dli_fname, "/quiver_fast/") != NULL &&
    strstr(info.dli_fname, "libquiver-proton") == NULL;
}

/* Sockets, pipes and what the test reads of the process are no files of a store. */
static bool is_file(int fd) {
  struct stat status;
  return fd > STDERR_FILENO && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static int failure(int error) {
  errno = error;
  return -1;
}

void *malloc(size_t size) {
  if (is_ours(__builtin_return_address(0)) && fails(MEMORY)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  if (is_ours(__builtin_return_address(0)) && fails(MEMORY)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
  if (is_ours(__builtin_return_address(0)) && fails(MEMORY)) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_realloc(old, size);
}

/* The 64-bit names are the same functions here (x86-64 and aarch64 Linux). */

static void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  NEXT(mmap);
  if (fd >= 0 && fails(MAPPING)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return next(at, size, protection, flags, fd, offset);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(at, size, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(at, size, protection, flags, fd, offset);
}

void *mremap(void *at, size_t old_size, size_t size, int flags, ...) {
  static void *(*next)(void *, size_t, size_t, int, ...);
  if (next == NULL)
    next = (void *(*) (void *, size_t, size_t, int, ...)) dlsym(RTLD_NEXT, "mremap");
  if (fails(MAPPING)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  /* Nobody here gives a fixed new address, the argument that may follow. */
  return next(at, old_size, size, flags);
}

ssize_t write(int fd, const void *bytes, size_t size) {
  NEXT(write);
  return is_file(fd) && fails(WRITE) ? failure(ENOSPC) : next(fd, bytes, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  NEXT(writev);
  return is_file(fd) && fails(WRITE) ? failure(ENOSPC) : next(fd, parts, count);
}

static ssize_t write_at(int fd, const void *bytes, size_t size, off_t offset) {
  NEXT(pwrite);
  return is_file(fd) && fails(WRITE) ? failure(ENOSPC) : next(fd, bytes, size, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
  return write_at(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset) {
  return write_at(fd, bytes, size, offset);
}

int fsync(int fd) {
  NEXT(fsync);
  return fails(SYNC) ? failure(EIO) : next(fd);
}

int fdatasync(int fd) {
  NEXT(fdatasync);
  return fails(SYNC) ? failure(EIO) : next(fd);
}

int msync(void *at, size_t size, int flags) {
  NEXT(msync);
  return fails(SYNC) ? failure(EIO) : next(at, size, flags);
}

static int set_size(int fd, off_t size) {
  NEXT(ftruncate);
  return fails(SIZE) ? failure(ENOSPC) : next(fd, size);
}

int ftruncate(int fd, off_t size) {
  return set_size(fd, size);
}
int ftruncate64(int fd, off_t size) {
  return set_size(fd, size);
}

static int allocate(int fd, int mode, off_t offset, off_t size) {
  NEXT(fallocate);
  return fails(SIZE) ? failure(ENOSPC) : next(fd, mode, offset, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  return allocate(fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off_t offset, off_t size) {
  return allocate(fd, mode, offset, size);
}

static int reserve(int fd, off_t offset, off_t size) {
  NEXT(posix_fallocate);
  return fails(SIZE) ? ENOSPC : next(fd, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
  return reserve(fd, offset, size);
}
int posix_fallocate64(int fd, off_t offset, off_t size) {
  return reserve(fd, offset, size);
}

int rename(const char *from, const char *to) {
  NEXT(rename);
  return fails(NAME) ? failure(EIO) : next(from, to);
}

int unlink(const char *path) {
  NEXT(unlink);
  return fails(NAME) ? failure(EIO) : next(path);
}

int mkdir(const char *path, mode_t mode) {
  NEXT(mkdir);
  return fails(NAME) ? failure(ENOSPC) : next(path, mode);
}

static mode_t mode_of(int flags, va_list more) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  NEXT(openat);
  arm(path);
  return fails(OPEN) ? failure(EMFILE) : next(folder, path, flags, mode);
}

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = mode_of(flags, more); \
    va_end(more); \
    return open_at(AT_FDCWD, path, flags, mode); \
  }

#define OPENS_AT(name) \
  int name(int folder, const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = mode_of(flags, more); \
    va_end(more); \
    return open_at(folder, path, flags, mode); \
  }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

int dup(int fd) {
  NEXT(dup);
  return fails(OPEN) ? failure(EMFILE) : next(fd);
}
