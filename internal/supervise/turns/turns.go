// Package turns limits how many starts of tasks run at a time.
//
// Many stages on a few cores slow each other down, and each costs memory while it lives. Therefore only a few starts
// run at a time, and the others wait. A start that hangs, for example on a granted path of a dead file server, delays
// the others for a limited time only.
//
// The agent prepares a few more starts than the supervisor runs, so that the supervisor never waits for it. A prepared
// start holds a policy and its description; without a limit, the starts of a large job would all hold theirs at once.
package turns

import (
	"runtime"
	"sync"
	"time"
)

const (
	startsPerCore   = 2
	startLimit      = 250 * time.Millisecond
	preparedPerCore = 2 * startsPerCore
	preparedLimit   = 4 * startLimit
)

// Turns limits the number of starts that run at a time.
type Turns struct {
	taken chan struct{} // one element for each running start
	limit time.Duration // of a start that delays others
}

// ForStarts returns the turns of the supervisor.
func ForStarts() Turns { return newTurns(startsPerCore, startLimit) }

// ForPreparing returns the turns of the agent, which prepares starts.
func ForPreparing() Turns { return newTurns(preparedPerCore, preparedLimit) }

func newTurns(perCore int, limit time.Duration) Turns {
	return Turns{make(chan struct{}, perCore*runtime.NumCPU()), limit}
}

// Take waits for the turn of a start, which done ends.
func (t Turns) Take() (done func()) {
	t.taken <- struct{}{}
	end := sync.OnceFunc(func() { <-t.taken })
	late := time.AfterFunc(t.limit, end)
	return func() {
		late.Stop()
		end()
	}
}
