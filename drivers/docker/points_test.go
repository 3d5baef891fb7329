package docker_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testrename"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// points is the directory of the mount points of a fixture.
func (f *fixture) points() string { return filepath.Join(f.dir, "mounts", "docker") }

// mountOptions returns the options of the uppermost mount at a path, as a process sees it.
func (f *fixture) mountOptions(pid int, path string) (out []string) {
	f.t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); fields[4] == path {
			out = strings.Split(fields[5], ",")
		}
	}
	return out
}

// clean reports mount points that a start has left.
func (f *fixture) clean() {
	f.t.Helper()
	if left, err := os.ReadDir(f.points()); err != nil || len(left) != 0 {
		f.t.Errorf("mount points after the start = %v, %v, want none", left, err)
	}
}

// everyMount is a config with every kind of mount, and the targets of its bind mounts.
func everyMount(f *fixture) (*drivers.TaskConfig, []string) {
	host := f.t.TempDir()
	cfg := f.task(shell("sleep 1000", block{
		"volumes": []any{"local/a:/v1", "../alloc/data:/v2:ro", "secrets/s:/v3:z", host + ":/v4", host + "/missing:/v5:ro,rprivate"},
		"mount": []any{block{"type": "bind", "source": "local/b", "target": "/m1", "readonly": true},
			block{"type": "bind", "source": host, "target": "/m2"},
			block{"type": "tmpfs", "target": "/m3"}, block{"type": "volume", "source": "named", "target": "/m4"}},
	}))
	f.write(cfg.TaskDir, "hosts", "127.0.0.1 localhost")
	cfg.Files = []drivers.HostFile{{Name: "web/hosts", Target: "/etc/hosts"}}
	cfg.Mounts = []drivers.Mount{{TaskPath: "/c1", HostPath: host}, {TaskPath: "/c2", HostPath: host, ReadOnly: true, SELinuxLabel: "z"}}
	if err := os.MkdirAll(filepath.Join(cfg.SharedDir, "data"), 0o777); err != nil {
		f.t.Fatal(err)
	}
	return cfg, []string{"/alloc", "/local", "/secrets", "/alloc/logs", "/v1", "/v2", "/v3", "/v4", "/v5", "/m1", "/m2", "/etc/hosts",
		"/c1", "/c2"}
}

// TestMounts_OnlyFromPoints checks that the daemon gets no path that a task can write to: every bind
// mount is of a mount point that only root can access. A new kind of mount belongs in everyMount.
func TestMounts_OnlyFromPoints(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"volumes": block{"enabled": true}})
	cfg, targets := everyMount(f)
	got := f.created(cfg)
	below := func(source string) bool { return filepath.Dir(source) == f.points() }
	for _, b := range got.HostConfig.Binds {
		if source, _, _ := strings.Cut(b, ":"); !below(source) {
			t.Errorf("bind %q is not of a mount point", b)
		}
	}
	for _, m := range got.HostConfig.Mounts {
		if m.Type != mount.TypeTmpfs && m.Type != mount.TypeVolume && !below(m.Source) {
			t.Errorf("mount %+v is not of a mount point", m)
		}
	}
	binds := 0
	for _, m := range got.Mounts {
		if m.Type == mount.TypeBind {
			binds++
		}
	}
	if binds != len(targets) {
		t.Errorf("the container has %d bind mounts, want %d: %+v", binds, len(targets), got.Mounts)
	}
	info, err := os.Stat(f.points())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the mount points = %v, %v, want the mode 0700", info, err)
	}
	f.clean()
	readOnly := map[string]bool{"/alloc/logs": true, "/v2": true, "/v5": true, "/m1": true, "/etc/hosts": true, "/c2": true}
	for _, target := range targets {
		options := strings.Join(f.mountOptions(got.State.Pid, target), ",") + ","
		if strings.HasPrefix(options, "ro,") != readOnly[target] {
			t.Errorf("%s: options %s, want read-only = %v", target, options, readOnly[target])
		}
		// runc before 1.2 removes these when it makes a mount with an SELinux label read-only.
		if target != "/c2" && !strings.Contains(options, "nosuid,nodev,") {
			t.Errorf("%s: options %s, want nosuid and nodev", target, options)
		}
	}
}

