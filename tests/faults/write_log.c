/* Records what a server writes to the files of its store, and when it syncs them.

   Preloaded before the system's library. QUIVER_STORE names the store, which must not exist
   yet, QUIVER_WRITES the log. Files are mapped mostly: at each turn of the event loop and
   around each sync the mapped pages are compared with a copy, and those that changed are
   logged. tests/support/write_log.py reads the log. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  PAGE = 4096,
  FILES = 4096,
  MAPPINGS = 1024
};

/* What happened: the letters are those of tests/support/write_log.py. */
enum record {
  CREATED = 'C',
  RENAMED = 'R',
  UNLINKED = 'U',
  MADE_FOLDER = 'M',
  SYNCED_FOLDER = 'F',
  WROTE = 'W',
  SIZED = 'T',
  SYNC_BEGINS = 'B',
  SYNC_ENDS = 'E',
};

struct head {
  uint8_t kind;
  uint32_t file;
  uint64_t number;
  uint32_t size;
} __attribute__((packed));

/* Files by number: the place in this table. An inode may be used again. */
static struct {
  dev_t device;
  ino_t inode;
  bool gone;
  size_t size;
} files[FILES];
static uint32_t file_count;

static struct {
  char *base;
  size_t size;
  uint32_t file;
  char *copy;
} mappings[MAPPINGS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *store;
static uint64_t syncs;

#define NEXT(name) \
  static __typeof__(&name) next; \
  if (next == NULL) next = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("QUIVER_WRITES");
  store = getenv("QUIVER_STORE");
  if (path == NULL || store == NULL) return;
  log_fd =
    (int) syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) abort();
}

static void put(const void *bytes, size_t size) {
  const char *at = bytes;
  while (size > 0) {
    long done = syscall(SYS_write, log_fd, at, size);
    if (done <= 0) abort();
    at += done;
    size -= (size_t) done;
  }
}

static void note(enum record kind, uint32_t file, uint64_t number, const void *bytes, size_t size) {
  struct head head = {(uint8_t) kind, file, number, (uint32_t) size};
  put(&head, sizeof head);
  put(bytes, size);
}

static bool in_store(const char *path) {
  return log_fd >= 0 && strncmp(path, store, strlen(store)) == 0;
}

/* Return the number of an open file of the store, -1 for any other. */
static int64_t number_of(int fd) {
  struct stat status;
  if (log_fd < 0 || fstat(fd, &status) != 0) return -1;
  for (uint32_t i = file_count; i-- > 0;)
    if (files[i].device == status.st_dev && files[i].inode == status.st_ino && !files[i].gone)
      return i;
  return -1;
}

/* Log the pages of all mappings that changed. The lock is held. */
static void look(void) {
  for (int i = 0; i < MAPPINGS; i++) {
    if (mappings[i].base == NULL) continue;
    /* Beyond the end of its file a mapping has nothing. */
    size_t end = files[mappings[i].file].size;
    if (end > mappings[i].size) end = mappings[i].size;
    for (size_t at = 0; at < end; at += PAGE) {
      size_t size = end - at < PAGE ? end - at : PAGE;
      if (memcmp(mappings[i].base + at, mappings[i].copy + at, size) == 0) continue;
      memcpy(mappings[i].copy + at, mappings[i].base + at, size);
      note(WROTE, mappings[i].file, at, mappings[i].copy + at, size);
    }
  }
}

static void log_size(int fd, int64_t file) {
  struct stat status;
  if (file < 0 || fstat(fd, &status) != 0) return;
  files[file].size = (size_t) status.st_size;
  note(SIZED, (uint32_t) file, (uint64_t) status.st_size, "", 0);
}

/* Names */

