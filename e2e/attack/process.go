package attack

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// victims are the targets of processOperations and procOperations.
var victims = []struct {
	name string
	pid  func(*Targets) int
}{
	{"root", func(t *Targets) int { return t.Root }},
	{"user", func(t *Targets) int { return t.User }},
	{"neighbour", func(t *Targets) int { return t.Neighbour }},
	{"supervisor", func(t *Targets) int { return t.Supervisor }},
	{"init", func(t *Targets) int { return cmp.Or(t.Init, 1) }},
}

// against returns one operation for each victim.
func against(name, why string, try func(pid int) error) []Operation {
	var out []Operation
	for _, v := range victims {
		out = append(out, Operation{Name: name + "-" + v.name, Why: why, try: func(t *Targets) error { return try(v.pid(t)) }})
	}
	return out
}

func join(lists ...[]Operation) []Operation {
	var out []Operation
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// processOperations use other processes.
var processOperations = join(
	against("process/signal", "", func(pid int) error { return unix.Kill(pid, 0) }),
	against("process/pidfd-signal", "", func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	}),
	against("process/ptrace-seize", "", func(pid int) error {
		runtime.LockOSThread()
		return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0)
	}),
	against("process/read-memory", "", func(pid int) error {
		buf := make([]byte, 8)
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: textStart, Len: 8}}, 0)
		return reached(err, unix.EFAULT)
	}),
	against("process/write-memory", "", func(pid int) error {
		buf := make([]byte, 8)
		_, err := unix.ProcessVMWritev(pid, []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: textStart, Len: 8}}, 0)
		return reached(err, unix.EFAULT) // the text segment is read-only for everyone
	}),
	against("process/take-descriptor", "", func(pid int) error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return call(unix.SYS_PIDFD_GETFD, uintptr(fd), 0, 0)
	}),
	against("process/compare", "", func(pid int) error {
		const kcmpFile = 0
		return call(unix.SYS_KCMP, uintptr(pid), uintptr(pid), kcmpFile, 0, 0)
	}),
	[]Operation{
		{Name: "process/ptrace-attach", try: func(t *Targets) error {
			runtime.LockOSThread()
			return call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(t.User), 0, 0)
		}},
		{Name: "process/signal-group", try: func(t *Targets) error { return unix.Kill(-t.User, 0) }},
		{Name: "process/signal-parent", Why: "the parent is the probe's own first process", try: func(*Targets) error { return unix.Kill(os.Getppid(), 0) }},
		{Name: "process/ptrace-child", Why: "a task may trace what it started: debuggers do", try: traceChild},
		{Name: "process/madvise", try: func(t *Targets) error {
			fd, err := unix.PidfdOpen(t.User, 0)
			if err != nil {
				return err
			}
			iov := unix.Iovec{}
			return call(unix.SYS_PROCESS_MADVISE, uintptr(fd), addr(&iov), 0, unix.MADV_COLD, 0)
		}},
		{Name: "process/move-pages", try: func(t *Targets) error { return call(unix.SYS_MOVE_PAGES, uintptr(t.User), 0, 0, 0, 0, 0) }},
		{Name: "process/core-dump", try: func(*Targets) error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}},
		{Name: "process/become-reaper", Why: "it then reaps what its own children leave", try: func(*Targets) error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }},
		{Name: "process/dumpable", Why: "it lets processes of its own uid look at it, which the victims of its uid may not: those are other tasks of a named user", try: func(*Targets) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }},
		{Name: "process/change-memory-map", try: func(*Targets) error {
			return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_START_BRK, 1<<20, 0, 0)
		}},
	},
)

// textStart is the start of the text segment of this program and the victims.
const textStart = 0x400000

// traceChild starts a child that asks to be traced.
func traceChild(*Targets) error {
	runtime.LockOSThread()
	cmd := exec.Command(self(), "uid")
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := unix.Wait4(cmd.Process.Pid, nil, 0, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(cmd.Process.Pid)
}

// ofProc returns operations on files of /proc/PID of each victim.
func ofProc(file string, try func(name string) error) []Operation {
	return against("proc/"+file, "", func(pid int) error { return try(filepath.Join("/proc", strconv.Itoa(pid), file)) })
}

func reading(name string) error { return open(name, unix.O_RDONLY) }
func writing(name string) error { return open(name, unix.O_RDWR) }

// entering opens the directory behind a link of /proc.
func entering(name string) error { return open(name, unix.O_RDONLY|unix.O_DIRECTORY) }

func followed(name string) error { _, err := os.Readlink(name); return err }

// procOperations use /proc of other processes.
var procOperations = join(
	ofProc("environ", reading), ofProc("mem", writing), ofProc("maps", reading), ofProc("root", entering), ofProc("cwd", entering),
	ofProc("exe", followed), ofProc("fd", listing), ofProc("ns", func(name string) error { return open(name+"/mnt", unix.O_RDONLY) }),
	against("proc/stat", "", func(pid int) error { return unix.Stat(fmt.Sprintf("/proc/%d", pid), new(unix.Stat_t)) }),
	[]Operation{
		{Name: "proc/list", try: signalOthers},
		{Name: "proc/overwrite-init", try: func(t *Targets) error {
			return reached(open(fmt.Sprintf("/proc/%d/exe", cmp.Or(t.Init, 1)), unix.O_WRONLY), unix.ETXTBSY)
		}},
		{Name: "proc/sys-hostname", try: opener(unix.O_WRONLY, fixed("/proc/sys/kernel/hostname"))},
		{Name: "proc/sys-core-pattern", try: opener(unix.O_WRONLY, fixed("/proc/sys/kernel/core_pattern"))},
		{Name: "proc/sysrq", try: opener(unix.O_WRONLY, fixed("/proc/sysrq-trigger"))},
		{Name: "proc/kcore", try: opener(unix.O_RDONLY, fixed("/proc/kcore"))},
		{Name: "proc/kmsg", try: opener(unix.O_RDONLY, fixed("/proc/kmsg"))},
		{Name: "proc/mountinfo", Why: "the mounts of its own namespace, which it was given", try: opener(unix.O_RDONLY, fixed("/proc/self/mountinfo"))},
		{Name: "proc/own-memory", Why: "a process may write to itself", try: opener(unix.O_RDWR, fixed("/proc/self/mem"))},
	},
)

func listing(name string) error {
	_, err := os.ReadDir(name)
	return err
}

// signalOthers lists processes of other users.
func signalOthers(*Targets) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		var st unix.Stat_t
		if err != nil || unix.Stat("/proc/"+e.Name(), &st) != nil {
			continue
		}
		if pid == 1 || int(st.Uid) != os.Getuid() || pid < os.Getppid() {
			return nil
		}
	}
	return errNothing
}

