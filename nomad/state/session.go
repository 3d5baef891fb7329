package state

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// firstSession is that of a node that nobody held before.
func firstSession(n *nomad.Node) *nomad.NodeSession {
	if n.Session == nil || n.Session.ID == "" {
		return nil
	}
	return &nomad.NodeSession{ID: n.Session.ID, BootID: n.Session.BootID, Since: n.StatusUpdatedAt}
}

// succeed decides which agent holds the node from now on, when n registers in the
// place of old (nomad.NodeSession). It fails when n is refused, or when another
// session than before has come since the server looked. An agent that tells no
// session is taken as it comes.
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
		return nil, fmt.Errorf("%w: %s", nomad.ErrNodeHeld, n.ID)
	case next.ID == had.PreviousID && !silent && since < seconds(nomad.SessionSettle):
		return nil, fmt.Errorf("%w: another agent of node %s has just registered", nomad.ErrNodeSession, n.ID)
	case next.ID == had.PreviousID && !silent && since <= seconds(nomad.SessionContest):
		next.RefusedID = had.ID // two live: the one that came later goes
	case before != had.ID:
		return nil, fmt.Errorf("%w: another agent of node %s registered meanwhile", nomad.ErrNodeSession, n.ID)
	default:
		next.PreviousID, next.RefusedID = had.ID, had.RefusedID
	}
	return next, nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
