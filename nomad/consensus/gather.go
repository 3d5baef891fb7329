package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// holdFor bounds how long a command waits for those that are on their way. The answer
// of a server that is far away must not hold up everybody.
const holdFor = 5 * time.Millisecond

// fewWriters is how many commands are too few to wait for more.
const fewWriters = 4

// gather hands commands to the log in groups. A group costs every server one write to
// its disk, one message and its answer, and one transaction of the state, however many
// commands it has. Raft forms groups of what came while it wrote to the disk: of many
// writers half would be in one, half in the next. Here the next group waits until the
// one before it was applied, or for holdFor. Those who were answered are about to come
// back then: the group waits for them too, until it has most of what there was before,
// or for half of the time that the group before it took.
//
//	none on its way ──command──▶ a group of one is on its way ──applied──▶ all that came meanwhile
//	                                          ▲                                  │ many, and most are missing
//	                                          └──── most are there, or late ◀── due
//
// A lone command never waits, nor do fewWriters.
type gather struct {
	log func(command []byte, within time.Duration) raft.ApplyFuture

	mu      sync.Mutex
	onWay   int // groups
	due     int // how many commands the next group waits for; 0: it does not
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
	case g.due > len(g.waiting): // late sends them
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
	g.due = 0
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
		began := time.Now()
		futures := make([]raft.ApplyFuture, len(group))
		late := began.Add(enqueueTimeout) // of them all: a log that hangs holds nobody for longer
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
		group = g.landed(len(group), time.Since(began))
	}
}

// landed notes that a group of n was applied, which took so long, and returns the next
// when it was the last and nobody is waited for.
func (g *gather) landed(n int, took time.Duration) []*command {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.onWay--; g.onWay > 0 {
		return nil
	}
	due := (n + len(g.waiting)) * 3 / 4
	if due < fewWriters || due <= len(g.waiting) {
		return g.next()
	}
	if g.late != nil {
		g.late.Stop()
	}
	g.due, g.late = due, time.AfterFunc(min(took/2, holdFor), g.hurry)
	return nil
}
