package nomad_test

import (
	"encoding/json"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestHardMemoryMB(t *testing.T) {
	for _, c := range []struct {
		value any
		want  int64
	}{{nil, 0}, {20000, 20000}, {int64(7), 7}, {float64(512), 512}, {"512", 512}, {json.Number("9"), 9}, {"${meta.x}", 0}, {-5, 0},
		{"many", 0}, {"NaN", 0}, {1e30, 1 << 40}} {
		task := &nomad.Task{Config: map[string]any{"memory_hard_limit": c.value}}
		if got := task.HardMemoryMB(); got != c.want {
			t.Errorf("HardMemoryMB(%v) = %d, want %d", c.value, got, c.want)
		}
	}
}
