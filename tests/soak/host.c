/* Makes a process of the soak test look like a process on a machine of its own.
 *
 * Preloaded into every process. The name of the machine is in -Ddrctl.part=NAME (the lab's Java
 * processes) or in SOAK_HOST. In the folder SOAK_HOSTS, the file NAME.address has the source
 * address of its connections, and NAME.clock (8 bytes) the seconds that its clock is ahead, which
 * may change at any time. Real calls are made directly to the kernel.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;
static in_addr_t source;

static int64_t offset(void) { return ahead ? *ahead : 0; }

static void read_name(char *name, size_t size) {
    static char line[1 << 18];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, line, sizeof line - 1);
    if (file >= 0) close(file);
    for (char *word = line; word < line + length; word += strlen(word) + 1)
        if (!strncmp(word, "-Ddrctl.part=", 13)) {
            snprintf(name, size, "%s", word + 13);
            return;
        }
    const char *given = getenv("SOAK_HOST");
    if (given) snprintf(name, size, "%s", given);
}

__attribute__((constructor)) static void begin(void) {
    char name[64] = "", path[4096], address[64] = "";
    const char *folder = getenv("SOAK_HOSTS");
    read_name(name, sizeof name);
    if (!folder || !*name) return;
    snprintf(path, sizeof path, "%s/%s.address", folder, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, address, sizeof address - 1) > 0) source = inet_addr(address);
        close(file);
    }
    snprintf(path, sizeof path, "%s/%s.clock", folder, name);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) ahead = page;
        close(file);
    }
}

static int is_wall_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (!failed && is_wall_clock(clock)) at->tv_sec += offset();
    return failed;
}

int timespec_get(struct timespec *at, int base) {
    return clock_gettime(CLOCK_REALTIME, at) ? 0 : base;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

/* A deadline that was computed from the shifted clock; the kernel compares it with its own. Before
 * 2001, it is one of the monotonic clock: the condition does not show which clock it has. */
static clockid_t unshifted(const struct timespec *until, struct timespec *real) {
    *real = *until;
    if (until->tv_sec < 1000000000) return CLOCK_MONOTONIC;
    real->tv_sec -= offset();
    return CLOCK_REALTIME;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    struct timespec real;
    clockid_t clock = unshifted(until, &real);
    return pthread_cond_clockwait(condition, mutex, clock, &real);
}

/* librdkafka waits with the calls of C11. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex,
                  const struct timespec *restrict until) {
    int failed = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    return !failed ? thrd_success : failed == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec real;
    clockid_t clock = unshifted(until, &real);
    return pthread_mutex_clocklock(mutex, clock, &real);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    struct timespec real;
    clockid_t clock = unshifted(until, &real);
    return sem_clockwait(semaphore, clock, &real);
}

static int is_loopback(in_addr_t address) { return (ntohl(address) >> 24) == 127; }

int connect(int socket, const struct sockaddr *to, socklen_t length) {
    int kept = errno, later = 1;
    if (source && to->sa_family == AF_INET &&
        is_loopback(((const struct sockaddr_in *)to)->sin_addr.s_addr)) {
        struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = source};
        setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof later);
        bind(socket, (struct sockaddr *)&from, sizeof from);
    } else if (source && to->sa_family == AF_INET6) {
        const struct in6_addr *there = &((const struct sockaddr_in6 *)to)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(there) && is_loopback(there->s6_addr32[3])) {
            struct sockaddr_in6 from = {.sin6_family = AF_INET6};
            from.sin6_addr.s6_addr32[2] = htonl(0xffff);
            from.sin6_addr.s6_addr32[3] = source;
            setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof later);
            bind(socket, (struct sockaddr *)&from, sizeof from);
        }
    }
    errno = kept;
    return syscall(SYS_connect, socket, to, length);
}
