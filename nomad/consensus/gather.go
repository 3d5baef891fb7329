package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// holdFor bounds how long a command waits for those that are on their way. The answer
// of a server that is far away must not hold up everybody.
const holdFor = 5 * time.Millisecond

// gather hands commands to the log in groups. A group costs every server one write to
// its disk, one message and its answer, and one transaction of the state, however many
// commands it has. Raft forms groups of what came while it wrote to the disk: of many
// writers half would be in one, half in the next. Here the next group waits until the
// one before it was applied, or for holdFor.
//
//	none on its way ──command──▶ a group of one is on its way ──applied──▶ all that came meanwhile
//
// A lone command never waits.
type gather struct {
	log func(command []byte, within time.Duration) raft.ApplyFuture

	mu      sync.Mutex
	onWay   int // groups
	waiting []*command
	late    *time.Timer // sends those that wait
}

// command is one entry to be, and where its outcome goes.
type command struct {
	data []byte
	done chan applied // holds one
}

// applied is what became of a command.
type applied struct {
	index uint64
	resp  any
	err   error
}

// add gives a command to the next group.
func (g *gather) add(data []byte) <-chan applied {
	c := &command{data: data, done: make(chan applied, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, c)
	switch {
	case g.onWay == 0:
		go g.carry(g.next())
	case len(g.waiting) == 1:
		g.late = time.AfterFunc(holdFor, g.hurry)
	}
	return c.done
}

// next returns those that wait, as a group that is on its way. g.mu is held.
func (g *gather) next() []*command {
	group := g.waiting
	if g.waiting = nil; len(group) > 0 {
		g.onWay++
	}
	if g.late != nil {
		g.late.Stop()
		g.late = nil
	}
	return group
}

// hurry sends those that wait beside those that are on their way.
func (g *gather) hurry() {
	g.mu.Lock()
	group := g.next()
	g.mu.Unlock()
	g.carry(group)
}

// carry brings a group into the log and its outcomes back, and then the group that
// waited for it.
func (g *gather) carry(group []*command) {
	for len(group) > 0 {
		futures := make([]raft.ApplyFuture, len(group))
		late := time.Now().Add(enqueueTimeout) // of them all: a log that hangs holds nobody for longer
		for i, c := range group {
			futures[i] = g.log(c.data, max(time.Until(late), 1))
		}
		for i, f := range futures {
			out := applied{err: f.Error()}
			if out.err == nil {
				out.index, out.resp = f.Index(), f.Response()
			}
			group[i].done <- out
		}
		group = g.landed()
	}
}

// landed notes that a group was applied, and returns the next when it was the last.
func (g *gather) landed() []*command {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.onWay--; g.onWay > 0 {
		return nil
	}
	return g.next()
}