static void opened(int fd, const char *path, int flags) {
  struct stat status;
  if (fd < 0 || !in_store(path) || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  pthread_mutex_lock(&lock);
  int64_t file = number_of(fd);
  if (file < 0) {
    if (file_count == FILES) abort();
    file = file_count++;
    files[file].device = status.st_dev;
    files[file].inode = status.st_ino;
    note(CREATED, (uint32_t) file, 0, path, strlen(path));
    log_size(fd, file);
  } else if (flags & O_TRUNC) {
    log_size(fd, file);
  }
  pthread_mutex_unlock(&lock);
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
  int fd = (int) syscall(SYS_openat, folder, path, flags, mode);
  opened(fd, path, flags);
  return fd;
}

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    return open_at(AT_FDCWD, path, flags, mode); \
  }

#define OPENS_AT(name) \
  int name(int folder, const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    return open_at(folder, path, flags, mode); \
  }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)

static void forget(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return;
  for (uint32_t i = 0; i < file_count; i++)
    if (files[i].device == status.st_dev && files[i].inode == status.st_ino) files[i].gone = true;
}

int rename(const char *from, const char *to) {
  NEXT(rename);
  if (!in_store(from)) return next(from, to);
  char both[2 * PATH_MAX];
  int size = snprintf(both, sizeof both, "%s%c%s", from, 0, to);
  pthread_mutex_lock(&lock);
  look();
  forget(to);
  int code = next(from, to);
  if (code == 0) note(RENAMED, 0, 0, both, (size_t) size);
  pthread_mutex_unlock(&lock);
  return code;
}

int unlink(const char *path) {
  NEXT(unlink);
  if (!in_store(path)) return next(path);
  pthread_mutex_lock(&lock);
  look();
  /* Who has it open may write to it still, which no file of the store shows. */
  forget(path);
  int code = next(path);
  if (code == 0) note(UNLINKED, 0, 0, path, strlen(path));
  pthread_mutex_unlock(&lock);
  return code;
}

int mkdir(const char *path, mode_t mode) {
  NEXT(mkdir);
  int code = next(path, mode);
  if (code != 0 || !in_store(path)) return code;
  pthread_mutex_lock(&lock);
  note(MADE_FOLDER, 0, 0, path, strlen(path));
  pthread_mutex_unlock(&lock);
  return code;
}

/* Content */

ssize_t write(int fd, const void *bytes, size_t size) {
  NEXT(write);
  int64_t file = number_of(fd);
  off_t at = file < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
  ssize_t done = next(fd, bytes, size);
  if (file < 0 || done <= 0) return done;
  pthread_mutex_lock(&lock);
  note(WROTE, (uint32_t) file, (uint64_t) at, bytes, (size_t) done);
  log_size(fd, file);
  pthread_mutex_unlock(&lock);
  return done;
}

static void add_mapping(char *base, size_t size, uint32_t file) {
  for (int i = 0; i < MAPPINGS; i++) {
    if (mappings[i].base != NULL) continue;
    char *copy = malloc(size);
    if (copy == NULL) abort();
    memcpy(copy, base, size);
    mappings[i].base = base;
    mappings[i].size = size;
    mappings[i].file = file;
    mappings[i].copy = copy;
    return;
  }
  abort();
}

static void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  NEXT(mmap);
  void *base = next(at, size, protection, flags, fd, offset);
  if (base == MAP_FAILED || fd < 0 || !(protection & PROT_WRITE) || !(flags & MAP_SHARED))
    return base;
  pthread_mutex_lock(&lock);
  int64_t file = number_of(fd);
  if (file >= 0) add_mapping(base, size, (uint32_t) file);
  pthread_mutex_unlock(&lock);
  return base;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(at, size, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(at, size, protection, flags, fd, offset);
}

/* Log what a mapping has, and forget it; return the number of its file, -1 for others'. */
static int64_t drop_mapping(const char *base) {
  look();
  for (int i = 0; i < MAPPINGS; i++) {
    if (mappings[i].base != base) continue;
    mappings[i].base = NULL;
    free(mappings[i].copy);
    return mappings[i].file;
  }
  return -1;
}

int munmap(void *at, size_t size) {
  NEXT(munmap);
  if (log_fd < 0) return next(at, size);
  pthread_mutex_lock(&lock);
  drop_mapping(at);
  pthread_mutex_unlock(&lock);
  return next(at, size);
}

