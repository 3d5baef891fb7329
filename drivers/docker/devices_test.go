package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestReservedDevices checks that a container has the device nodes and mounts of a reservation, without privilege.
func TestReservedDevices(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	dir, err := os.MkdirTemp("/var/tmp", "devices-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	node := filepath.Join(dir, "node")
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil { // as /dev/zero
		t.Skip("needs the capability MKNOD: ", err)
	}
	firmware := filepath.Join(dir, "firmware")
	if err := os.WriteFile(firmware, []byte("firmware\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := f.task(shell("head -c 2 /dev/acme0 | od -An -tx1; ls /dev/acme1 2>/dev/null || echo no other; cat /opt/firmware", nil))
	cfg.Devices = []drivers.Device{{TaskPath: "/dev/acme0", HostPath: node, Permissions: "r"}}
	cfg.Mounts = []drivers.Mount{{TaskPath: "/opt/firmware", HostPath: firmware, ReadOnly: true}}
	f.start(cfg)
	exit := f.wait(cfg.ID)
	stdout, stderr := f.output(cfg)
	if want := "00 00\nno other\nfirmware\n"; !exit.Successful() || strings.TrimLeft(stdout, " ") != want {
		t.Errorf("exit %+v, output %q, want %q; stderr %q", exit, stdout, want, stderr)
	}
}
