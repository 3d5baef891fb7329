package security_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// attacks are the attempts of the probe from inside a sandbox, each on one target. No error means
// that the attack succeeded.
var attacks = map[string]func(target string) error{
	"read": func(at string) error {
		b, err := os.ReadFile(at)
		if err == nil && len(b) == 0 {
			err = errors.New("empty")
		}
		return err
	},
	"list":  func(at string) error { _, err := os.ReadDir(at); return err },
	"write": func(at string) error { return appendTo(at, os.O_WRONLY|os.O_APPEND) },
	"create": func(at string) error {
		return appendTo(filepath.Join(at, "planted"), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	},
	"truncate": func(at string) error { return os.Truncate(at, 0) },
	"remove": func(at string) error {
		if err := os.Remove(at); err == nil || errors.Is(err, fs.ErrNotExist) {
			return err // an invisible file was not removed: RemoveAll would return nil
		}
		return os.RemoveAll(at)
	},
	"rename": func(at string) error { return os.Rename(at, at+".moved") },
	"link":   func(at string) error { return os.Link(at, filepath.Join(os.Getenv("NOMAD_TASK_DIR"), "link")) },
	"chmod":  func(at string) error { return os.Chmod(at, 0o777) },
	"chown":  func(at string) error { return os.Lchown(at, os.Getuid(), os.Getgid()) },
	"utime":  func(at string) error { return os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)) },
	"xattr":  func(at string) error { return unix.Setxattr(at, "user.x", []byte("x"), 0) },
	"connect": func(at string) error {
		if err := os.Chdir(filepath.Dir(at)); err != nil { // the path is longer than an address may be
			return err
		}
		c, err := net.Dial("unix", filepath.Base(at))
		if err == nil {
			c.Close()
		}
		return err
	},
	"kill":   func(pid string) error { return unix.Kill(number(pid), 0) },
	"ptrace": func(pid string) error { return unix.PtraceSeize(number(pid)) },
	"pidfd": func(pid string) error {
		fd, err := unix.PidfdOpen(number(pid), 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGURG, nil, 0)
	},
	"vmread": func(pid string) error {
		buf := make([]byte, 8)
		_, err := unix.ProcessVMReadv(number(pid), []unix.Iovec{{Base: &buf[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		return err
	},
	"nice":     func(pid string) error { return unix.Setpriority(unix.PRIO_PROCESS, number(pid), 19) },
	"affinity": func(pid string) error { var s unix.CPUSet; s.Set(0); return unix.SchedSetaffinity(number(pid), &s) },
	"prlimit": func(pid string) error {
		return unix.Prlimit(number(pid), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 8, Max: 8}, nil)
	},
	"socket": func(what string) error {
		args := map[string][3]int{
			"raw": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, "raw6": {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
			"packet": {unix.AF_PACKET, unix.SOCK_RAW, 0}, "mptcp": {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
			"mptcp6": {unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, "vsock": {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
			"alg": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, "bluetooth": {unix.AF_BLUETOOTH, unix.SOCK_RAW, 0},
		}[what]
		_, err := unix.Socket(args[0], args[1], args[2])
		return err
	},
	"unshare": func(flag string) error {
		_, _, e := unix.RawSyscall(unix.SYS_UNSHARE, uintptr(number(flag)), 0, 0)
		return nilable(e)
	},
	"syscall": func(nr string) error { // of the default architecture, and of x32 with its bit
		_, _, e := unix.RawSyscall6(uintptr(number(nr)), 0, 0, 0, 0, 0, 0)
		if e == unix.EPERM || e == unix.ENOSYS {
			return e
		}
		return nil
	},
	"setuid": func(uid string) error { return unix.Setresuid(number(uid), number(uid), number(uid)) },
	"setgid": func(gid string) error { return unix.Setresgid(number(gid), number(gid), number(gid)) },
	"groups": func(gid string) error { return unix.Setgroups([]int{number(gid)}) },
	"suid":   plantSetuid,
	"chroot": func(at string) error { return unix.Chroot(at) },
	"mknod":  func(at string) error { return unix.Mknod(filepath.Join(at, "disk"), unix.S_IFBLK|0o666, 8<<8) },
	"canary": func(word string) error {
		for _, kv := range os.Environ() {
			if strings.Contains(kv, word) {
				return nil
			}
		}
		return errors.New("not there")
	},
}

// probe runs the attacks in its arguments, in pairs of kind and target, and prints the results.
func probe(args []string) int {
	for i := 0; i+1 < len(args); i += 2 {
		err := attacks[args[i]](args[i+1])
		verdict := "ALLOWED"
		if err != nil {
			verdict = "denied: " + err.Error()
		}
		fmt.Printf("%s %s %s\n", args[i], args[i+1], verdict)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("%s-- end\n", status)
	return 0
}

// plantSetuid makes a program setuid root, if permitted, and checks whether running it gives
// another UID.
func plantSetuid(string) error {
	at := filepath.Join(os.Getenv("NOMAD_TASK_DIR"), "id")
	b, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(at, b, 0o755), os.Lchown(at, -1, 0), os.Chmod(at, 0o6755|os.ModeSetuid|os.ModeSetgid)); err != nil {
		return err
	}
	out, err := exec.Command(at, "-u").Output()
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(out)) == strconv.Itoa(os.Getuid()) {
		return errors.New("the same uid")
	}
	return nil
}

func appendTo(at string, flags int) error {
	f, err := os.OpenFile(at, flags|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("written by the attacker\n")
	return err
}

func number(s string) int {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return -1
	}
	return int(n)
}

func nilable(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
