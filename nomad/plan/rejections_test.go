package plan

import (
	"fmt"
	"testing"
	"time"
)

// TestTracker adds rejections of one node and checks when it reaches the threshold.
func TestTracker(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		name string
		at   []time.Duration
		over bool // after the last rejection
	}{
		{"below the threshold", []time.Duration{0, time.Second}, false},
		{"at the threshold", []time.Duration{0, time.Second, 2 * time.Second}, true},
		{"at the end of the window", []time.Duration{0, time.Minute, 5*time.Minute - 1}, true},
		{"after the window", []time.Duration{0, time.Minute, 5 * time.Minute}, false},
		{"the oldest left the window", []time.Duration{0, 2 * time.Minute, 5 * time.Minute, 6 * time.Minute}, true},
		{"spread out", []time.Duration{0, 4 * time.Minute, 8 * time.Minute, 12 * time.Minute, 16 * time.Minute}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTracker(Rejections{Enabled: true, Threshold: 3, Window: 5 * time.Minute})
			for i, at := range tt.at {
				_, over := tr.add("n", begin.Add(at))
				if last := i == len(tt.at)-1; over != (last && tt.over) {
					t.Errorf("rejection %d: over is %t", i+1, over)
				}
			}
			if _, over := tr.add("other", begin.Add(tt.at[len(tt.at)-1])); over {
				t.Error("the rejections of one node count for another")
			}
		})
	}
	if newTracker(Rejections{Threshold: 1}) != nil {
		t.Error("a disabled tracker counts")
	}
	if tr := newTracker(Rejections{Enabled: true}); tr.cfg.Threshold != 100 || tr.cfg.Window != 5*time.Minute {
		t.Errorf("defaults are %+v", tr.cfg)
	}
}

func TestTracker_Oldest(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	tr := newTracker(Rejections{Enabled: true, Threshold: 2, Window: time.Hour})
	for i := range 2 * trackedNodes {
		tr.add(fmt.Sprint("n", i), now.Add(time.Duration(i)*time.Second))
	}
	if len(tr.nodes) != trackedNodes {
		t.Errorf("%d nodes are tracked, want %d", len(tr.nodes), trackedNodes)
	}
	if _, over := tr.add(fmt.Sprint("n", trackedNodes), now); !over {
		t.Error("a recent node was dropped")
	}
	if score, _ := tr.add("n0", now); score != 1 {
		t.Error("the oldest node was kept")
	}
}

// Ten nodes may become ineligible at once, then five in 30 minutes.
func TestTracker_Limit(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	tr := newTracker(Rejections{Enabled: true, Threshold: 1})
	marked := func(at time.Duration) (n int) {
		for i := range 100 {
			if tr.mark(fmt.Sprint("n", i), now.Add(at)) {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		at   time.Duration
		want int
	}{{0, 10}, {time.Minute, 0}, {31 * time.Minute, 5}, {32 * time.Minute, 0}, {37 * time.Minute, 1}, {10 * time.Hour, 10}} {
		if got := marked(tt.at); got != tt.want {
			t.Errorf("after %v: %d nodes became ineligible, want %d", tt.at, got, tt.want)
		}
	}
}
