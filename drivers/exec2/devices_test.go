package exec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// zeroDevice is the device number of /dev/zero.
var zeroDevice = int(unix.Mkdev(1, 5))

// deviceNodes creates device nodes like /dev/zero, which tasks may not open by default.
func deviceNodes(t *testing.T, names ...string) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: device nodes")
	}
	dir, err := os.MkdirTemp("/var/tmp", "devices-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, zeroDevice); err != nil {
			t.Skip("needs the capability MKNOD: ", err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const readZero = "head -c 2 %s | od -An -tx1 | xargs"

// TestDevices checks that a task can use its device nodes, at their paths in the task, and no others. The
// same holds for its sessions.
func TestDevices(t *testing.T) {
	f := newFixture(t, nil)
	dir := deviceNodes(t, "mine", "second", "other")
	script := strings.Join([]string{
		strings.ReplaceAll(readZero, "%s", "/dev/random"), strings.ReplaceAll(readZero, "%s", "/dev/urandom"),
		"(echo x >/dev/random) 2>/dev/null || echo no write", "(echo x >/dev/urandom) && echo write",
		"stty -F /dev/random 2>&1 | grep -o Inappropriate", "cat " + dir + "/other 2>/dev/null || echo no other",
		"mknod local/new c 1 5 2>/dev/null || echo no mknod",
	}, "; ")
	cfg := f.task("sh", "-c", script)
	cfg.Devices = []drivers.Device{{TaskPath: "/dev/random", HostPath: dir + "/mine", Permissions: "rm"},
		{TaskPath: "/dev/urandom", HostPath: dir + "/second", Permissions: "rwm"}}
	f.run(cfg).Want(t, 0, "00 00\n00 00\nno write\nwrite\nInappropriate\nno other\nno mknod\n")
}

// TestDevices_Session checks that a session has the devices of its task, also one of a later agent.
func TestDevices_Session(t *testing.T) {
	f := newFixture(t, nil)
	dir := deviceNodes(t, "mine", "second", "other")
	cfg := f.task("sleep", "1000")
	cfg.Devices = []drivers.Device{{TaskPath: "/dev/random", HostPath: dir + "/mine", Permissions: "r"}}
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			t.Error(err)
		}
	})
	code, out, _ := f.session(cfg.ID, strings.ReplaceAll(readZero, "%s", "/dev/random")+"; cat "+dir+"/other 2>/dev/null || echo no other", false)
	if code != 0 || out != "00 00\nno other\n" {
		t.Errorf("session = %d, %q", code, out)
	}
}

// TestDevices_Refused checks that no other file than a device node is mounted as a device.
func TestDevices_Refused(t *testing.T) {
	f := newFixture(t, nil)
	dir := deviceNodes(t, "mine")
	if err := os.WriteFile(dir+"/file", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("mine", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	local := "/dev/random"
	for name, tt := range map[string]struct{ task, host, permissions, want string }{
		"file":          {local, dir + "/file", "rw", "not a device node"},
		"directory":     {local, dir, "rw", "not a device node"},
		"link":          {local, dir + "/link", "rw", "too many levels of symbolic links"},
		"missing":       {local, dir + "/gone", "rw", "no such file"},
		"no mountpoint": {"/dev/acme-not-there", dir + "/mine", "rw", "must exist on this node"},
		"temporary":     {"/tmp/d", dir + "/mine", "rw", "do not work in the /tmp"},
		"below /tmp":    {"local/d", dir + "/mine", "rw", "the allocation is below /tmp"},
		"mknod only":    {local, dir + "/mine", "m", "neither reading nor writing"},
		"same path":     {"/dev/acme-not-there", "/dev/acme-not-there", "rw", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task("true")
			if !filepath.IsAbs(tt.task) {
				tt.task = filepath.Join(cfg.TaskDir, tt.task)
			}
			cfg.Devices = []drivers.Device{{TaskPath: tt.task, HostPath: tt.host, Permissions: tt.permissions}}
			if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("StartTask() = %v, want an error that contains %q", err, tt.want)
			}
		})
	}
}
