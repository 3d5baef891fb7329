//go:build linux && faults

package faults_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/faults"
)

// The verbs of the harness do what they say: servers hear each other, don't when
// they are cut, and everything is gone afterwards.
func TestHarness(t *testing.T) {
	c := start(t, 3, "")
	ctx := t.Context()
	old, err := c.Agree(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cut([]*faults.Server{old}, old.Others()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next, err := c.Elected(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s cut off: %s leads after %v", old.Name, next.Name, time.Since(began).Round(time.Millisecond))
	lost, err := c.Heal()
	if err != nil || lost == 0 {
		t.Fatalf("Heal() = %d lost, %v; the cut lost nothing", lost, err)
	}
	if again, err := c.Agree(ctx); err != nil || again != next {
		t.Fatalf("after the cut: leader %v, %v, want %s", again, err, next.Name)
	}
}
