package testcsi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// remove ends the plugin and removes what it has mounted.
func (p *Plugin) remove(t testing.TB) {
	p.Kill()
	for _, at := range p.Mounts(t) {
		if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("unmount %s: %v", at, err)
		}
	}
	for device := range p.loops(t) {
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
			t.Errorf("remove %s: %v", device, err)
		}
		f.Close() // read only
	}
}

// Mounts returns where volumes of the storage system are mounted, the newest first.
func (p *Plugin) Mounts(t testing.TB) (points []string) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	loops := p.loops(t)
	// The root of a bind mount is a path in its file system, which need not begin at /.
	parts := strings.Split(p.Content(""), "/")
	volumes := strings.Join(parts[max(0, len(parts)-4):], "/")
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if strings.Contains(fields[3], volumes+"/") || loops["/dev"+fields[3]] {
			points = append([]string{fields[4]}, points...)
		}
	}
	return points
}

// Devices returns the number of block devices of volumes of the storage system.
func (p *Plugin) Devices(t testing.TB) int {
	t.Helper()
	return len(p.loops(t))
}

// loops returns the block devices of volumes of the storage system.
func (p *Plugin) loops(t testing.TB) map[string]bool {
	t.Helper()
	all, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, name := range all {
		file, err := os.ReadFile(name)
		if err == nil && strings.HasPrefix(string(file), p.Content("")+"/") {
			out["/dev/"+strings.Split(name, "/")[3]] = true
		}
	}
	return out
}
