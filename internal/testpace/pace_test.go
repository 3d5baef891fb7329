package testpace_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// judge records whether a test failed.
type judge struct {
	testing.TB
	failed bool
}

func (j *judge) Helper()               {}
func (j *judge) Errorf(string, ...any) { j.failed = true }

func TestOnce(t *testing.T) {
	for name, c := range map[string]struct {
		took  []time.Duration // the last one repeats
		fails bool
		made  int
	}{
		"quick at once": {[]time.Duration{time.Second}, false, 1},
		"quick once":    {[]time.Duration{3 * time.Second, 2 * time.Second, time.Second}, false, 3},
		"never quick":   {[]time.Duration{2 * time.Second}, true, 8},
	} {
		t.Run(name, func(t *testing.T) {
			j, made := &judge{TB: t}, 0
			testpace.Once(j, time.Second, "it", func() time.Duration {
				made++
				return c.took[min(made, len(c.took))-1]
			})
			if j.failed != c.fails || made != c.made {
				t.Errorf("failed %v after %d tries, want %v after %d", j.failed, made, c.fails, c.made)
			}
		})
	}
}
