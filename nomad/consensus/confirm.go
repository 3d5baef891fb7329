package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

const (
	// confirmWithin limits one round of heartbeats. The caller may repeat it.
	confirmWithin = 500 * time.Millisecond
	// askPause is the pause before an unreachable server gets another heartbeat.
	askPause = 20 * time.Millisecond
	// After maxUnanswered unanswered heartbeats a server gets further ones only at intervals.
	maxUnanswered = 4
	askAgainAfter = 500 * time.Millisecond
)

// ErrUnconfirmed means that no majority confirmed the leadership in time.
var ErrUnconfirmed = errors.New("leadership was not confirmed by a majority")

// Term returns the term in which this server is the leader, or false.
func (r *Raft) Term() (term uint64, leads bool) {
	before := r.raft.CurrentTerm()
	leads = r.IsLeader()
	// A term ends before the next is recorded, so no other term lay between the two reads.
	return before, leads && before == r.raft.CurrentTerm()
}

// Confirm returns a term in which a majority confirmed this server's leadership after the call
// began. All writes acknowledged before the call are then in state, if state contains
// everything from before that term. A leader must call Confirm before it answers a consistent
// read. A leader that was stopped, or whose followers held an early election, does not notice
// its replacement.
//
// Raft's own VerifyLeader is not sufficient. It also counts answers to earlier heartbeats,
// which may have waited in the sockets of a stopped process.
//
// Concurrent callers share a round. A caller never joins a round that has already begun.
func (r *Raft) Confirm(ctx context.Context) (term uint64, err error) {
	c := r.rounds.join(r.confirm)
	select {
	case <-c.done:
		return c.term, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// rounds lets concurrent callers share one operation.
//
//	idle ──join──▶ running ──join──▶ running, next waits ──ended──▶ running
//	  ▲               └──ended─┐
//	  └────────────────────────┘
type rounds struct {
	mu      sync.Mutex
	running bool
	next    *round
}

// round is one run of the operation.
type round struct {
	done chan struct{}
	term uint64
	err  error
}

// join returns a round that begins after the call.
func (s *rounds) join(ask func() (uint64, error)) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &round{done: make(chan struct{})}
		if !s.running {
			s.running = true
			go s.run(ask)
		}
	}
	return s.next
}

// run executes rounds while there are waiting callers.
func (s *rounds) run(ask func() (uint64, error)) {
	for {
		s.mu.Lock()
		now := s.next
		s.next = nil
		s.running = now != nil
		s.mu.Unlock()
		if now == nil {
			return
		}
		now.term, now.err = ask()
		close(now.done)
	}
}

// confirm sends heartbeats to all voters until a majority has confirmed the term.
func (r *Raft) confirm() (uint64, error) {
	term, leads := r.Term()
	if !leads {
		return 0, apierror.ErrNoLeader
	}
	servers, err := r.Servers()
	if err != nil {
		return 0, err
	}
	voters := slices.DeleteFunc(slices.Clone(servers), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
	others := slices.DeleteFunc(slices.Clone(voters), func(s raft.Server) bool { return s.ID == raft.ServerID(r.id) })
	return term, r.poll(term, others, len(voters), len(voters)-len(others))
}

// answer is the answer of one server. err is nil if it confirmed the term.
type answer struct {
	from raft.Server
	err  error
}

// poll sends heartbeats to the other voters, repeatedly to unreachable ones.
func (r *Raft) poll(term uint64, toAsk []raft.Server, voters, agreed int) error {
	answers := make(chan answer, voters)
	late, again := time.NewTimer(confirmWithin), time.NewTicker(askPause)
	defer late.Stop()
	defer again.Stop()
	for agreed <= voters/2 {
		toAsk = slices.DeleteFunc(toAsk, func(s raft.Server) bool {
			asks := r.asked.mayAsk(s.ID, time.Now())
			if asks {
				go func() { answers <- answer{s, r.heartbeat(s, term)} }()
			}
			return asks
		})
		select {
		case a := <-answers:
			switch {
			case a.err == nil:
				agreed++
				continue
			case errors.Is(a.err, apierror.ErrNoLeader):
				return a.err
			}
			toAsk = append(toAsk, a.from)
			<-again.C
		case <-again.C:
		case <-late.C:
			return fmt.Errorf("%w: %d of %d servers answered within %v", ErrUnconfirmed, agreed, voters, confirmWithin)
		}
	}
	return nil
}

// heartbeat sends a heartbeat of the term to a server. It returns ErrNoLeader if the server has a
// later term.
func (r *Raft) heartbeat(to raft.Server, term uint64) error {
	self := r.trans.LocalAddr()
	addr := r.trans.EncodePeer(raft.ServerID(r.id), self)
	req := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: protocol, ID: []byte(r.id), Addr: addr},
		Term: term}
	var resp raft.AppendEntriesResponse
	err := r.trans.AppendEntries(to.ID, to.Address, req, &resp)
	r.asked.contacted(to.ID)
	switch {
	case err != nil:
		return err
	case resp.Term > term:
		return apierror.ErrNoLeader
	case !resp.Success:
		return ErrUnconfirmed
	}
	return nil
}

// asked counts unanswered heartbeats, so that goroutines do not accumulate for a server that
// hangs.
type asked struct {
	mu   sync.Mutex
	open map[raft.ServerID]*unanswered
}

// unanswered counts the unanswered heartbeats of one server.
type unanswered struct {
	count int
	last  time.Time
}

// mayAsk reports whether the server may get a heartbeat now, and records it.
func (a *asked) mayAsk(id raft.ServerID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[raft.ServerID]*unanswered{}
	}
	u := a.open[id]
	if u == nil {
		u = new(unanswered)
		a.open[id] = u
	}
	if u.count >= maxUnanswered && now.Sub(u.last) < askAgainAfter {
		return false
	}
	u.count++
	u.last = now
	return true
}

// contacted records that a server answered or is unreachable.
func (a *asked) contacted(id raft.ServerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.open[id]; u.count > 1 {
		u.count--
	} else {
		delete(a.open, id)
	}
}
