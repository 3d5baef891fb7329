package profile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits of the facts about a host.
const (
	maxFile      = 64 << 10 // bytes of /etc/hosts and /etc/resolv.conf
	maxAddresses = 1 << 12
	maxDisks     = 1 << 10
)

// Host returns facts about the host of this agent. AgentID is left to the caller. What cannot be
// read is left out.
func (*Source) Host() *message.HostDataResponse {
	return &message.HostDataResponse{HostData: &message.HostData{
		OS: system(), Network: addresses(), ResolvConf: start("/etc/resolv.conf"), Hosts: start("/etc/hosts"),
		Environment: map[string]string{}, Disk: disks()}}
}

// system returns the operating system, its kernel and its architecture.
func system() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	return fmt.Sprintf("%s %s %s %s", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]),
		unix.ByteSliceToString(u.Version[:]), unix.ByteSliceToString(u.Machine[:]))
}

// start returns the start of a text file, "" if it cannot be read.
func start(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxFile)) // the text before an error is still useful
	return string(text)
}

// addresses lists the addresses of the interfaces.
func addresses() []map[string]string {
	out := []map[string]string{}
	all, err := net.Interfaces()
	if err != nil {
		return out
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface was removed
		}
		for _, a := range addrs {
			if len(out) == maxAddresses {
				return out
			}
			out = append(out, map[string]string{"name": i.Name, "flags": i.Flags.String(), "mtu": strconv.Itoa(i.MTU), "address": a.String()})
		}
	}
	return out
}

// disks returns the usage of the file systems on devices, by mountpoint.
func disks() map[string]message.DiskUsage {
	out := map[string]message.DiskUsage{}
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return out
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(out) < maxDisks; {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || !strings.HasPrefix(words[0], "/dev/") {
			continue
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(words[1], &fs); err != nil || fs.Blocks == 0 {
			continue
		}
		size := uint64(fs.Bsize)
		out[words[1]] = message.DiskUsage{DiskMB: int64(fs.Blocks * size >> 20), UsedMB: int64((fs.Blocks - fs.Bfree) * size >> 20)}
	}
	return out
}
