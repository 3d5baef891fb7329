package state

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// firstSession returns the session of a node that has no earlier session.
func firstSession(n *nomad.Node) *nomad.NodeSession {
	if n.Session == nil || n.Session.ID == "" {
		return nil
	}
	return &nomad.NodeSession{ID: n.Session.ID, BootID: n.Session.BootID, Since: n.StatusUpdatedAt}
}

// succeed returns the new session of a node when n registers in place of old (nomad.NodeSession).
// It fails if n is refused, or if the session is no longer the one that the server saw (before).
// An agent without a session is always accepted.
func succeed(n, old *nomad.Node, before string) (*nomad.NodeSession, error) {
	next := firstSession(n)
	had := old.Session
	if next == nil || had == nil {
		return next, nil
	}
	silent := unresponsive(old.Status)
	since := n.StatusUpdatedAt - had.Since
	switch {
	case next.ID == had.ID:
		next.PreviousID, next.Since, next.RefusedID = had.PreviousID, had.Since, had.RefusedID
	case next.ID == had.RefusedID && !silent:
		return nil, fmt.Errorf("%w: %s", apierror.ErrNodeHeld, n.ID)
	case next.ID == had.PreviousID && !silent && since < seconds(nomad.SessionSettle):
		return nil, fmt.Errorf("%w: another agent of node %s has just registered", apierror.ErrNodeSession, n.ID)
	case next.ID == had.PreviousID && !silent && since <= seconds(nomad.SessionContest):
		next.RefusedID = had.ID // two agents are alive: the later one is refused
	case before != had.ID:
		return nil, fmt.Errorf("%w: another agent of node %s registered meanwhile", apierror.ErrNodeSession, n.ID)
	default:
		next.PreviousID, next.RefusedID = had.ID, had.RefusedID
	}
	return next, nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