// TestMounts_Privileged checks that the paths of the node keep their devices in a privileged container.
func TestMounts_Privileged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"volumes": block{"enabled": true}})
	for privileged, want := range map[bool]map[string]bool{true: {"/v": false, "/l": true, "/alloc": true},
		false: {"/v": true, "/l": true, "/alloc": true}} {
		cfg := f.task(shell("true", block{"privileged": privileged, "volumes": []any{f.dir + ":/v", "local:/l"}}))
		sources, release, err := f.MountSources(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for target, want := range want {
			if options := strings.Join(f.mountOptions(os.Getpid(), sources[target]), ","); strings.Contains(options, "nosuid,nodev") != want {
				t.Errorf("privileged = %v, %s: options %s, want nosuid and nodev = %v", privileged, target, options, want)
			}
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	f.clean()
}

// TestMounts_SetuidAndDevices checks that setuid programs and device files in a volume and in the task's
// directories have no effect in a container.
func TestMounts_SetuidAndDevices(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	make := f.task(shell(`for d in /srv /local /alloc; do cp /bin/busybox $d/su && chmod 4755 $d/su && mknod -m 666 $d/null c 1 3 || exit 1; done`))
	make.Mounts = []drivers.Mount{{TaskPath: "/srv", HostPath: volume}}
	f.start(make)
	if exit := f.wait(make.ID); exit.ExitCode != 0 {
		_, errs := f.output(make)
		t.Fatalf("exit = %+v: %s", exit, errs)
	}
	use := f.task(shell(`for d in /srv /local /alloc; do $d/su -c id nobody; if true 2>/dev/null <$d/null; then echo opened; fi; done`))
	use.AllocDir, use.TaskDir, use.SharedDir, use.LocalDir, use.SecretsDir = make.AllocDir, make.TaskDir, make.SharedDir, make.LocalDir, make.SecretsDir
	use.LogDir, use.User, use.Mounts = make.LogDir, "1000", make.Mounts
	use.Name = "use"
	f.start(use)
	f.wait(use.ID)
	// su of busybox reports that it does not run as root.
	if out, errs := f.output(use); out != "" || errs != strings.Repeat("su: must be suid to work properly\n", 3) {
		t.Errorf("output = %q, %q, want no privilege and no open device", out, errs)
	}
}

// TestMounts_ReadOnlyIsRecursive checks that file systems below a read-only volume are read-only too.
func TestMounts_ReadOnlyIsRecursive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"volumes": block{"enabled": true}})
	volume := t.TempDir()
	below := filepath.Join(volume, "m")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", below, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(below, unix.MNT_DETACH) })
	cfg := f.task(shell(`for d in /v /c /b /z; do for f in $d/x $d/m/x; do if true 2>/dev/null >$f; then echo $f; fi; done; done`,
		block{"volumes": []any{volume + ":/v:ro"}, "mount": []any{block{"type": "bind", "source": volume, "target": "/b", "readonly": true}}}))
	cfg.Mounts = []drivers.Mount{{TaskPath: "/c", HostPath: volume, ReadOnly: true},
		{TaskPath: "/z", HostPath: volume, ReadOnly: true, SELinuxLabel: "z"}}
	f.start(cfg)
	f.wait(cfg.ID)
	if out, _ := f.output(cfg); out != "" {
		t.Errorf("the task wrote to %q", out)
	}
	if options := f.mountOptions(os.Getpid(), below); len(options) == 0 || options[0] != "rw" {
		t.Errorf("the mount of the node has the options %v, want rw", options)
	}
}

// TestMounts_LogsOfOthers checks that a task without logs cannot write to those of other tasks.
func TestMounts_LogsOfOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell(`echo x >/alloc/logs/other.stdout.0`))
	dir := cfg.LogDir
	cfg.LogDir = ""
	f.start(cfg)
	if exit := f.wait(cfg.ID); exit.ExitCode == 0 {
		t.Errorf("exit = %+v, want a failure", exit)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("log directory = %v, %v, want nothing", left, err)
	}
}

// swap exchanges a directory of tasks and a link to the secret directory, until the test ends.
func swap(t *testing.T, dir, secret string) {
	t.Helper()
	link := dir + ".link"
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(testrename.Exchange(dir, link))
}

