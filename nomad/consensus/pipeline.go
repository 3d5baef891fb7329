package consensus

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// drained is how many answers of a follower wait to be read.
const drained = 128

// transport is raft's transport with pipelines of our own: see pipeline.
type transport struct {
	*raft.NetworkTransport
	followers *followers
}

// AppendEntriesPipeline implements raft.Transport.
func (t transport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	return newPipeline(p, t.followers), nil
}

// followers are the pipelines of this server while it leads, and how far the log is
// committed.
type followers struct {
	committed atomic.Uint64

	mu    sync.Mutex
	pipes map[*pipeline]bool
}

// reached notes that the log is committed up to index, and has followers be told.
func (f *followers) reached(index uint64) {
	f.committed.Store(index)
	f.each((*pipeline).hurry)
}

// ahead has followers be sent entries that are being written to the disk of this server.
func (f *followers) ahead(entries []*raft.Log) {
	f.each(func(p *pipeline) {
		p.ahead.Store(&entries)
		p.hurry()
	})
}

func (f *followers) each(do func(*pipeline)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.pipes {
		do(p)
	}
}

// add has p be told of all that comes, until drop.
func (f *followers) add(p *pipeline) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pipes == nil {
		f.pipes = map[*pipeline]bool{}
	}
	f.pipes[p] = true
}

func (f *followers) drop(p *pipeline) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pipes, p)
}

// pipeline is one of raft's, to one follower, better in three ways.
//
// It reads the answers as they come. A leader stops reading them at the first refusal, which
// a follower with a full disk sends; an append that was just being sent would wait for a reader
// for ever then, and the follower would hear nothing from this leader again but heartbeats.
//
// It sends entries while they are written to the leader's disk, so that the follower writes
// them at the same time. Raft sends them when they are there, and a command would wait for two
// disks, one after the other. A leader may do that (Ongaro, Consensus: Bridging Theory and
// Practice, section 10.2.1): they are counted as its own when they are on its disk, and the
// entries of an index and a term are the same wherever they are. Raft is not told: when it
// sends them itself, it gets the answer to what was sent ahead, not before.
//
//	             ┌──ahead──▶ sent by tell ──answered──▶ held ──┐
//	entries ─────┤                                              ├─▶ raft has the answer
//	             └──on the disk──▶ sent by raft ────claimed─────┘
//
// It tells the follower at once what is committed, by an append without entries. Raft tells
// it with the next entries, or after 50 to 100 ms without any: so long would a worker of the
// follower wait for the evaluation that it was given, and a client that asks the follower
// for its allocations. It does so when nothing else is on its way, and the answer is raft's.
type pipeline struct {
	raft.AppendPipeline
	followers *followers
	out       chan raft.AppendFuture
	news      chan struct{}               // buffered 1: for tell
	claims    chan struct{}               // buffered 1: for forward
	ahead     atomic.Pointer[[]*raft.Log] // what tell is to send
	claimed   atomic.Uint64               // the last entry that raft has sent itself
	onWay     atomic.Int64                // appends without an answer
	once      sync.Once
	closed    chan struct{}

	mu   sync.Mutex                // one append at a time
	last raft.AppendEntriesRequest // what the follower has and knows when it has taken all, without entries
	sent raft.AppendFuture         // the last one
}

// newPipeline serves p until it is closed.
func newPipeline(p raft.AppendPipeline, f *followers) *pipeline {
	out := &pipeline{AppendPipeline: p, followers: f, out: make(chan raft.AppendFuture, drained),
		news: make(chan struct{}, 1), claims: make(chan struct{}, 1), closed: make(chan struct{})}
	f.add(out)
	go out.forward()
	go out.tell()
	return out
}

// forward gives raft the answers, in their order.
func (p *pipeline) forward() {
	var held []raft.AppendFuture
	for {
		select {
		case <-p.closed:
			return
		case answer := <-p.AppendPipeline.Consumer():
			p.onWay.Add(-1)
			p.hurry()
			held = append(held, answer)
		case <-p.claims:
		}
		for ; len(held) > 0 && lastOf(held[0].Request()) <= p.claimed.Load(); held = held[1:] {
			select {
			case p.out <- held[0]:
			case <-p.closed:
				return
			}
		}
	}
}

// lastOf is the last entry of an append, 0 when it has none.
func lastOf(req *raft.AppendEntriesRequest) uint64 {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index
	}
	return 0
}

// hurry has tell look whether there is anything to tell.
func (p *pipeline) hurry() { wake(p.news) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is about to
	}
}

// tell sends what raft has not sent.
func (p *pipeline) tell() {
	for {
		select {
		case <-p.closed:
			return
		case <-p.news:
		}
		p.mu.Lock()
		for _, next := range []func() *raft.AppendEntriesRequest{p.early, p.committed} {
			if req := next(); req != nil {
				p.append(req, new(raft.AppendEntriesResponse)) //nolint:errcheck // raft's next append fails as well
			}
		}
		p.mu.Unlock()
	}
}

// early returns an append of the entries that are being written, nil when there are none
// or when they are not the next of this leader that the follower lacks. p.mu is held.
func (p *pipeline) early() *raft.AppendEntriesRequest {
	entries := p.ahead.Swap(nil)
	if entries == nil || (*entries)[0].Term != p.last.Term || (*entries)[0].Index != p.last.PrevLogEntry+1 {
		return nil
	}
	req := p.last
	req.LeaderCommitIndex = max(req.LeaderCommitIndex, min(p.followers.committed.Load(), req.PrevLogEntry))
	req.Entries = *entries
	return &req
}

// committed returns an append that tells the follower what it does not know yet to be
// committed, nil when there is no such thing, or no use. p.mu is held.
func (p *pipeline) committed() *raft.AppendEntriesRequest {
	if p.onWay.Load() > 0 {
		return nil
	}
	index := min(p.followers.committed.Load(), p.last.PrevLogEntry)
	if index <= p.last.LeaderCommitIndex {
		return nil
	}
	req := p.last
	req.LeaderCommitIndex = index
	return &req
}

// AppendEntries implements raft.AppendPipeline. Of entries that were sent ahead only those
// behind them are sent.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := lastOf(req); last > 0 {
		p.claimed.Store(last)
		wake(p.claims)
		if last <= p.last.PrevLogEntry {
			p.hurry()
			return p.sent, nil
		}
		req = p.rest(req)
	}
	return p.append(req, resp)
}

// rest is an append without the entries that were sent ahead. p.mu is held.
func (p *pipeline) rest(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	if req.Entries[0].Index > p.last.PrevLogEntry {
		return req
	}
	out := *req
	out.PrevLogEntry, out.PrevLogTerm = p.last.PrevLogEntry, p.last.PrevLogTerm
	out.Entries = req.Entries[p.last.PrevLogEntry+1-req.Entries[0].Index:]
	return &out
}

// append sends one append, and remembers what the follower has of it. p.mu is held.
func (p *pipeline) append(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.onWay.Add(1)
	f, err := p.AppendPipeline.AppendEntries(req, resp)
	if err != nil {
		p.onWay.Add(-1)
		return nil, err
	}
	has, term := max(req.PrevLogEntry, p.last.PrevLogEntry), p.last.PrevLogTerm
	if req.PrevLogEntry == has {
		term = req.PrevLogTerm
	}
	if n := len(req.Entries); n > 0 {
		has, term = req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	p.last, p.sent = *req, f
	p.last.PrevLogEntry, p.last.PrevLogTerm, p.last.Entries = has, term, nil
	return f, nil
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() {
		p.followers.drop(p)
		close(p.closed)
	})
	return p.AppendPipeline.Close()
}
