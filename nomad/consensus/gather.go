package consensus

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// holdFor limits how long a command waits for the group before it. A slow answer from a distant
// server must not delay all commands.
const holdFor = 5 * time.Millisecond

// fewWriters is the maximum size of a group that is sent without waiting for more commands.
const fewWriters = 4

// gather passes commands to the log in groups. A group costs every server one disk write, one
// message with its answer, and one transaction of the state, whatever its size. Raft itself
// groups the commands that arrive during a disk write. With many writers, half of them then
// share one group and half the next. Here, a group waits until the previous one was applied, or
// for holdFor. The writers of the previous group usually send their next command soon. The
// group waits for those as well: until most of them have arrived, or for half of the duration
// of the previous group.
//
//	none in flight ──command──▶ a group of one in flight ──applied──▶ all that arrived meanwhile
//	                                          ▲                                  │ many, and most are missing
//	                                          └──── most have arrived, or late ◀── due
//
// A single command never waits. Up to fewWriters commands do not wait either.
//
// Without it, 16 writers and 3 servers on 2 cores register 18 % fewer jobs by RPC, 23 % fewer by HTTP at the leader,
// and 16 % fewer by HTTP at all servers, with 7 to 27 % more CPU each (medians of 5 runs in turn).
//
// Before a snapshot is restored, stop waits for all commands and refuses new ones, because a
// command that was decided on the old state must not be applied to the new one.
type gather struct {
	log func(command []byte, within time.Duration) raft.ApplyFuture

	mu      sync.Mutex
	onWay   int // groups in flight
	due     int // number of commands that the next group waits for; 0 if it does not wait
	waiting []*command
	late    *time.Timer // sends the waiting commands
	stopped bool
	idle    chan struct{} // if stopped: closed when no group is in flight
}

// command is one command and the channel for its result.
type command struct {
	data []byte
	done chan applied // buffered: receives one value
}

// applied is the result of a command.
type applied struct {
	index uint64
	resp  any
	err   error
}

// add adds a command to the next group.
func (g *gather) add(data []byte) <-chan applied {
	c := &command{data: data, done: make(chan applied, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		c.done <- applied{err: fmt.Errorf("%w: a snapshot is being restored", apierror.ErrNoLeader)}
		return c.done
	}
	g.waiting = append(g.waiting, c)
	switch {
	case g.due > len(g.waiting): // the timer late sends them
	case g.onWay == 0:
		go g.write(g.next())
	case len(g.waiting) == 1:
		g.late = time.AfterFunc(holdFor, g.flush)
	}
	return c.done
}

// stop refuses new commands and waits until all earlier ones are answered.
func (g *gather) stop() {
	g.mu.Lock()
	g.stopped, g.idle = true, make(chan struct{})
	group := g.next()
	if g.onWay == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	g.write(group)
	<-g.idle
}

// resume ends stop.
func (g *gather) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = false
}

// next takes the waiting commands and counts them as a group in flight. g.mu is held.
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

// flush sends the waiting commands although another group is in flight.
func (g *gather) flush() {
	g.mu.Lock()
	group := g.next()
	g.mu.Unlock()
	g.write(group)
}

// write writes a group to the log and delivers its results. It then does the same with the
// group that waited for it.
func (g *gather) write(group []*command) {
	for len(group) > 0 {
		began := time.Now()
		futures := make([]raft.ApplyFuture, len(group))
		late := began.Add(enqueueTimeout) // shared deadline, so that a hanging log delays no command longer
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
		group = g.written(len(group), time.Since(began))
	}
}

// written records that a group of n commands was applied after took. It returns the next group,
// if this was the last in flight and no more commands are expected.
func (g *gather) written(n int, took time.Duration) []*command {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.onWay--; g.onWay > 0 {
		return nil
	}
	if g.stopped {
		close(g.idle)
		return nil
	}
	due := (n + len(g.waiting)) * 3 / 4
	if due < fewWriters || due <= len(g.waiting) {
		return g.next()
	}
	if g.late != nil {
		g.late.Stop()
	}
	g.due, g.late = due, time.AfterFunc(min(took/2, holdFor), g.flush)
	return nil
}
