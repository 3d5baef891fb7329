package state_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// sessions registers one node for agents of several sessions.
type sessions struct {
	*world
	before string // what the server saw; "" is what is there
}

func (w *sessions) at(now int64, session string) error {
	before := w.before
	if n := w.snap().Node(nil, "n1"); before == "" && n != nil && n.Session != nil {
		before = n.Session.ID
	}
	n := &nomad.Node{ID: "n1", Name: "agent " + session, Status: nomad.NodeStatusReady, StatusUpdatedAt: now}
	if session != "" {
		n.Session = &nomad.NodeSession{ID: session, BootID: "boot", PreviousID: "forged", RefusedID: "forged", Since: 1}
	}
	_, err := w.RegisterNode(w.next(), &message.NodeRegisterRequest{Node: n, SessionBefore: before})
	return err
}

// is checks the current, the previous and the rejected session of the node, and that the row is that
// of the current one.
func (w *sessions) is(t *testing.T, id, previous, refused string) {
	t.Helper()
	n := w.snap().Node(nil, "n1")
	if s := n.Session; s == nil || s.ID != id || s.PreviousID != previous || s.RefusedID != refused || n.Name != "agent "+id {
		t.Errorf("node %q has the session %+v, want %q after %q without %q", n.Name, s, id, previous, refused)
	}
}

func (w *sessions) takes(t *testing.T, now int64, session string) {
	t.Helper()
	if err := w.at(now, session); err != nil {
		t.Fatalf("at %d the session %s is refused: %v", now, session, err)
	}
}

func (w *sessions) refuses(t *testing.T, now int64, session string, want error) {
	t.Helper()
	before := w.snap().Node(nil, "n1")
	if err := w.at(now, session); !errors.Is(err, want) {
		t.Errorf("at %d the session %s ends with %v, want %v", now, session, err, want)
	}
	if w.snap().Node(nil, "n1") != before {
		t.Errorf("at %d the session %s was refused, and left its trace", now, session)
	}
}

// If two agents send heartbeats in turn, the one that registered later is rejected.
func TestTwoSessionsOfOneNode(t *testing.T) {
	w := &sessions{world: newWorld(t)}
	w.takes(t, 1000, "a")
	w.is(t, "a", "", "")
	w.takes(t, 2000, "a")
	w.takes(t, 3000, "b") // as after a restart
	w.is(t, "b", "a", "")
	w.refuses(t, 3014, "a", apierror.ErrNodeSession) // it may be a late word of a dead agent
	w.takes(t, 3015, "a")                            // now two live
	w.is(t, "a", "", "b")
	w.refuses(t, 3016, "b", apierror.ErrNodeHeld)
	w.refuses(t, 99999, "b", apierror.ErrNodeHeld)
	w.takes(t, 99999, "c") // a restart of either: who that was is seen again
	w.is(t, "c", "a", "b")
	w.takes(t, 99999+15, "a")
	w.is(t, "a", "", "c")
}

// Much later, the earlier session is no longer considered.
func TestAnEarlierSessionReturnsLate(t *testing.T) {
	w := &sessions{world: newWorld(t)}
	w.takes(t, 1000, "a")
	w.takes(t, 2000, "b")
	w.takes(t, 2601, "a")
	w.is(t, "a", "b", "")
}

// A rejected agent is admitted when the other agent is silent.
func TestARefusedSessionSucceedsASilentOne(t *testing.T) {
	w := &sessions{world: newWorld(t)}
	w.takes(t, 1000, "a")
	w.takes(t, 2000, "b")
	w.takes(t, 2020, "a")
	w.ok(w.UpdateNodeStatus(w.next(), &message.NodeUpdateStatusRequest{NodeID: "n1", Status: nomad.NodeStatusDown}))
	w.takes(t, 2100, "b")
	w.is(t, "b", "a", "b")
	w.takes(t, 2101, "b")
}

// An entry that was proposed before another agent registered is not applied.
func TestASessionThatCameBetween(t *testing.T) {
	w := &sessions{world: newWorld(t)}
	w.takes(t, 1000, "a")
	w.takes(t, 2000, "b")
	w.before = "a"
	w.refuses(t, 2001, "c", apierror.ErrNodeSession)
}

// Agents without a session cannot be distinguished.
func TestAgentsWithoutSession(t *testing.T) {
	w := &sessions{world: newWorld(t)}
	w.takes(t, 1000, "")
	w.takes(t, 1001, "a")
	w.is(t, "a", "", "")
	w.takes(t, 1002, "")
	if s := w.snap().Node(nil, "n1").Session; s != nil {
		t.Errorf("the session is %+v", s)
	}
	w.takes(t, 1003, "")
}
