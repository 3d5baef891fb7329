package exec2_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestProcesses checks that the task sees only its own processes, and that they end with it.
func TestProcesses(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("")
	f.config(cfg, "sh", []string{"-c", "sleep 1000 & set -- /proc/[0-9]*; echo $# $$; (setsid sh -c 'sleep 1000' &) ; exit 3"}, "r:/proc")
	f.run(cfg).Want(t, 3, "2 2\n") // the shell, which is process 2, and sleep
	groups, err := filepath.Glob("/sys/fs/cgroup/*/nomad-test.slice/share.slice/" + cfg.AllocID + "*")
	if err != nil || len(groups) > 0 {
		t.Errorf("groups left behind: %v %v", groups, err)
	}
}

// TestGroupSignal checks that a signal with its default action ends the program and its group,
// though process 1 ignores it.
func TestGroupSignal(t *testing.T) {
	f := newFixture(t, nil)
	cfg := sh(f, "sleep 1000 & echo up; wait")
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the task is up", func() bool { return testtask.Output(t, cfg, "stdout") == "up\n" })
	if err := f.SignalTask(cfg.ID, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if out := f.wait(cfg); out.ExitCode != 143 || out.Signal != int(unix.SIGTERM) {
		t.Errorf("exit = %+v, want SIGTERM", *out.ExitResult)
	}
}

// TestPrivateTmp checks that /tmp is the task's temporary directory only, also without a grant.
func TestPrivateTmp(t *testing.T) {
	f := newFixture(t, nil)
	host := filepath.Join(os.TempDir(), "exec2-canary-"+strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(host, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(host)
	cfg := sh(f, "[ -e "+host+" ] && echo host; echo x >/tmp/mine && cat $TMPDIR/mine && pwd")
	f.run(cfg).Want(t, 0, "x\n"+cfg.TaskDir+"\n")
	if _, err := os.Stat(filepath.Join(os.TempDir(), "mine")); err == nil {
		t.Error("the task wrote into the host's /tmp")
	}
}

// TestVolumes checks volumes at their destinations, with their rights, and mount points created in
// the task's own directories.
func TestVolumes(t *testing.T) {
	f := newFixture(t, nil)
	data := filepath.Join(f.dir, "data")
	testtask.MakeDir(t, data)
	if err := os.WriteFile(filepath.Join(data, "f"), []byte("data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	at, err := os.MkdirTemp("/var/tmp", "exec2-volume-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(at)
	cfg := f.task("")
	f.config(cfg, "sh", []string{"-c", fmt.Sprintf(`cat %[1]s/f made/here/f /tmp/cache/f; echo x >made/here/new && echo y >/tmp/cache/tmp
		echo no >%[1]s/f; grep ' %[1]s ' /proc/self/mountinfo`, at)}, "r:/proc")
	cfg.Mounts = []drivers.Mount{{TaskPath: at, HostPath: data, ReadOnly: true},
		{TaskPath: filepath.Join(cfg.TaskDir, "made/here"), HostPath: data}, {TaskPath: "/tmp/cache", HostPath: data}}
	out := f.run(cfg)
	out.Want(t, 0, "data\ndata\ndata\n")
	if !strings.Contains(out.Stdout, " ro,nosuid,nodev") || !strings.Contains(out.Stderr, "cannot create "+at+"/f") {
		t.Errorf("stdout %q, stderr %q: want the volume to be read only, nosuid and nodev", out.Stdout, out.Stderr)
	}
	for name, want := range map[string]string{"new": "x\n", "tmp": "y\n", "f": "data\n"} {
		if got, err := os.ReadFile(filepath.Join(data, name)); err != nil || string(got) != want {
			t.Errorf("%s of the volume = %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestVolumeRefusals(t *testing.T) {
	f := newFixture(t, nil)
	for at, want := range map[string]string{
		"/no/such/place": `destination "/no/such/place": the destination does not exist`,
		"/":              "below the root",
		"relative":       "below the root",
		"/proc/sys":      "its own /proc",
		"OTHER":          "another task",
	} {
		cfg := f.task("/bin/true")
		if at == "OTHER" {
			at = filepath.Join(cfg.AllocDir, "other/local")
		}
		cfg.Mounts = []drivers.Mount{{TaskPath: at, HostPath: f.dir}}
		if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("StartTask() with a volume at %s = %v, want an error with %q", at, err, want)
		}
	}
	// A link that the task left in its directory is not followed.
	cfg := f.task("/bin/true")
	if err := os.Symlink("/etc", filepath.Join(cfg.LocalDir, "link")); err != nil {
		t.Fatal(err)
	}
	cfg.Mounts = []drivers.Mount{{TaskPath: filepath.Join(cfg.LocalDir, "link/made"), HostPath: f.dir}}
	if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "web/local/link/made") {
		t.Errorf("StartTask() = %v, want an error that names the volume", err)
	}
	if _, err := os.Stat("/etc/made"); err == nil {
		t.Error("a directory was made in /etc")
	}
}

// TestHostFiles mounts a file over the host's, also if that is a link.
func TestHostFiles(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("cat", "/etc/resolv.conf")
	name := "web/secrets/resolv.conf"
	if err := os.WriteFile(filepath.Join(cfg.AllocDir, name), []byte("nameserver 192.0.2.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.Files = []drivers.HostFile{{Name: name, Target: "/etc/resolv.conf"}}
	f.run(cfg).Want(t, 0, "nameserver 192.0.2.1\n")
	cfg = f.task("/bin/true")
	cfg.Files = []drivers.HostFile{{Name: name, Target: "/etc/no-such-file"}}
	if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/etc/no-such-file") {
		t.Errorf("StartTask() = %v, want an error that names the file", err)
	}
}

// TestOwnNetwork joins the group's namespace, and refuses files that are not a namespace.
func TestOwnNetwork(t *testing.T) {
	f := newFixture(t, nil)
	ns := testnet.Namespace(t)
	want, err := os.Readlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.task("")
	f.config(cfg, "readlink", []string{"/proc/self/ns/net"}, "r:/proc")
	cfg.NetNS = ns
	f.run(cfg).Want(t, 0, want)
}
