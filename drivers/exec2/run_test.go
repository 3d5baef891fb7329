package exec2_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A task and its sessions find /run empty, so they cannot connect to sockets there. Granted paths
// below it are visible by each of their names.
func TestOwnRun(t *testing.T) {
	f := newFixture(t, nil)
	dir, err := os.MkdirTemp("/run", "exec2-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // test directory
	for _, d := range []string{dir, filepath.Join(dir, "data")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(filepath.Join(dir, "data/f"), []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(testtask.OpenDir(t), "resolv.conf") // as /etc/resolv.conf of many hosts
	if err := os.Symlink(filepath.Join(dir, "data/f"), link); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("[ -e %[1]s/socket ] && echo socket; cat %[1]s/data/f /var%[1]s/data/f %[2]s; echo end",
		dir, link)
	for name, tt := range map[string]struct {
		unveil []string
		want   string
	}{
		"nothing granted":   {nil, "end\n"},
		"everything":        {[]string{"rwxc:/"}, "end\n"},
		"the file":          {[]string{"r:" + dir + "/data/f"}, "data\ndata\nend\n"},
		"the file, by link": {[]string{"r:" + link}, "data\ndata\ndata\nend\n"},
		"the socket":        {[]string{"rw:/var" + dir + "/socket"}, "socket\nend\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task("")
			f.config(cfg, "sh", []string{"-c", script}, tt.unveil...)
			if got := f.run(cfg); got.Stdout != tt.want {
				t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, tt.want, got.Stderr)
			}
		})
	}
	cfg := f.task("")
	f.config(cfg, "sh", []string{"-c", "cat " + dir + "/data/f; echo new >" + dir + "/data/new"})
	cfg.Mounts = []drivers.Mount{{TaskPath: dir + "/data", HostPath: filepath.Join(dir, "data")}}
	f.run(cfg).Want(t, 0, "data\n")
	if text, err := os.ReadFile(filepath.Join(dir, "data/new")); err != nil || string(text) != "new\n" {
		t.Errorf("what the task wrote to the volume = %q, %v", text, err)
	}
	at, _ := f.living()
	code, out, errs := f.session(at.ID, script, false)
	if code != 0 || !strings.HasSuffix(out, "end\n") || strings.Contains(out, "data") || strings.Contains(out, "socket") {
		t.Errorf("a session: exit %d, wrote %q, %q, want /run to be empty", code, out, errs)
	}
}
