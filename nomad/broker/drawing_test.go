package broker_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/broker"
)

var arrow = regexp.MustCompile(`^(\w+) ──([a-z ]+)──▶ (\w+)`)

// TestDrawing compares the drawing in the package doc with the table of moves.
func TestDrawing(t *testing.T) {
	src, err := os.ReadFile("broker.go")
	if err != nil {
		t.Fatal(err)
	}
	type move struct{ from, event, to string }
	drawn := map[move]bool{}
	for line := range strings.Lines(string(src)) {
		rest, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			continue
		}
		for m := arrow.FindStringSubmatch(rest); m != nil; m = arrow.FindStringSubmatch(rest) {
			drawn[move{m[1], m[2], m[3]}] = true
			rest = rest[strings.Index(rest, "▶ ")+len("▶ "):]
		}
	}
	state := func(name string) broker.State {
		if name == "gone" {
			return broker.Gone
		}
		return broker.State(name)
	}
	possible := 0
	for _, from := range []string{"gone", "delayed", "pending", "ready", "unacked", "failed"} {
		for _, ev := range []broker.Event{broker.Delay, broker.Hold, broker.Offer, broker.Deliver, broker.Ack, broker.Nack, broker.GiveUp,
			broker.Cancel} {
			to, err := broker.Next(state(from), ev)
			if err != nil {
				continue
			}
			possible++
			name := string(to)
			if to == broker.Gone {
				name = "gone"
			}
			if !drawn[move{from, string(ev), name}] {
				t.Errorf("%s ──%s──▶ %s is not drawn", from, ev, name)
			}
		}
	}
	if len(drawn) != possible {
		t.Errorf("%d moves are drawn, %d are possible", len(drawn), possible)
	}
}
