package csi

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDrawing compares the drawing of the states of claims with the table of moves.
func TestDrawing(t *testing.T) {
	src, err := os.ReadFile("claim.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]ClaimState{}
	for s, name := range claimStates {
		named[name] = s
	}
	arrow := regexp.MustCompile(`^([a-z-]+) ──([a-z-]+)──▶ ([a-z-]+)`)
	drawn := map[claimEdge]ClaimState{}
	for line := range strings.Lines(string(src)) {
		rest, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			continue
		}
		for m := arrow.FindStringSubmatch(rest); m != nil; m = arrow.FindStringSubmatch(rest) {
			from, known := named[m[1]]
			to, alsoKnown := named[m[3]]
			if !known || !alsoKnown {
				t.Fatalf("the drawing has an unknown state: %q", m[0])
			}
			drawn[claimEdge{from, ClaimEvent(m[2])}] = to
			rest = rest[strings.Index(rest, "▶ ")+len("▶ "):]
		}
	}
	if !maps.Equal(drawn, claimMoves) {
		t.Errorf("the drawing has the moves\n%v, want\n%v", drawn, claimMoves)
	}
	for edge := range claimMoves {
		if !slices.Contains(claimEvents, edge.by) {
			t.Errorf("claimEvents has no %s", edge.by)
		}
	}
}

func TestNext(t *testing.T) {
	for s := range claimStates {
		for _, by := range append(slices.Clone(claimEvents), "other") {
			want, ok := claimMoves[claimEdge{s, by}]
			got, err := s.Next(by)
			if ok != (err == nil) || ok && got != want || !ok && got != s {
				t.Errorf("%s.Next(%s) = %s, %v", s, by, got, err)
			}
		}
	}
}

// TestReaches has, for each state, the states that an entry may ask for: the next one moves, earlier ones change nothing.
func TestReaches(t *testing.T) {
	const moves, same, refused = "moves", "same", "refused"
	order := []ClaimState{ClaimTaken, ClaimUnpublishing, ClaimNodeDetached, ClaimReadyToFree}
	for i, from := range order {
		for j, to := range order {
			want := refused
			switch {
			case j <= i:
				want = same
			case j == i+1:
				want = moves
			}
			if got := reached(from, to); got != want {
				t.Errorf("%s.Reaches(%s): %s, want %s", from, to, got, want)
			}
		}
	}
	for to, want := range map[ClaimState]string{ClaimControllerDetached: same, ClaimReadyToFree: moves, ClaimNodeDetached: refused, 99: refused} {
		if got := reached(ClaimControllerDetached, to); got != want {
			t.Errorf("controller-detached.Reaches(%s): %s, want %s", to, got, want)
		}
	}
}

func reached(from, to ClaimState) string {
	moves, err := from.Reaches(to)
	switch {
	case err != nil:
		return "refused"
	case moves:
		return "moves"
	}
	return "same"
}

// TestClaimsProperty submits random steps, repeated and out of order. No claim is freed before its node has unmounted the volume,
// and the release of every claim can end.
func TestClaimsProperty(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 41))
		v := (&Volume{ID: "v", RequestedCapabilities: []*Capability{{AccessMode: "multi-node-multi-writer"}}}).Unclaimed()
		history := map[string][]ClaimState{}
		for range 200 {
			alloc := fmt.Sprint("a", random.IntN(4))
			step := &Claim{AllocationID: alloc, NodeID: "n", Mode: ClaimMode(random.IntN(2)), AccessMode: "multi-node-multi-writer",
				State: ClaimState(random.IntN(6))}
			before := v.ClaimOf(alloc)
			var next *Volume
			var err error
			if step.State == ClaimTaken && !v.HasClaim(step) {
				next, err = v.WithClaim(step)
			} else if step.State != ClaimTaken {
				next, err = v.WithState(step)
			}
			if err != nil || next == nil {
				continue
			}
			v = next
			after := v.ClaimOf(alloc)
			switch {
			case before == nil && after != nil:
				history[alloc] = []ClaimState{after.State}
			case before != nil && after == nil:
				if want := []ClaimState{ClaimTaken, ClaimUnpublishing, ClaimNodeDetached}; !slices.Equal(history[alloc], want) {
					t.Fatalf("seed %d: a claim was freed after the states %v, want %v", seed, history[alloc], want)
				}
			case before != nil && after.State != before.State:
				history[alloc] = append(history[alloc], after.State)
			}
		}
		for _, alloc := range []string{"a0", "a1", "a2", "a3"} {
			for _, s := range []ClaimState{ClaimUnpublishing, ClaimNodeDetached, ClaimReadyToFree} {
				next, err := v.WithState(&Claim{AllocationID: alloc, State: s})
				if err != nil {
					t.Fatalf("seed %d: the release of %+v cannot go on: %v", seed, v.ClaimOf(alloc), err)
				}
				v = next
			}
		}
		if v.InUse() || len(v.ReadAllocs)+len(v.WriteAllocs) > 0 || v.AccessMode != "" || v.AttachmentMode != "" {
			t.Fatalf("seed %d: after all releases the volume is %+v", seed, v)
		}
	}
}
