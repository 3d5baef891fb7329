package attack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	whyMetadata = "Landlock leaves metadata: names, sizes, modes and owners are told wherever directory modes let the uid pass"
	whyOwner    = "the file is the uid's own and Landlock does not cover changes of metadata: give tasks no named user that owns files outside"
	whyOwnFiles = "its own directory, where it may run what it writes: code brings no right that the process has not got"
)

// open tries to open a file and closes it.
func open(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o666)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func (t *Targets) in(name string) string { return filepath.Join(t.Dir, name) }

// opener returns an operation that opens the path returned by at.
func opener(flags int, at func(*Targets) string) func(*Targets) error {
	return func(t *Targets) error { return open(at(t), flags) }
}

func below(name string) func(*Targets) string { return func(t *Targets) string { return t.in(name) } }
func fixed(name string) func(*Targets) string { return func(*Targets) string { return name } }

// fileOperations use files that the task was not granted.
var fileOperations = []Operation{
	{Name: "files/read", try: opener(unix.O_RDONLY, below(plainFile))},
	{Name: "files/write", try: opener(unix.O_WRONLY, below(plainFile))},
	{Name: "files/append", try: opener(unix.O_WRONLY|unix.O_APPEND, below(plainFile))},
	{Name: "files/list", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, below(openDir))},
	{Name: "files/create", try: opener(unix.O_WRONLY|unix.O_CREAT, below("open/new"))},
	{Name: "files/tmpfile", try: opener(unix.O_WRONLY|unix.O_TMPFILE, below(openDir))},
	{Name: "files/mkdir", try: func(t *Targets) error { return unix.Mkdir(t.in("open/dir"), 0o777) }},
	{Name: "files/mkfifo", try: func(t *Targets) error { return unix.Mknod(t.in("open/fifo"), unix.S_IFIFO|0o666, 0) }},
	{Name: "files/symlink", try: func(t *Targets) error { return unix.Symlink("/", t.in("open/root")) }},
	{Name: "files/remove", try: func(t *Targets) error { return unix.Unlink(t.in(removeFile)) }},
	{Name: "files/truncate", try: func(t *Targets) error { return unix.Truncate(t.in(truncFile), 1) }},
	{Name: "files/execute", try: func(t *Targets) error { return exec.Command(t.in(program), "uid").Run() }},
	{Name: "files/rename-in", try: func(t *Targets) error { return unix.Rename(t.in(renameFile), own("renamed")) }},
	{Name: "files/rename-out", try: func(t *Targets) error { return moved("mine", t.in("open/theirs")) }},
	{Name: "files/exchange", try: exchange},
	{Name: "files/link-in", try: func(t *Targets) error { return unix.Link(t.in(hardFile), own("linked")) }},
	{Name: "files/link-out", try: linkOut},
	{Name: "files/symlink-followed", try: throughSymlink},
	{Name: "files/directory-descriptor", try: throughDescriptor},
	{Name: "files/path-descriptor-reopened", try: reopened},
	{Name: "files/stat", Why: whyMetadata, try: func(t *Targets) error { return unix.Stat(t.in(plainFile), new(unix.Stat_t)) }},
	{Name: "files/access", Why: whyMetadata, try: func(t *Targets) error { return unix.Access(t.in(plainFile), unix.W_OK) }},
	{Name: "files/statfs", Why: whyMetadata, try: func(t *Targets) error { return unix.Statfs(t.Dir, new(unix.Statfs_t)) }},
	{Name: "files/readlink", Why: whyMetadata, try: func(t *Targets) error { _, err := os.Readlink(t.in(linkFile)); return err }},
	{Name: "files/chdir", Why: whyMetadata + "; from there nothing opens that is not granted", try: func(t *Targets) error { return unix.Chdir(t.in(openDir)) }},
	{Name: "files/path-descriptor", Why: "O_PATH gives no access to content, and no rights when opened again", try: opener(unix.O_PATH, below(plainFile))},
	{Name: "files/watch", Why: "inotify tells that a file is touched, which modes would let the uid see too; Landlock has no right for it", try: watch},
	{Name: "files/getxattr", Why: whyMetadata, try: func(t *Targets) error {
		_, err := unix.Getxattr(t.in(plainFile), "user.x", make([]byte, 8))
		return err
	}},
	{Name: "files/chmod-root", try: func(t *Targets) error { return unix.Chmod(t.in(plainFile), 0o666) }},
	{Name: "files/chown-root", try: func(t *Targets) error { return unix.Chown(t.in(plainFile), os.Getuid(), os.Getgid()) }},
	{Name: "files/chmod-of-user", Why: whyOwner, try: func(t *Targets) error { return unix.Chmod(t.in(ownedFile), 0o666) }},
	{Name: "files/utime-of-user", Why: whyOwner, try: func(t *Targets) error {
		return unix.UtimesNano(t.in(ownedFile), []unix.Timespec{{Sec: 1}, {Sec: 1}})
	}},
	{Name: "files/setxattr-of-user", Why: whyOwner, try: func(t *Targets) error { return unix.Setxattr(t.in(ownedFile), "user.y", []byte("y"), 0) }},
	{Name: "files/host-tmp", try: opener(unix.O_RDWR, func(t *Targets) string { return t.HostTmp })},
	{Name: "files/root-directory", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, fixed("/"))},
	{Name: "files/run-list", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, fixed("/run"))},
	{Name: "files/run-stat", try: func(t *Targets) error { return unix.Stat(t.RunSocket, new(unix.Stat_t)) }},
	{Name: "files/etc-passwd", try: opener(unix.O_RDONLY, fixed("/etc/passwd"))},
	{Name: "files/etc-shadow", try: opener(unix.O_RDONLY, fixed("/etc/shadow"))},
	{Name: "files/agent-data", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, func(t *Targets) string { return t.DataDir })},
	{Name: "files/agent-state", try: opener(unix.O_RDONLY, func(t *Targets) string { return filepath.Join(t.DataDir, "client/state.db") })},
	{Name: "files/agent-audit-mode", try: func(t *Targets) error { return unix.Chmod(filepath.Join(t.DataDir, "audit/audit.log"), 0o600) }},
	{Name: "files/agent-allocations", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, func(t *Targets) string { return filepath.Join(t.DataDir, "alloc") })},
	{Name: "files/setuid-program", try: func(t *Targets) error {
		out, err := exec.Command(t.Setuid, "uid").Output()
		if err == nil && strings.TrimSpace(string(out)) != "0" {
			return errNothing
		}
		return err
	}},
}

