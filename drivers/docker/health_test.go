package docker_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// The daemon runs the health check of an image once per second at most: its processes are not limited by the task.
func TestHealthInterval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	root := testdocker.Root(t, busybox)
	for name, c := range map[string]struct {
		change string
		config block
		want   time.Duration
		test   string
	}{
		"tiny":   {"HEALTHCHECK --interval=1ms --timeout=7s CMD true", nil, time.Second, "CMD-SHELL"},
		"usual":  {"HEALTHCHECK --interval=5s --timeout=7s CMD true", nil, 5 * time.Second, "CMD-SHELL"},
		"off":    {"HEALTHCHECK --interval=1ms --timeout=7s CMD true", block{"healthchecks": block{"disable": true}}, 0, "NONE"},
		"unset":  {"HEALTHCHECK --timeout=7s CMD true", nil, 0, "CMD-SHELL"},
		"native": {"HEALTHCHECK NONE", nil, 0, "NONE"},
	} {
		image := "open-nomad/health-" + name + ":1"
		f.daemon.Import(t, image, root, "ENV PATH=/bin", c.change)
		config := shell("sleep 1000", block{"image": image})
		for key, value := range c.config {
			config[key] = value
		}
		got := f.created(f.task(config)).Config.Healthcheck
		if got == nil || len(got.Test) == 0 || got.Test[0] != c.test || c.test != "NONE" &&
			(got.Interval != c.want || got.Timeout != 7*time.Second) {
			t.Errorf("%s: health check = %+v, want %s every %v", name, got, c.test, c.want)
		}
	}
}
