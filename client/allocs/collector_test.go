package allocs

import (
	"log/slog"
	"testing"
	"time"
)

// Only a usage above its threshold causes garbage collection.
func TestGCConfig_Full(t *testing.T) {
	cfg := GCConfig{DiskPercent: 80, InodePercent: 70}
	for what, c := range map[string]struct {
		used, inodes float64
		want         bool
	}{
		"below both":       {79, 69, false},
		"at both":          {80, 70, false},
		"disk above":       {80.1, 0, true},
		"inodes above":     {0, 70.1, true},
		"both above":       {81, 71, true},
		"a complete disk":  {100, 0, true},
		"no inodes at all": {10, 100, true},
	} {
		if got := cfg.full(c.used, c.inodes); got != c.want {
			t.Errorf("%s: full(%v, %v) = %v, want %v", what, c.used, c.inodes, got, c.want)
		}
	}
	if full := (GCConfig{DiskPercent: 100, InodePercent: 100}); full.full(100, 100) {
		t.Error("thresholds of 100 percent do not disable the collection")
	}
}

// Ended allocations remain while the usage equals the thresholds.
func TestCollect_AtThreshold(t *testing.T) {
	e := &Entry{ID: "a", endedAt: time.Unix(1, 0)}
	measured := 0
	g := &collector{
		cfg: GCConfig{MaxAllocs: 1, DiskPercent: 80, InodePercent: 70},
		set: &Set{entries: map[string]*Entry{e.ID: e}},
		log: slog.New(slog.DiscardHandler),
		disk: func(string) (float64, float64, error) {
			measured++
			return 80, 70, nil
		},
	}
	if err := g.collect(); err != nil || e.removing || measured != 1 {
		t.Errorf("collect() = %v; removing %v, %d measurements", err, e.removing, measured)
	}
}
