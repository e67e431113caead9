/* Mapped files as on a machine with larger pages, or as one memory that threads share.

   Preloaded before the system's library. QUIVER_PAGE is the size that sysconf tells for a page:
   mappings begin at a multiple of it. A call that such a system refuses, or that leaves a hole
   within a page, ends the process. With QUIVER_TOGETHER all mappings of a file are at one place,
   so that ThreadSanitizer sees that threads with mappings of their own use the same memory. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each mapping has a place of this size, so that it grows without a move. */
#define ROOM ((size_t) 1 << 26)
#define PLACES 1024

static char *area;
static ino_t inodes[PLACES];
static size_t used;

#define NEXT(name) \
  static __typeof__(&name) next; \
  if (next == NULL) next = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

static size_t page(void) {
  const char *text = getenv("QUIVER_PAGE");
  return text ? strtoul(text, NULL, 10) : 4096;
}

static void check(const char *call, size_t number) {
  if (number % page() == 0) return;
  fprintf(stderr, "%s: %zu is within a page\n", call, number);
  abort();
}

long sysconf(int name) {
  NEXT(sysconf);
  return name == _SC_PAGESIZE ? (long) page() : next(name);
}

static int is_ours(const char *at) {
  return area != NULL && at >= area && at < area + PLACES * ROOM;
}

static void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  return (void *) syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
  struct stat status;
  if (flags != MAP_SHARED || fstat(fd, &status) != 0)
    return map(at, size, protection, flags, fd, offset);
  if (area == NULL) {
    area = map(NULL, (PLACES + 1) * ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    area += ROOM - (size_t) area % ROOM;
  }
  for (size_t i = 0; i < used && getenv("QUIVER_TOGETHER"); i++)
    if (inodes[i] == status.st_ino) return area + i * ROOM;
  inodes[used] = status.st_ino;
  return map(area + used++ * ROOM, ROOM, protection, MAP_SHARED | MAP_FIXED, fd, offset);
}

void *mremap(void *at, size_t old_size, size_t size, int flags, ...) {
  return is_ours(at) ? at : (void *) syscall(SYS_mremap, at, old_size, size, flags, NULL);
}

/* Others may have the same place: it stays until the end. */
int munmap(void *at, size_t size) {
  return is_ours(at) ? 0 : (int) syscall(SYS_munmap, at, size);
}

int madvise(void *at, size_t size, int advice) {
  NEXT(madvise);
  if (is_ours(at)) check("madvise", (size_t) at);
  return next(at, size, advice);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  NEXT(fallocate64);
  if (mode & FALLOC_FL_PUNCH_HOLE) check("fallocate", (size_t) offset);
  return next(fd, mode, offset, size);
}

/* The page with the last byte is allocated whole, unless the file ends within it. */
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
  NEXT(posix_fallocate64);
  struct stat status;
  const int code = next(fd, offset, size);
  if (fstat(fd, &status) == 0 && offset + size < status.st_size)
    check("posix_fallocate", (size_t) (offset + size));
  return code;
}
