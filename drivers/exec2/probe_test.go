package exec2_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe runs in the sandbox: it tries one operation and prints the error or "allowed". It exits
// with 0 if it could try at all.
func probe(what string, args []string) int {
	var err error
	switch what {
	case "fds":
		return probeDescriptors()
	case "status":
		return probeStatus()
	case "abstract":
		var c net.Conn
		if c, err = net.Dial("unix", "@"+args[0]); err == nil {
			c.Close()
		}
	case "signal":
		pid, _ := strconv.Atoi(args[0])
		err = unix.Kill(pid, 0)
	case "chmod":
		err = os.Chmod(args[0], 0o777)
	case "flood-files": // files with this prefix and a number
		n, _ := strconv.Atoi(args[1])
		for i := range n {
			unix.Open(args[0]+strconv.Itoa(i%1000), unix.O_RDONLY, 0) //nolint:errcheck // it is refused
		}
	case "flood-calls":
		n, _ := strconv.Atoi(args[0])
		for range n {
			unix.Unshare(unix.CLONE_NEWUSER) //nolint:errcheck // it is refused
		}
	case "userns":
		err = unix.Unshare(unix.CLONE_NEWUSER)
	case "clone-userns":
		err = cloneUser()
	case "clone3":
		_, _, e := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
		err = e
	case "mptcp":
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
	case "tcp":
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	case "raw-socket":
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	case "odd-family":
		// The kernel reads only the low half of the argument, so the filter must, too.
		_, _, e := unix.RawSyscall(unix.SYS_SOCKET, 0xdead00000000|unix.AF_ALG, unix.SOCK_SEQPACKET, 0)
		err = nilable(e)
	case "io_uring":
		_, _, e := unix.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		err = nilable(e)
	case "keyctl":
		_, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	case "mount":
		err = unix.Mount("none", "/tmp", "tmpfs", 0, "")
	case "bpf":
		_, _, e := unix.RawSyscall(unix.SYS_BPF, 0, 0, 0)
		err = nilable(e)
	case "userfaultfd":
		_, _, e := unix.RawSyscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
		err = nilable(e)
	case "ptrace":
		pid, _ := strconv.Atoi(args[0])
		err = unix.PtraceSeize(pid)
	case "shm":
		id, _ := strconv.Atoi(args[0])
		_, err = unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	case "listen":
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+args[0]); err == nil {
			l.Close()
		}
	case "connect":
		var c net.Conn
		if c, err = net.Dial("tcp", "127.0.0.1:"+args[0]); err == nil {
			c.Close()
		}
	case "fastopen":
		err = fastOpen(args[0])
	case "read":
		_, err = os.ReadFile(args[0])
	case "exec":
		err = exec.Command(args[0]).Run()
	default:
		err = errors.New("unknown probe " + what)
	}
	if err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("allowed")
	}
	return 0
}

// fastOpen sends to a port without a connection.
func fastOpen(port string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("hello"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: n, Addr: [4]byte{127, 0, 0, 1}})
}

func nilable(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// cloneUser creates a child in a new user namespace with a raw clone.
func cloneUser() error {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// probeDescriptors counts open descriptors, except those of the runtime.
func probeDescriptors() int {
	for fd := range 1024 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if fd > 2 && strings.HasPrefix(link, "anon_inode:[event") {
			continue // the poller of this Go program
		}
		fmt.Printf("fd %d\n", fd)
	}
	return 0
}

// probeStatus prints the credentials and the kernel's view of them.
func probeStatus() int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	os.Stdout.Write(b)
	var hdr = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		fmt.Println(err)
		return 1
	}
	_ = unsafe.Sizeof(data)
	return 0
}
