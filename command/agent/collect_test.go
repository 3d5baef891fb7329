package agent

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: mostPercent, 1 << 20: mostPercent, 12 << 20: 800, 32 << 20: 300, leastGarbage: 200, 128 << 20: 200, 170 << 20: 150, mostGarbage: 100, 10 << 30: 100} {
		if got := percentFor(live); got != want {
			t.Errorf("percentFor(%d MiB) = %d, want %d", live>>20, got, want)
		}
	}
}

// The percentage follows what is in use, and is as before in the end.
func TestCollectorIsPaced(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	const own = 77
	defer debug.SetGCPercent(debug.SetGCPercent(own))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- paceCollector(ctx) }()
	held := make([]byte, mostGarbage)
	for end := time.Now().Add(2 * time.Minute); percent() != leastPercent; runtime.GC() {
		if time.Now().After(end) {
			t.Fatalf("the percentage is %d with %d MiB in use", percent(), mostGarbage>>20)
		}
	}
	runtime.KeepAlive(held)
	cancel()
	<-done
	if got := percent(); got != own {
		t.Errorf("the percentage is %d in the end, was %d", got, own)
	}
}

// percent reads the percentage.
func percent() int {
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	return int(now[0].Value.Uint64())
}

func TestGivenPercentageIsKept(t *testing.T) {
	t.Setenv("GOGC", "50")
	if err := paceCollector(t.Context()); err != nil {
		t.Errorf("paceCollector = %v, want that it leaves at once", err)
	}
}
