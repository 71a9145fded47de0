/* Makes the n-th system call of a kind fail, or kills the process at it.
 *
 * Comes in: a folder, and which call is to fail and how. Goes out: counts of the calls that change
 * files below that folder, in memory that is shared with whoever watches. A seccomp filter turns
 * these calls into SIGSYS, whose handler counts, fails or makes them: nothing is missed, whether
 * Python, C++, Rust or the C library's own buffers make it. The handler passes a magic sixth
 * argument, which the filter lets through. Forked children are counted with their parent; programs
 * that are started (exec) have no handler and end with SIGSYS. This file does not know tmt.
 *
 * Linux on x86-64 or aarch64. Build: cc -shared -fPIC -O2 -o inject.so inject.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum kind { WRITE, CREATE, RENAME, REMOVE, FSYNC, N_KINDS };

/* The same fields, in the same order, as `Shared` of trial.py. */
struct shared {
    long counts[N_KINDS];
    long fired; /* calls that failed on purpose */
    long kind;  /* of the call that fails first; -1: none */
    long n;     /* it is the n-th of its kind, from 1 */
    long error; /* errno; 0: SIGKILL before the call */
    long after; /* bit mask of the kinds that fail ever after */
    long half;  /* 1: half of the bytes of a write arrive before */
    char path[1024]; /* what the first call that failed was to change */
};

#define MAGIC 0x746d74666175ul
#define PATH_LENGTH 4096

static struct shared *plan;
static char root[PATH_LENGTH];
static size_t root_length;

/* Where a call names what it changes: a descriptor, a path, or a path relative to a descriptor. */
enum place { FD, PATH, AT };
struct call {
    int number;
    enum kind kind;
    enum place place;
    int position; /* of the argument that names it */
};
static const struct call CALLS[] = {
    {__NR_write, WRITE, FD, 0},
    {__NR_pwrite64, WRITE, FD, 0},
    {__NR_writev, WRITE, FD, 0},
    {__NR_pwritev, WRITE, FD, 0},
    {__NR_pwritev2, WRITE, FD, 0},
    {__NR_sendfile, WRITE, FD, 0},
    {__NR_copy_file_range, WRITE, FD, 2},
    {__NR_ftruncate, WRITE, FD, 0},
    {__NR_fallocate, WRITE, FD, 0},
    {__NR_truncate, WRITE, PATH, 0},
    {__NR_openat, CREATE, AT, 0}, /* with O_CREAT or O_TRUNC only */
    {__NR_mkdirat, CREATE, AT, 0},
    {__NR_linkat, CREATE, AT, 2},
    {__NR_symlinkat, CREATE, AT, 1},
    {__NR_renameat, RENAME, AT, 2},
    {__NR_renameat2, RENAME, AT, 2},
    {__NR_unlinkat, REMOVE, AT, 0},
    {__NR_fsync, FSYNC, FD, 0},
    {__NR_fdatasync, FSYNC, FD, 0},
#ifdef __NR_open
    {__NR_open, CREATE, PATH, 0},
    {__NR_creat, CREATE, PATH, 0},
    {__NR_mkdir, CREATE, PATH, 0},
    {__NR_link, CREATE, PATH, 1},
    {__NR_symlink, CREATE, PATH, 1},
    {__NR_rename, RENAME, PATH, 1},
    {__NR_unlink, REMOVE, PATH, 0},
    {__NR_rmdir, REMOVE, PATH, 0},
#endif
};
#define N_CALLS (sizeof CALLS / sizeof *CALLS)

static int is_below_root(const char *path) {
    return strncmp(path, root, root_length) == 0 &&
           (path[root_length] == '/' || path[root_length] == '\0');
}

/* The absolute path of a descriptor (AT_FDCWD: the working directory) into `path`. */
static int path_of(int fd, char *path) {
    char link[64] = "/proc/self/cwd";
    if (fd != AT_FDCWD) snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_LENGTH - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return 1;
}

/* Whether the call changes something below the root: what, into `path`. */
static int concerns_root(const struct call *call, const long *arguments, char *path) {
    long where = arguments[call->position];
    if (call->place == FD) return path_of((int)where, path) && is_below_root(path);
    int at = call->place == AT ? (int)where : AT_FDCWD;
    const char *name = (const char *)arguments[call->position + (call->place == AT)];
    size_t length = 0;
    if (name[0] != '/') {
        if (!path_of(at, path)) return 0;
        length = strlen(path);
        path[length++] = '/';
    }
    snprintf(path + length, PATH_LENGTH - length, "%s", name);
    return is_below_root(path);
}

