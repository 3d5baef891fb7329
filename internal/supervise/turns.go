package supervise

import (
	"runtime"
	"sync"
	"time"
)

// Many stages on a few cores slow each other down, and each costs memory while it lives. Therefore
// only a few starts run at a time, and the others wait. A start that hangs, for example on a
// granted path of a dead file server, delays the others for a limited time only.
const (
	startsPerCore = 2
	turnLimit     = 250 * time.Millisecond
)

// The agent prepares a few more starts than the supervisor runs, so that the supervisor never waits for it. A prepared
// start holds a policy and its description; without a limit, the starts of a large job would all hold theirs at once.
const (
	preparedPerCore = 2 * startsPerCore
	preparedLimit   = 4 * turnLimit
)

// turns limits the number of starts that run at a time.
type turns struct {
	taken chan struct{} // one element for each running start
	limit time.Duration // of a start that delays others
}

func newTurns(perCore int, limit time.Duration) turns {
	return turns{make(chan struct{}, perCore*runtime.NumCPU()), limit}
}

// take waits for the turn of a start, which done ends.
func (t turns) take() (done func()) {
	t.taken <- struct{}{}
	end := sync.OnceFunc(func() { <-t.taken })
	late := time.AfterFunc(t.limit, end)
	return func() {
		late.Stop()
		end()
	}
}

// Turn waits until the caller may prepare a start. The caller calls done after Start.
func (c *Client) Turn() (done func()) { return c.turns.take() }