// schedulingOperations change the scheduling of other processes.
var schedulingOperations = join(
	against("schedule/priority", "", samePriority),
	against("schedule/affinity", "", func(pid int) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &set)
	}),
	against("schedule/limits", "", func(pid int) error {
		return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) // requires the same right as setting
	}),
	[]Operation{
		{Name: "schedule/io-priority", try: func(t *Targets) error {
			const who, idle = 1, 3 << 13
			return call(unix.SYS_IOPRIO_SET, who, uintptr(t.User), idle)
		}},
		{Name: "schedule/priority-of-uid", try: func(t *Targets) error { return priorityOfUser(t) }},
		{Name: "schedule/real-time", try: func(*Targets) error {
			return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		}},
		{Name: "schedule/own-nice", try: func(*Targets) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) }},
		{Name: "schedule/own-oom-score", try: func(*Targets) error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-500"), 0) }},
		{Name: "schedule/own-limits", try: func(*Targets) error {
			return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		}},
		{Name: "schedule/cgroup-memory", try: func(t *Targets) error { return ownGroup(t, "memory.max", "memory.limit_in_bytes") }},
		{Name: "schedule/cgroup-pids", try: func(t *Targets) error { return ownGroup(t, "pids.max") }},
		{Name: "schedule/cgroup-leave", try: leaveGroup},
		{Name: "schedule/cgroup-make", try: makeGroup},
	},
)

// samePriority sets the current priority of a process again.
func samePriority(pid int) error {
	got, err := value(unix.SYS_GETPRIORITY, unix.PRIO_PROCESS, uintptr(pid))
	if err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, pid, 20-int(got)) // the kernel returns 20 - nice
}

// priorityOfUser changes the priority of every process of the victim's UID, and checks whether the
// victim's changed.
func priorityOfUser(t *Targets) error {
	own, err := value(unix.SYS_GETPRIORITY, unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	nice := min(20-int(own)+3, 19) // a higher priority than that of the tests requires another right
	if err := unix.Setpriority(unix.PRIO_USER, t.UserID, nice); err != nil {
		return err
	}
	got, err := value(unix.SYS_GETPRIORITY, unix.PRIO_PROCESS, uintptr(t.User))
	if err != nil {
		return err
	}
	if 20-int(got) != nice {
		return errNothing
	}
	return nil
}

// ownGroup opens a limit of the probe's own control group for writing.
func ownGroup(t *Targets, names ...string) error {
	return inGroups(t, "", names, func(at string) error { return open(at, unix.O_WRONLY) })
}

// leaveGroup opens the process list of the parent group. A write to it would move the probe there.
func leaveGroup(t *Targets) error {
	return inGroups(t, "..", []string{"cgroup.procs", "tasks"}, func(at string) error { return open(at, unix.O_WRONLY) })
}

// makeGroup creates a group below the probe's own group.
func makeGroup(t *Targets) error {
	return inGroups(t, "", []string{""}, func(dir string) error {
		at := filepath.Join(dir, "made")
		if err := unix.Mkdir(at, 0o755); err != nil {
			return err
		}
		return unix.Rmdir(at)
	})
}

// inGroups calls try with files of the probe's own groups, or with files relative to them. It
// returns nil if one call succeeds.
func inGroups(t *Targets, rel string, names []string, try func(string) error) error {
	errs := []error{}
	for _, dir := range t.OwnGroups {
		dir = filepath.Join(strings.ReplaceAll(dir, "ALLOC", os.Getenv("NOMAD_ALLOC_ID")), rel)
		for _, name := range names {
			err := try(filepath.Join(dir, name))
			if err == nil {
				return nil
			}
			if err != unix.ENOENT { // not in this hierarchy
				errs = append(errs, err)
			}
		}
	}
	if len(errs) == 0 {
		return unix.ENOENT
	}
	return errors.Join(errs...)
}
