package attack

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ownFileOperations use files of the task itself.
var ownFileOperations = []Operation{
	{Name: "own/execute-written", Why: whyOwnFiles, try: func(*Targets) error { return runCopy(own("copy")) }},
	{Name: "own/execute-memory", Why: "a program from a memory file is one that it may also write to " + whyOwnFiles, try: executeMemory},
	{Name: "own/setuid-bit", Why: "the program would run as the uid that owns it, which is the task's; no_new_privs voids the bit", try: func(*Targets) error {
		if err := os.WriteFile(own("suid"), nil, 0o755); err != nil {
			return err
		}
		return unix.Chmod(own("suid"), 0o4755)
	}},
	{Name: "own/chown-away", try: func(*Targets) error { return chownOwn(0, 0) }},
	{Name: "own/capability-xattr", try: fileCapability},
	{Name: "own/device-node", try: func(*Targets) error { return unix.Mknod(own("disk"), unix.S_IFBLK|0o666, 8<<8) }},
	{Name: "own/char-device-node", try: func(*Targets) error { return unix.Mknod(own("mem"), unix.S_IFCHR|0o666, 1<<8|1) }},
	{Name: "own/program-overwritten", try: opener(unix.O_WRONLY, func(t *Targets) string { return t.Setuid })}, // not the running program
	{Name: "own/log-read", Why: "the log is what the task itself wrote", try: func(*Targets) error { return eachLog(own("../../alloc/logs"), "probe.", unix.O_RDONLY) }},
	{Name: "own/log-write", try: func(*Targets) error { return eachLog(own("../../alloc/logs"), "probe.", unix.O_WRONLY) }},
	{Name: "own/log-swapped", try: func(t *Targets) error { return swapLog(t, "probe.stderr.0") }},
	{Name: "own/log-pipe-read", try: readLogPipe},
	{Name: "own/log-pipe-init", try: opener(unix.O_RDONLY, func(t *Targets) string {
		return fmt.Sprintf("/proc/%d/fd/1", cmp.Or(t.Init, 1))
	})},
	{Name: "own/secrets-full", try: fillSecrets},
	{Name: "own/secrets-execute", try: func(*Targets) error { return runCopySized(os.Getenv("NOMAD_SECRETS_DIR")) }},
	{Name: "own/task-root-write", try: opener(unix.O_WRONLY|unix.O_CREAT, func(*Targets) string { return own("../planted") })},
	{Name: "own/alloc-root-write", try: opener(unix.O_WRONLY|unix.O_CREAT, func(*Targets) string { return own("../../planted") })},
	{Name: "own/replace-secrets", try: func(*Targets) error { return unix.Rename(own("../secrets"), own("../secrets-gone")) }},
	{Name: "own/replace-local", try: func(*Targets) error { return swapDirectory(own("")) }},
	{Name: "own/replace-logs", try: func(*Targets) error { return swapDirectory(own("../../alloc/logs")) }},
}

// neighbourOperations use another allocation, and another task of the same one.
var neighbourOperations = []Operation{
	{Name: "neighbour/list", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, func(t *Targets) string { return t.NeighbourDir })},
	{Name: "neighbour/secret", try: opener(unix.O_RDONLY, neighbour("neighbour/secrets/secret"))},
	{Name: "neighbour/api-socket", try: func(t *Targets) error {
		return connectUnix(neighbour("neighbour/secrets/api.sock")(t), unix.SOCK_STREAM)
	}},
	{Name: "neighbour/local", try: opener(unix.O_RDONLY, neighbour("neighbour/local/data"))},
	{Name: "neighbour/shared", try: opener(unix.O_RDONLY, neighbour("alloc/data/data"))},
	{Name: "neighbour/log-read", try: func(t *Targets) error { return eachLog(neighbour("alloc/logs")(t), "neighbour.", unix.O_RDONLY) }},
	{Name: "neighbour/log-write", try: func(t *Targets) error { return eachLog(neighbour("alloc/logs")(t), "neighbour.", unix.O_WRONLY) }},
	{Name: "neighbour/cgroup-join", try: opener(unix.O_WRONLY, func(t *Targets) string { return filepath.Join(t.NeighbourGrp, "cgroup.procs") })},
	{Name: "neighbour/cgroup-kill", try: opener(unix.O_WRONLY, func(t *Targets) string { return filepath.Join(t.NeighbourGrp, "cgroup.kill") })},
	{Name: "mate/secret", try: opener(unix.O_RDONLY, func(*Targets) string { return own("../../mate/secrets/secret") })},
	{Name: "mate/local", try: opener(unix.O_RDONLY, func(*Targets) string { return own("../../mate/local/data") })},
	{Name: "mate/api-socket", try: func(*Targets) error { return connectUnix(own("../../mate/secrets/api.sock"), unix.SOCK_STREAM) }},
	{Name: "mate/log-write", try: func(*Targets) error { return eachLog(own("../../alloc/logs"), "mate.", unix.O_WRONLY) }},
	{Name: "mate/log-read", Why: "the directory of logs is shared by the tasks of an allocation, by Nomad's layout", try: func(*Targets) error { return eachLog(own("../../alloc/logs"), "mate.", unix.O_RDONLY) }},
	{Name: "mate/log-swapped", try: func(t *Targets) error { return swapLog(t, "mate.stdout.0") }},
}