// TestMounts_Race exchanges the source of a mount and a link to a directory of root during starts. A
// start fails, or the container has the directory.
func TestMounts_Race(t *testing.T) {
	for name, prepare := range map[string]func(cfg *drivers.TaskConfig) (swapped string){
		"own directory": func(cfg *drivers.TaskConfig) string { return cfg.LocalDir },
		"volume in a volume": func(cfg *drivers.TaskConfig) string {
			dir := filepath.Join(cfg.SharedDir, "rw", "sub")
			cfg.Mounts = []drivers.Mount{{TaskPath: "/data", HostPath: dir}}
			return dir
		},
		"volumes": func(cfg *drivers.TaskConfig) string { return filepath.Join(cfg.LocalDir, "data") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			secret := t.TempDir()
			f.write(secret, "secret", "of root")
			config := shell(`cat /local/secret /data/secret; true`)
			if name == "volumes" {
				config["volumes"] = []any{"local/data:/data"}
			}
			cfg := f.task(config)
			dir := prepare(cfg)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			swap(t, dir, secret)
			started := 0
			for i := range 12 {
				cfg.ID = fmt.Sprintf("%s/web/%08d", cfg.AllocID, i)
				if _, err := f.StartTask(t.Context(), cfg); err != nil {
					continue
				}
				started++
				f.wait(cfg.ID)
				if out, _ := f.output(cfg); strings.Contains(out, "of root") {
					t.Fatalf("start %d: the container has the directory of root", i)
				}
				if err := f.DestroyTask(cfg.ID, true); err != nil {
					t.Error(err)
				}
			}
			t.Logf("%d starts of 12", started)
			f.clean()
		})
	}
}

// TestMounts_Restart checks that a restarted agent removes the mount points that it finds, and that a
// running container keeps its mounts.
func TestMounts_Restart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell(`until [ -e /local/go ]; do sleep 0.1; done; cat /data/f /alloc/g`))
	volume := t.TempDir()
	f.write(volume, "f", "volume")
	f.write(cfg.SharedDir, "g", " shared")
	cfg.Mounts = []drivers.Mount{{TaskPath: "/data", HostPath: volume}}
	f.start(cfg)

	// What an agent leaves that ends during a start: mounts, of which one is shared with its original.
	sub := filepath.Join(volume, "sub")
	for _, dir := range []string{sub, filepath.Join(f.points(), "left"), filepath.Join(f.points(), "shared-left")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []struct {
		source, target string
		flags          uintptr
	}{{volume, volume, unix.MS_BIND}, {"", volume, unix.MS_SHARED}, {sub, sub, unix.MS_BIND},
		{cfg.SharedDir, filepath.Join(f.points(), "left"), unix.MS_BIND},
		{volume, filepath.Join(f.points(), "shared-left"), unix.MS_BIND | unix.MS_REC}} {
		if err := unix.Mount(m.source, m.target, "", m.flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { unix.Unmount(volume, unix.MNT_DETACH) })

	f.open("docker", f.config)
	f.clean()
	if len(f.mountOptions(os.Getpid(), sub)) == 0 {
		t.Error("the mount below the volume is gone")
	}
	f.write(cfg.LocalDir, "go", "")
	f.wait(cfg.ID)
	if out, errs := f.output(cfg); out != "volume shared" {
		t.Errorf("output = %q, %q", out, errs)
	}
}

// TestMounts_Devices checks that the mount of the node's devices is for privileged containers only, and that devices work in it.
func TestMounts_Devices(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, privileged := range []bool{true, false} {
		cfg := f.task(shell("true", block{"privileged": privileged}))
		cfg.Mounts = []drivers.Mount{{TaskPath: "/dev", HostPath: "/dev", Devices: true}}
		sources, release, err := f.MountSources(cfg)
		if err != nil {
			t.Fatal(err)
		}
		source := sources["/dev"]
		if (source != "") != privileged {
			t.Errorf("privileged = %v: /dev is mounted from %q", privileged, source)
		}
		if source != "" {
			if options := strings.Join(f.mountOptions(os.Getpid(), source), ","); strings.Contains(options, "nodev") {
				t.Errorf("options of /dev: %s, want no nodev", options)
			}
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	f.clean()
}
