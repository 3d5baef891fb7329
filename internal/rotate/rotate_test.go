package rotate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/rotate"
)

func TestName(t *testing.T) {
	at := time.Unix(2, 7)
	for file, want := range map[string]string{"agent.log": "agent-2000000007.log", "audit": "audit-2000000007",
		"a.b.log": "a.b-2000000007.log"} {
		if got := rotate.Name(file, at); got != want {
			t.Errorf("Name(%q) = %q, want %q", file, got, want)
		}
	}
}

func TestExpired(t *testing.T) {
	names := []string{"agent.log", "agent-30.log", "agent-4.log", "agent-100.log",
		"agent-007.log", "agent-x.log", "agent-5.log.gz", "other-1.log", "agent-.log"}
	for keep, want := range map[int][]string{
		-1: {"agent-4.log", "agent-30.log", "agent-100.log"},
		0:  {"agent-4.log", "agent-30.log", "agent-100.log"},
		2:  {"agent-4.log"},
		3:  nil,
		9:  nil,
	} {
		if got := rotate.Expired(names, "agent.log", keep); !slices.Equal(got, want) {
			t.Errorf("Expired(%d) = %q, want %q", keep, got, want)
		}
	}
}
