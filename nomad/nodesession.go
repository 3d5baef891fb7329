package nomad

import "time"

// SessionSettle and SessionContest delimit a period after a change of sessions. A message from the previous session
// within this period proves that two agents use the same node ID. Before the period, it may be a delayed message of
// a process that has ended.
const (
	SessionSettle  = 15 * time.Second
	SessionContest = 10 * time.Minute
)

// NodeSession is the session of one process of a node's agent. The agent sends ID and BootID. The FSM writes the
// other fields.
//
//	(none) ──registers──▶ current ──another registers──▶ previous ──calls again──▶ current
//	                                                                (the other: rejected)
type NodeSession struct {
	// ID is a UUID that is unique to each process.
	ID string
	// BootID is a digest of the kernel's boot ID and the node ID. It differs between machines and
	// between boots, and does not disclose either ID. It may be "".
	BootID string
	// PreviousID is the previous session of the node. Since is the time of the change, in Unix seconds.
	PreviousID string
	Since      int64
	// RefusedID is the session that was rejected as a duplicate.
	RefusedID string
}
