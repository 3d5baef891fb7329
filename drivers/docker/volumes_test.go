package docker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The daemon gets the propagation and the label of a volume. A later mount below a shared directory
// of the host appears in the container.
func TestVolumePropagation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	shared := t.TempDir()
	if err := unix.Mount(shared, shared, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs mounts: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(shared, unix.MNT_DETACH) })
	if err := unix.Mount("", shared, "", unix.MS_SHARED, ""); err != nil {
		t.Skipf("needs shared mounts: %v", err)
	}
	for mode, want := range map[string]string{"": "rprivate", drivers.PropagateToTask: "rslave", drivers.PropagateBoth: "rshared"} {
		cfg := f.task(shell("sleep 1000", nil))
		cfg.Mounts = []drivers.Mount{{TaskPath: "/data", HostPath: shared, Propagation: mode, ReadOnly: mode == ""}}
		got := f.created(cfg)
		if i := slices.IndexFunc(got.Mounts, func(m container.MountPoint) bool { return m.Destination == "/data" }); i < 0 ||
			string(got.Mounts[i].Propagation) != want {
			t.Errorf("%q: mounts %+v, want %s", mode, got.Mounts, want)
		}
		if options := f.mountOptions(got.State.Pid, "/data"); len(options) == 0 || slices.Contains(options, "ro") != (mode == "") {
			t.Errorf("%q: options %v", mode, options)
		}
		later := filepath.Join(shared, "later"+want)
		if err := os.Mkdir(later, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", later, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(later, unix.MNT_DETACH) })
		if options := f.mountOptions(got.State.Pid, "/data/"+filepath.Base(later)); (len(options) > 0) != (mode != "") {
			t.Errorf("%q: a later mount of the node has the options %v in the container", mode, options)
		}
		// The next start copies later with the directory. The original must keep it.
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			t.Error(err)
		}
		if mounts := f.mountOptions(os.Getpid(), later); len(mounts) == 0 {
			t.Errorf("%q: %s of the node is no longer mounted", mode, later)
		}
	}
	cfg := f.task(shell("sleep 1000", nil))
	cfg.Mounts = []drivers.Mount{{TaskPath: "/data", HostPath: shared, Propagation: drivers.PropagateToTask, ReadOnly: true,
		SELinuxLabel: "Z"}}
	if got := f.created(cfg); !slices.ContainsFunc(got.HostConfig.Binds,
		func(b string) bool { return strings.HasSuffix(b, ":/data:Z,rslave,ro") }) {
		t.Errorf("binds %v", got.HostConfig.Binds)
	}
	bad := f.task(shell("true", nil))
	bad.Mounts = []drivers.Mount{{TaskPath: "/da:ta", HostPath: shared, SELinuxLabel: "z"}}
	if _, err := f.StartTask(t.Context(), bad); err == nil ||
		!strings.Contains(err.Error(), "a path with a colon can't have an SELinux label") {
		t.Errorf("StartTask() = %v", err)
	}
}
