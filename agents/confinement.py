"""What the process of a stranger's code may still do: limits of resources, Landlock, seccomp, a network of its own.

Linux only, but for the limits; each function says whether the kernel granted it. System calls are those of the manual
pages landlock(7), seccomp(2) and user_namespaces(7), through ctypes, because Python has no functions for them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable

_SET_PARENT_DEATH, _SET_SECCOMP, _SET_NO_NEW_PRIVILEGES = 1, 22, 38
_NEW_USER, _NEW_NETWORK, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = 0b1100
"""Landlock's rights to read files and to list folders."""
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Version of Landlock -> how many rights to files it knows, from the version on."""
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050001, 0x7FFF0000
_CALLS = {
    "x86_64": (
        0xC000003E,
        # read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask
        # rt_sigreturn pread64 readv writev access select sched_yield mremap madvise nanosleep getpid exit
        # uname getcwd readlink gettimeofday getrusage sysinfo times getuid getgid geteuid getegid sigaltstack
        # futex sched_getaffinity getdents64 restart_syscall clock_gettime clock_getres clock_nanosleep exit_group
        # openat newfstatat readlinkat pselect6 ppoll set_robust_list getrandom membarrier statx rseq faccessat2
        (
            *range(16), 17, 19, 20, 21, 23, 24, 25, 28, 35, 39, 60, 63, 79, 89, 96, 98, 99, 100, 102, 104,
            107, 108, 131, 202, 204, 217, 219, 228, 229, 230, 231, 257, 262, 267, 270, 271, 273, 318, 324, 332, 334,
            439,
        ),
    ),
    "aarch64": (
        0xC00000B7,
        # getcwd faccessat openat close getdents64 lseek read write readv writev pread64 pselect6 ppoll
        # readlinkat newfstatat fstat exit exit_group futex set_robust_list nanosleep clock_gettime clock_getres
        # clock_nanosleep sched_getaffinity sched_yield restart_syscall sigaltstack rt_sigaction rt_sigprocmask
        # rt_sigreturn times uname getrusage gettimeofday getpid getuid geteuid getgid getegid sysinfo brk munmap mremap
        # mmap mprotect madvise getrandom membarrier statx rseq faccessat2
        (
            17, 48, 56, 57, 61, 62, 63, 64, 65, 66, 67, 72, 73, 78, 79, 80, 93, 94, 98, 99, 101, 113, 114, 115,
            123, 124, 128, 132, 134, 135, 139, 153, 160, 165, 169, 172, 174, 175, 176, 177, 179, 214, 215, 216, 222,
            226, 233, 278, 283, 291, 293, 439,
        ),
    ),
}  # fmt: skip
"""Machine -> what the kernel calls it, and the only system calls of confined code."""


def own_network() -> bool:
    """Move this process into a network without any interface."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    return any(libc.unshare(flags) == 0 for flags in (_NEW_USER | _NEW_NETWORK | _NEW_IPC, _NEW_NETWORK))


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH, 9, 0, 0, 0)


def limit(memory_bytes: int, cpu_s: int, file_bytes: int) -> None:
    """Limits of memory, processor time and the size of files, for this process alone."""
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NPROC, 0),
    ):  # fmt: skip
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):  # macOS does not limit addresses
            continue


def read_only(folders: Iterable[str]) -> bool:
    """Landlock: nothing but these folders can be read from now on, no file be changed, no signal leave this process."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    files = (1 << max(rights for since, rights in _RIGHTS.items() if since <= version)) - 1
    about = struct.pack("=QQQ", files, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = libc.syscall(_CREATE_RULESET, about, ctypes.c_size_t(len(about)), 0)
    if rules < 0:
        return False
    for folder in folders:
        place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", _READ, place), 0)
        os.close(place)
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return done


def few_calls() -> bool:
    """seccomp: refuse all system calls but those that computing, reading and answering need.

    No processes or threads, no sockets, no signals to others, and no change of files, limits or permissions.
    """
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    machine, calls = _CALLS[platform.machine()]
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, machine), (0x06, 0, 0, _KILL), (0x20, 0, 0, 0)]
    steps += [(0x15, len(calls) - k, 0, call) for k, call in enumerate(calls)]  # to the last step, if equal
    steps += [(0x06, 0, 0, _REFUSE), (0x06, 0, 0, _ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    about = struct.pack("@HP", len(steps), ctypes.addressof(program))
    return bool(libc.prctl(_SET_SECCOMP, 2, about, 0, 0) == 0)