void *mremap(void *at, size_t old_size, size_t size, int flags, ...) {
  static void *(*next)(void *, size_t, size_t, int, ...);
  if (next == NULL)
    next = (void *(*) (void *, size_t, size_t, int, ...)) dlsym(RTLD_NEXT, "mremap");
  if (log_fd < 0) return next(at, old_size, size, flags);
  pthread_mutex_lock(&lock);
  int64_t file = drop_mapping(at);
  void *base = next(at, old_size, size, flags);
  if (file >= 0)
    add_mapping(
      base == MAP_FAILED ? at : base, base == MAP_FAILED ? old_size : size, (uint32_t) file);
  pthread_mutex_unlock(&lock);
  return base;
}

static int set_size(int fd, off_t size) {
  NEXT(ftruncate);
  if (log_fd < 0) return next(fd, size);
  pthread_mutex_lock(&lock);
  look();
  int code = next(fd, size);
  log_size(fd, number_of(fd));
  pthread_mutex_unlock(&lock);
  return code;
}

int ftruncate(int fd, off_t size) {
  return set_size(fd, size);
}
int ftruncate64(int fd, off_t size) {
  return set_size(fd, size);
}

static int reserve(int fd, off_t offset, off_t size) {
  NEXT(posix_fallocate);
  int code = next(fd, offset, size);
  if (log_fd < 0) return code;
  pthread_mutex_lock(&lock);
  log_size(fd, number_of(fd));
  pthread_mutex_unlock(&lock);
  return code;
}

int posix_fallocate(int fd, off_t offset, off_t size) {
  return reserve(fd, offset, size);
}
int posix_fallocate64(int fd, off_t offset, off_t size) {
  return reserve(fd, offset, size);
}

/* Syncs: what was written before one begins is on disk when it ends. */

static uint64_t sync_begins(int64_t file) {
  pthread_mutex_lock(&lock);
  look();
  uint64_t number = ++syncs;
  note(SYNC_BEGINS, (uint32_t) file, number, "", 0);
  pthread_mutex_unlock(&lock);
  return number;
}

static void sync_ends(int64_t file, uint64_t number) {
  pthread_mutex_lock(&lock);
  note(SYNC_ENDS, (uint32_t) file, number, "", 0);
  pthread_mutex_unlock(&lock);
}

static void folder_synced(int fd) {
  char link[64];
  char path[PATH_MAX];
  struct stat status;
  if (log_fd < 0 || fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path);
  if (size < 0) abort();
  pthread_mutex_lock(&lock);
  note(SYNCED_FOLDER, 0, 0, path, (size_t) size);
  pthread_mutex_unlock(&lock);
}

int fsync(int fd) {
  NEXT(fsync);
  int64_t file = number_of(fd);
  if (file < 0) {
    int code = next(fd);
    if (code == 0) folder_synced(fd);
    return code;
  }
  uint64_t number = sync_begins(file);
  int code = next(fd);
  if (code == 0) sync_ends(file, number);
  return code;
}

int fdatasync(int fd) {
  NEXT(fdatasync);
  int64_t file = number_of(fd);
  if (file < 0) return next(fd);
  uint64_t number = sync_begins(file);
  int code = next(fd);
  if (code == 0) sync_ends(file, number);
  return code;
}

int msync(void *at, size_t size, int flags) {
  NEXT(msync);
  int64_t file = -1;
  for (int i = 0; log_fd >= 0 && i < MAPPINGS; i++)
    if (mappings[i].base == at) file = mappings[i].file;
  if (file < 0) return next(at, size, flags);
  uint64_t number = sync_begins(file);
  int code = next(at, size, flags);
  if (code == 0) sync_ends(file, number);
  return code;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int wait) {
  NEXT(epoll_wait);
  if (log_fd >= 0) {
    pthread_mutex_lock(&lock);
    look();
    pthread_mutex_unlock(&lock);
  }
  return next(epoll, events, most, wait);
}