/* libc's call with the argument by which the filter knows it; copy_file_range needs all six. */
static long make_call(const struct call *call, long *arguments) {
    if (call->number == __NR_copy_file_range) return -ENOSYS; /* callers have another way */
    long result = syscall(call->number, arguments[0], arguments[1], arguments[2], arguments[3],
                          arguments[4], MAGIC);
    return result < 0 ? -errno : result;
}

/* Half of the bytes of a write; 0: there was only one, or the call is none that can be cut. */
static long write_half(const struct call *call, long *arguments) {
    if (call->number != __NR_write && call->number != __NR_pwrite64 &&
        call->number != __NR_writev)
        return 0;
    long cut[6];
    memcpy(cut, arguments, sizeof cut);
    cut[2] /= 2; /* bytes, or vectors of writev */
    return cut[2] ? make_call(call, cut) : 0;
}

static long answer(const struct call *call, long *arguments) {
    char path[PATH_LENGTH];
    if (plan == NULL || !concerns_root(call, arguments, path)) return make_call(call, arguments);
    long n = __atomic_add_fetch(&plan->counts[call->kind], 1, __ATOMIC_SEQ_CST);
    int first = plan->kind == call->kind && plan->n == n;
    int later = plan->fired && (plan->after >> call->kind & 1);
    if (!first && !later) return make_call(call, arguments);
    if (__atomic_add_fetch(&plan->fired, 1, __ATOMIC_SEQ_CST) == 1)
        snprintf(plan->path, sizeof plan->path, "%s", path);
    long written = first && plan->half ? write_half(call, arguments) : 0;
    if (plan->error == 0) {
        kill(getpid(), SIGKILL);
        for (;;) pause(); /* a thread beside may run on for a moment; this call is not made */
    }
    return written > 0 ? written : -plan->error;
}

static void on_sigsys(int number, siginfo_t *info, void *context) {
    (void)number;
    int saved = errno;
#ifdef __x86_64__
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    long arguments[6] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                         registers[REG_R10], registers[REG_R8], registers[REG_R9]};
#else
    unsigned long long *registers = ((ucontext_t *)context)->uc_mcontext.regs;
    long arguments[6] = {registers[0], registers[1], registers[2],
                         registers[3], registers[4], registers[5]};
#endif
    long result = -ENOSYS;
    for (size_t i = 0; i < N_CALLS; i++)
        if (CALLS[i].number == info->si_syscall) result = answer(&CALLS[i], arguments);
#ifdef __x86_64__
    registers[REG_RAX] = result;
#else
    registers[0] = result;
#endif
    errno = saved;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_LOW(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]))
#define LOAD_HIGH(i) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[i]) + 4)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define IF_ANY_BIT(bits, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)

static int install_filter(void) {
    struct sock_filter filter[N_CALLS * 2 + 32];
    unsigned short length = 0;
#define ADD(statement) filter[length++] = (struct sock_filter)statement
    ADD(LOAD_LOW(5));
    ADD(IF_EQUAL((unsigned)MAGIC, 0, 3));
    ADD(LOAD_HIGH(5));
    ADD(IF_EQUAL((unsigned)(MAGIC >> 32), 0, 1));
    ADD(RETURN(SECCOMP_RET_ALLOW));
    ADD(LOAD(nr));
    for (size_t i = 0; i < N_CALLS; i++) {
        int flags = CALLS[i].number == __NR_openat ? 2 : -1;
#ifdef __NR_open
        if (CALLS[i].number == __NR_open) flags = 1;
#endif
        if (flags >= 0) {
            ADD(IF_EQUAL((unsigned)CALLS[i].number, 0, 4));
            ADD(LOAD_LOW(flags));
            ADD(IF_ANY_BIT(O_CREAT | O_TRUNC, 0, 1));
            ADD(RETURN(SECCOMP_RET_TRAP));
            ADD(RETURN(SECCOMP_RET_ALLOW));
        } else {
            ADD(IF_EQUAL((unsigned)CALLS[i].number, 0, 1));
            ADD(RETURN(SECCOMP_RET_TRAP));
        }
    }
    ADD(RETURN(SECCOMP_RET_ALLOW));
    struct sock_fprog program = {length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        return errno;
    return 0;
}

/* From now on, until the process ends. `directory` is absolute and without links; 0 or errno. */
int watch(const char *directory, struct shared *shared) {
    root_length = strlen(directory);
    if (root_length >= PATH_LENGTH) return ENAMETOOLONG;
    memcpy(root, directory, root_length + 1);
    plan = shared;
    struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL)) return errno;
    return install_filter();
}
