package template

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
)

// The wait of a template is that of the job, else that of the client. Both values are within the bounds of the client, so
// that a small max of a job does not undercut the lowest wait.
func TestWaitBounds(t *testing.T) {
	bounds := func(least, most time.Duration) *nomad.WaitConfig { return &nomad.WaitConfig{Min: &least, Max: &most} }
	const s = time.Second
	for name, c := range map[string]struct {
		job          *nomad.WaitConfig
		bounds, want render.Wait
	}{
		"client":                 {nil, render.Wait{}, render.Wait{Min: 5 * s, Max: 240 * s}},
		"job":                    {bounds(s, 2*s), render.Wait{}, render.Wait{Min: s, Max: 2 * s}},
		"only a min":             {&nomad.WaitConfig{Min: new(time.Duration)}, render.Wait{}, render.Wait{Max: 240 * s}},
		"within":                 {bounds(7*s, 8*s), render.Wait{Min: 6 * s, Max: 9 * s}, render.Wait{Min: 7 * s, Max: 8 * s}},
		"min below":              {bounds(s, 8*s), render.Wait{Min: 6 * s, Max: 9 * s}, render.Wait{Min: 6 * s, Max: 8 * s}},
		"min and max below":      {bounds(s, 2*s), render.Wait{Min: 6 * s, Max: 9 * s}, render.Wait{Min: 6 * s, Max: 6 * s}},
		"min and max above":      {bounds(20*s, 30*s), render.Wait{Min: 6 * s, Max: 9 * s}, render.Wait{Min: 9 * s, Max: 9 * s}},
		"disabled":               {bounds(0, 0), render.Wait{}, render.Wait{}},
		"disabled, with a bound": {bounds(0, 0), render.Wait{Min: 6 * s}, render.Wait{Min: 6 * s, Max: 6 * s}},
		"client, with bounds":    {nil, render.Wait{Min: 10 * s, Max: 60 * s}, render.Wait{Min: 10 * s, Max: 60 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Wait: render.Wait{Min: 5 * s, Max: 240 * s}, WaitBounds: c.bounds}
			if got := cfg.wait(c.job); got != c.want {
				t.Errorf("wait() = %v, want %v", got, c.want)
			}
		})
	}
}
