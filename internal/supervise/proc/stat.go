package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat holds fields of /proc/<pid>/stat (proc_pid_stat(5)).
type Stat struct {
	State   string
	Parent  int
	Group   int
	Session int
	Start   uint64 // clock ticks since boot
	Status  int    // wait status of a zombie; readable by root only
}

// maxStat is more than 52 numbers and a command name.
const maxStat = 4096

// ReadStat reads the status of a process. It bypasses package os, which would try to register the
// file with the poller.
func ReadStat(pid int) (Stat, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Stat{}, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, maxStat)
	n, err := unix.Read(fd, text)
	if err != nil {
		return Stat{}, &os.PathError{Op: "read", Path: name, Err: err}
	}
	return parseStat(pid, string(text[:n]))
}

func parseStat(pid int, text string) (Stat, error) {
	// The command name is in parentheses and may contain anything.
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 50 {
		return Stat{}, fmt.Errorf("process %d: short stat", pid)
	}
	num := func(field int) int { // fields count from 1 in the manual; f begins with the third
		n, err := strconv.Atoi(f[field-3])
		if err != nil {
			return 0
		}
		return n
	}
	start, err := strconv.ParseUint(f[22-3], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("process %d: start time: %w", pid, err)
	}
	return Stat{State: f[0], Parent: num(4), Group: num(5), Session: num(6), Start: start, Status: num(52)}, nil
}
