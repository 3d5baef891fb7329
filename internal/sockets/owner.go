package sockets

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// maxDescriptors limits how many descriptors one search reads.
const maxDescriptors = 1 << 17

// Process is a process that has a socket open.
type Process struct {
	PID  int
	Name string // its command, as in ps
}

// String returns the process as "sshd (process 812)".
func (p Process) String() string { return fmt.Sprintf("%s (process %d)", p.Name, p.PID) }

// Owner returns the first of the processes that has the socket open. ok is false if none has, if the caller may not
// read their descriptors, or if ctx ends before.
func Owner(ctx context.Context, inode uint64, pids []int) (p Process, ok bool) {
	link := fmt.Sprintf("socket:[%d]", inode)
	return find(ctx, pids, func(file string) bool {
		to, err := os.Readlink(file)
		return err == nil && to == link
	})
}

// Holder returns the first of the processes that has the file open, with the limits of Owner.
func Holder(ctx context.Context, info os.FileInfo, pids []int) (p Process, ok bool) {
	return find(ctx, pids, func(file string) bool {
		to, err := os.Stat(file)
		return err == nil && os.SameFile(to, info)
	})
}

// find returns the first process with a descriptor that match selects.
func find(ctx context.Context, pids []int, match func(file string) bool) (p Process, ok bool) {
	read := 0
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		d, err := os.Open(dir)
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		names, _ := d.Readdirnames(maxDescriptors - read) // incomplete if it ends meanwhile
		d.Close()
		for _, name := range names {
			if read++; read >= maxDescriptors || ctx.Err() != nil {
				return Process{}, false
			}
			if match(dir + name) {
				return Process{PID: pid, Name: command(pid)}, true
			}
		}
	}
	return Process{}, false
}

// command returns the name of a process without control characters.
func command(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return "a process"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(raw), "?"))
}

// Processes returns the IDs of all processes that the caller sees.
func Processes() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}
