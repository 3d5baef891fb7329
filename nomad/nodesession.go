package nomad

import "time"

// SessionSettle and SessionContest are the times after a change of sessions between
// which the earlier one, when it is heard, proves that two agents present one node
// ID. What is heard sooner may be the last word of a process that died, held up on
// its way.
const (
	SessionSettle  = 15 * time.Second
	SessionContest = 10 * time.Minute
)

// NodeSession is the life of one process of a node's agent. An agent sends ID and
// BootID, the log writes the rest.
//
//	(none) ──registers──▶ current ──another registers──▶ previous ──heard again──▶ current
//	                                                                (the other: refused)
type NodeSession struct {
	// ID is a UUID, new with each process.
	ID string
	// BootID is a digest of the kernel's boot and the node ID: it differs on every
	// machine and after every boot, and tells nothing about them. It may be "".
	BootID string
	// PreviousID held the node before; Since is when that changed, in Unix seconds.
	PreviousID string
	Since      int64
	// RefusedID is the session that was found to be the second of two.
	RefusedID string
}

// NodeSessionResponse is the reply of NodeIdentity.Session: what a node says of its
// own agent.
type NodeSessionResponse struct {
	ID string
	QueryMeta
}