func neighbour(name string) func(*Targets) string {
	return func(t *Targets) string { return filepath.Join(t.NeighbourDir, name) }
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// runCopy copies this program and runs the copy.
func runCopy(at string) error {
	text, err := os.ReadFile(self())
	if err != nil {
		return err
	}
	if err := os.WriteFile(at, text, 0o700); err != nil {
		return err
	}
	return exec.Command(at, "uid").Run()
}

// runCopySized runs a script, because this program is too large for the directory.
func runCopySized(dir string) error {
	at := filepath.Join(dir, "script")
	if err := os.WriteFile(at, []byte("#!"+self()+" uid\n"), 0o700); err != nil {
		return err
	}
	return exec.Command(at).Run()
}

func executeMemory(*Targets) error {
	fd, err := unix.MemfdCreate("program", 0)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self())
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, text); err != nil {
		return err
	}
	argv := []*byte{cstring("program"), cstring("executed"), nil} // prints "allowed"
	return call(unix.SYS_EXECVEAT, uintptr(fd), addr(cstring("")), addr(&argv[0]), 0, unix.AT_EMPTY_PATH)
}

func chownOwn(uid, gid int) error {
	if err := os.WriteFile(own("given"), nil, 0o666); err != nil {
		return err
	}
	return unix.Chown(own("given"), uid, gid)
}

// fileCapability adds file capabilities to a program that belongs to the task.
func fileCapability(*Targets) error {
	if err := os.WriteFile(own("capable"), nil, 0o755); err != nil {
		return err
	}
	all := []byte{1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0x01, 0, 0, 0, 0, 0, 0}
	return unix.Setxattr(own("capable"), "security.capability", all, 0)
}

// eachLog opens the logs of a task. It returns nil if one was opened, otherwise the first error.
func eachLog(dir, prefix string, flags int) error {
	var errs []error
	for _, stream := range []string{"stdout.0", "stderr.0"} {
		err := open(filepath.Join(dir, prefix+stream), flags)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// swapLog replaces a log with a link to a file outside.
func swapLog(t *Targets, name string) error {
	at := own("../../alloc/logs/" + name)
	if err := unix.Rename(at, at+".away"); err != nil {
		return err
	}
	return unix.Symlink(t.in(plainFile), at)
}

// swapDirectory replaces a directory and restores it.
func swapDirectory(at string) error {
	if err := unix.Rename(at, at+"-away"); err != nil {
		return err
	}
	return unix.Rename(at+"-away", at)
}

// logFD is the task's standard output in an operation.
const logFD = 3

// readLogPipe tries to read the log pipe. It uses the inherited descriptor, then opens the pipe
// again, after a chmod if possible.
func readLogPipe(*Targets) error {
	flags, err := unix.FcntlInt(logFD, unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_WRONLY {
		return err
	}
	unix.Fchmod(logFD, 0o666) //nolint:errcheck // usually denied
	return open(fdPath(logFD), unix.O_RDONLY)
}

// fillSecrets writes more than the 1 MiB limit of the secrets directory.
func fillSecrets(*Targets) error {
	at := filepath.Join(os.Getenv("NOMAD_SECRETS_DIR"), "fill")
	err := os.WriteFile(at, []byte(strings.Repeat("x", 2<<20)), 0o600)
	os.Remove(at) //nolint:errcheck // may not exist
	return err
}
