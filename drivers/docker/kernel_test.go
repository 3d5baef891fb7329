package docker_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// The runtime masks files of the kernel with /dev/null of the container. So neither a task nor its image can bring a /dev
// of its own, and nothing is mounted over the other file systems of the kernel. A container that ends at once is not
// compared after its start.
func TestMountsOverKernel(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.importHostile()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	f.daemon.Import(t, "open-nomad/devices:1", testdocker.Root(t, busybox), "ENV PATH=/bin", "VOLUME /dev")
	volumes := make([]string, 200)
	for i := range volumes {
		volumes[i] = fmt.Sprintf("/v/%d%s", i, strings.Repeat("/d", 5))
	}
	for image, list := range map[string][]string{"many": volumes, "deep": volumes[:100]} {
		f.daemon.Import(t, "open-nomad/"+image+":1", testdocker.Root(t, busybox), "ENV PATH=/bin", "VOLUME "+strings.Join(list, " "))
	}
	for name, c := range map[string]struct {
		config block
		want   string // part of the error, "" for none
	}{
		"own directory at /dev": {block{"volumes": []any{"local/dev:/dev"}}, `a mount at "/dev"`},
		"another spelling":      {block{"volumes": []any{"local/dev:/x/..//dev/"}}, `a mount at "/dev"`},
		"tmpfs at /sys":         {block{"mount": []any{block{"type": "tmpfs", "target": "/sys"}}}, `a mount at "/sys"`},
		"below /sys":            {block{"mount": []any{block{"type": "tmpfs", "target": "/sys/firmware"}}}, `a mount at "/sys/firmware"`},
		"bind block at /proc": {block{"mount": []any{block{"type": "bind", "source": "local", "target": "/proc/keys"}}},
			`a mount at "/proc/keys"`},
		"volume of the image":     {block{"image": "open-nomad/devices:1"}, `a mount at "/dev"`},
		"many volumes":            {block{"image": "open-nomad/many:1"}, "at most 160"},
		"deep volumes":            {block{"image": "open-nomad/deep:1"}, "use fewer"},
		"through a link":          {block{"image": hostile, "volumes": []any{"local/dev:/devices"}}, `"/dev" belongs to the kernel`},
		"through a relative link": {block{"image": hostile, "volumes": []any{"local/dev:/keys"}}, `"/proc" belongs to the kernel`},
		"through two links":       {block{"image": hostile, "volumes": []any{"local/dev:/twice/firmware"}}, `"/sys" belongs to the kernel`},
		"link in another mount": {block{"volumes": []any{"local:/x", "local/dev:/x/dev/null"}},
			`the link "/x/dev/null" inside the mount at "/x"`},
		"link to another mount": {block{"image": hostile, "volumes": []any{"local/dev:/a", "local/dev:/sh"}},
			`leads the mount at "/a" to "/sh/q", through the mount at "/sh"`},
		"two links to a mount":    {block{"image": hostile, "volumes": []any{"local/dev:/b/c", "local/dev:/sh"}}, `through the mount at "/sh"`},
		"below another mount":     {block{"volumes": []any{"local:/x", "local/dev:/x/dev"}}, ""},
		"shared memory of a task": {block{"mount": []any{block{"type": "tmpfs", "target": "/dev/shm"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("true", c.config))
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
