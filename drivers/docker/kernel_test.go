package docker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// The runtime masks files of the kernel with /dev/null of the container. So neither a task nor its image can bring a /dev
// of its own, and nothing is mounted over the other file systems of the kernel.
func TestMountsOverKernel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.importHostile()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	f.daemon.Import(t, "open-nomad/devices:1", testdocker.Root(t, busybox), "ENV PATH=/bin", "VOLUME /dev")
	for name, c := range map[string]struct {
		config block
		want   string // part of the error, "" for none
	}{
		"own directory at /dev":   {block{"volumes": []any{"local/dev:/dev"}}, `a mount at "/dev"`},
		"another spelling":        {block{"volumes": []any{"local/dev:/x/..//dev/"}}, `a mount at "/dev"`},
		"tmpfs at /sys":           {block{"mount": []any{block{"type": "tmpfs", "target": "/sys"}}}, `a mount at "/sys"`},
		"below /sys":              {block{"mount": []any{block{"type": "tmpfs", "target": "/sys/firmware"}}}, `a mount at "/sys/firmware"`},
		"bind block at /proc":     {block{"mount": []any{block{"type": "bind", "source": "local", "target": "/proc/keys"}}}, `a mount at "/proc/keys"`},
		"volume of the image":     {block{"image": "open-nomad/devices:1"}, `a mount at "/dev"`},
		"through a link":          {block{"image": hostile, "volumes": []any{"local/dev:/devices"}}, `another file system at "/dev"`},
		"shared memory of a task": {block{"mount": []any{block{"type": "tmpfs", "target": "/dev/shm"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("sleep 1000", c.config))
			dev := filepath.Join(cfg.LocalDir, "dev")
			if err := os.Mkdir(dev, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"zero", "full", "random", "urandom", "tty"} {
				f.write(dev, file, "")
			}
			if err := os.Symlink("/proc/keys", filepath.Join(dev, "null")); err != nil {
				t.Fatal(err)
			}
			_, err := f.StartTask(t.Context(), cfg)
			if err == nil {
				defer f.DestroyTask(cfg.ID, true)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("StartTask() = %v, want %q", err, c.want)
			}
		})
	}
}
