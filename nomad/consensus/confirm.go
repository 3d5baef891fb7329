package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// confirmWithin bounds one round of asking; who needs more asks again.
	confirmWithin = 500 * time.Millisecond
	// askPause is the pause before a server that can't be reached is asked again.
	askPause = 20 * time.Millisecond
	// maxUnanswered heartbeats wait for a server before it gets another only from
	// time to time.
	maxUnanswered = 4
	askAgainAfter = 500 * time.Millisecond
)

// ErrUnconfirmed means that too few servers said in time that they know of no
// later leader.
var ErrUnconfirmed = errors.New("leadership was not confirmed by a majority")

// Term returns the term in which this server leads, false when it does not.
func (r *Raft) Term() (term uint64, leads bool) {
	before := r.raft.CurrentTerm()
	leads = r.IsLeader()
	// A term ends before the next one is noted: between two equal looks was none.
	return before, leads && before == r.raft.CurrentTerm()
}

// Confirm returns a term in which this server led at a moment after the call: a
// majority said so. What was acknowledged before the call is then in state, if
// state holds everything from before that term. A leader must ask before it
// answers a consistent read: one that was stopped, or whose followers were asked
// for votes early, does not know that it was replaced.
//
// Raft's own VerifyLeader is not enough: it also counts answers to heartbeats that
// were sent before, which may have waited in the sockets of a stopped process.
//
// Those who ask at the same time share a round; nobody shares one that has begun.
func (r *Raft) Confirm(ctx context.Context) (term uint64, err error) {
	c := r.rounds.join(r.confirm)
	select {
	case <-c.done:
		return c.term, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// rounds lets those who wait for the same thing wait together.
//
//	idle ──join──▶ running ──join──▶ running, next waits ──ended──▶ running
//	  ▲               └──ended─┐
//	  └────────────────────────┘
type rounds struct {
	mu      sync.Mutex
	running bool
	next    *round
}

// round is one round of asking.
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

// run asks as long as somebody waits.
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

// confirm asks every voter whether it knows of a later term, until a majority of
// them answered that it does not.
func (r *Raft) confirm() (uint64, error) {
	term, leads := r.Term()
	if !leads {
		return 0, nomad.ErrNoLeader
	}
	servers, err := r.Servers()
	if err != nil {
		return 0, err
	}
	voters := slices.DeleteFunc(slices.Clone(servers), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
	others := slices.DeleteFunc(slices.Clone(voters), func(s raft.Server) bool { return s.ID == raft.ServerID(r.id) })
	return term, r.poll(term, others, len(voters), len(voters)-len(others))
}

// answer is what one server said; err is nil when it knows of no later term.
type answer struct {
	from raft.Server
	err  error
}

// poll asks the other voters; those that can't be reached are asked again.
func (r *Raft) poll(term uint64, toAsk []raft.Server, voters, agreed int) error {
	answers := make(chan answer, voters)
	late, again := time.NewTimer(confirmWithin), time.NewTicker(askPause)
	defer late.Stop()
	defer again.Stop()
	for agreed <= voters/2 {
		toAsk = slices.DeleteFunc(toAsk, func(s raft.Server) bool {
			asks := r.asked.mayAsk(s.ID, time.Now())
			if asks {
				go func() { answers <- answer{s, r.beat(s, term)} }()
			}
			return asks
		})
		select {
		case a := <-answers:
			switch {
			case a.err == nil:
				agreed++
				continue
			case errors.Is(a.err, nomad.ErrNoLeader):
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

// beat sends the heartbeat of a term to a server. ErrNoLeader: it knows a later one.
func (r *Raft) beat(to raft.Server, term uint64) error {
	self := r.trans.LocalAddr()
	addr := r.trans.EncodePeer(raft.ServerID(r.id), self)
	req := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: protocol, ID: []byte(r.id), Addr: addr},
		Term: term}
	var resp raft.AppendEntriesResponse
	err := r.trans.AppendEntries(to.ID, to.Address, req, &resp)
	r.asked.answered(to.ID)
	switch {
	case err != nil:
		return err
	case resp.Term > term:
		return nomad.ErrNoLeader
	case !resp.Success:
		return ErrUnconfirmed
	}
	return nil
}

// asked counts the heartbeats that were not answered yet: a server that hangs must
// not gather waiting goroutines.
type asked struct {
	mu   sync.Mutex
	open map[raft.ServerID]*unanswered
}

// unanswered are the heartbeats that a server has not answered.
type unanswered struct {
	count int
	last  time.Time
}

// mayAsk says whether a server is to be asked now, and notes it.
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

// answered notes that a server answered, or can't be reached.
func (a *asked) answered(id raft.ServerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.open[id]; u.count > 1 {
		u.count--
	} else {
		delete(a.open, id)
	}
}
