package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestDevices checks that a task has the device nodes of its plugins, in /dev and elsewhere, and no other file.
func TestDevices(t *testing.T) {
	f := newFixture(t, nil)
	node := filepath.Join(t.TempDir(), "node")
	if err := unix.Mknod(node, unix.S_IFCHR, int(unix.Mkdev(1, 5))); err != nil {
		t.Skip("needs the capability MKNOD: ", err)
	}
	if err := os.Chmod(node, 0o666); err != nil {
		t.Fatal(err)
	}
	cfg := f.sh("for n in /dev/mine /dev/dir/mine /opt/mine; do head -c 2 $n | od -An -tx1; done; ls /dev | grep -c mine")
	for _, at := range []string{"/dev/mine", "/dev/dir/mine", "/opt/mine"} {
		cfg.Devices = append(cfg.Devices, drivers.Device{HostPath: node, TaskPath: at, Permissions: "rwm"})
	}
	if got, want := f.run(cfg), " 00 00\n 00 00\n 00 00\n1\n"; got.Stdout != want {
		t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, want, got.Stderr)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]drivers.Device{
		"a file in place of a device": {HostPath: file, TaskPath: "/dev/mine", Permissions: "rw"},
		"reading only":                {HostPath: node, TaskPath: "/dev/mine", Permissions: "r"},
		"a directory of the kernel":   {HostPath: node, TaskPath: "/proc/mine", Permissions: "rw"},
	} {
		cfg := f.sh("true")
		cfg.Devices = []drivers.Device{d}
		if _, err := f.StartTask(t.Context(), cfg); err == nil {
			t.Errorf("%s: the task started", name)
		}
	}
}