// own returns a path in the probe's own directory.
func own(name string) string { return filepath.Join(os.Getenv("NOMAD_TASK_DIR"), name) }

// moved creates a file of the probe and moves it.
func moved(name, to string) error {
	if err := os.WriteFile(own(name), nil, 0o666); err != nil {
		return err
	}
	return unix.Rename(own(name), to)
}

func exchange(t *Targets) error {
	if err := os.WriteFile(own("exchanged"), nil, 0o666); err != nil {
		return err
	}
	return unix.Renameat2(unix.AT_FDCWD, own("exchanged"), unix.AT_FDCWD, t.in(hardFile), unix.RENAME_EXCHANGE)
}

func linkOut(t *Targets) error {
	if err := os.WriteFile(own("link-source"), nil, 0o666); err != nil {
		return err
	}
	return unix.Link(own("link-source"), t.in("open/link-out"))
}

func throughSymlink(t *Targets) error {
	if err := unix.Symlink(t.in(plainFile), own("way-out")); err != nil {
		return err
	}
	return open(own("way-out"), unix.O_RDWR)
}

func throughDescriptor(t *Targets) error {
	dir, err := unix.Open(t.in(openDir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, "../"+plainFile, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func reopened(t *Targets) error {
	fd, err := unix.Open(t.in(plainFile), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Openat(fd, "", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		return nil
	}
	return open(fdPath(fd), unix.O_RDWR)
}

func watch(t *Targets) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(fd, t.in(plainFile), unix.IN_ALL_EVENTS)
	return err
}
