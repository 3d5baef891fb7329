package consensus

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// drained is how many answers of a follower wait to be read.
const drained = 128

// transport is raft's transport with pipelines that are always drained, and that tell
// followers at once what is committed.
type transport struct {
	*raft.NetworkTransport
	commits *commits
}

// AppendEntriesPipeline implements raft.Transport.
func (t transport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	return newPipeline(p, t.commits), nil
}

// commits is how far the log is committed, and the pipelines to the followers of this
// server, while it leads.
type commits struct {
	index atomic.Uint64

	mu    sync.Mutex
	pipes map[*pipeline]bool
}

// reached notes that the log is committed up to index, and has followers be told.
func (c *commits) reached(index uint64) {
	c.index.Store(index)
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pipes {
		p.hurry()
	}
}

// add has p be told of commits, until drop.
func (c *commits) add(p *pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipes == nil {
		c.pipes = map[*pipeline]bool{}
	}
	c.pipes[p] = true
}

func (c *commits) drop(p *pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pipes, p)
}

// pipeline is one of raft's, to one follower, better in two ways.
//
// It reads the answers as they come. A leader stops reading them at the first refusal, which
// a follower with a full disk sends; an append that was just being sent would wait for a reader
// for ever then, and the follower would hear nothing from this leader again but heartbeats.
//
// It tells the follower at once what is committed, by an append without entries. Raft tells
// it with the next entries, or after 50 to 100 ms without any: so long would a worker of the
// follower wait for the evaluation that it was given, and a client that asks the follower
// for its allocations. It does so when nothing else is on its way, and the answer is raft's.
type pipeline struct {
	raft.AppendPipeline
	commits *commits
	out     chan raft.AppendFuture
	news    chan struct{} // buffered 1
	onWay   atomic.Int64  // appends without an answer
	once    sync.Once
	closed  chan struct{}

	mu   sync.Mutex                // one append at a time
	last raft.AppendEntriesRequest // what the follower has and knows when it has taken all, without entries
}

// newPipeline serves p until it is closed.
func newPipeline(p raft.AppendPipeline, c *commits) *pipeline {
	out := &pipeline{AppendPipeline: p, commits: c, out: make(chan raft.AppendFuture, drained), news: make(chan struct{}, 1), closed: make(chan struct{})}
	c.add(out)
	go out.forward()
	go out.tell()
	return out
}

func (p *pipeline) forward() {
	for {
		select {
		case <-p.closed:
			return
		case answer := <-p.AppendPipeline.Consumer():
			p.onWay.Add(-1)
			p.hurry()
			select {
			case p.out <- answer:
			case <-p.closed:
				return
			}
		}
	}
}

// hurry has tell look whether there is anything to tell.
func (p *pipeline) hurry() {
	select {
	case p.news <- struct{}{}:
	default: // it is about to
	}
}

func (p *pipeline) tell() {
	for {
		select {
		case <-p.closed:
			return
		case <-p.news:
		}
		p.mu.Lock()
		if req := p.committed(); req != nil {
			p.append(req, new(raft.AppendEntriesResponse)) //nolint:errcheck // raft's next append fails as well
		}
		p.mu.Unlock()
	}
}

// committed returns an append that tells the follower what it does not know yet to be
// committed, nil when there is no such thing, or no use. p.mu is held.
func (p *pipeline) committed() *raft.AppendEntriesRequest {
	if p.onWay.Load() > 0 {
		return nil
	}
	index := min(p.commits.index.Load(), p.last.PrevLogEntry)
	if index <= p.last.LeaderCommitIndex {
		return nil
	}
	req := p.last
	req.LeaderCommitIndex = index
	return &req
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.append(req, resp)
}

// append sends one append, and remembers what the follower has of it. p.mu is held.
func (p *pipeline) append(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.onWay.Add(1)
	f, err := p.AppendPipeline.AppendEntries(req, resp)
	if err != nil {
		p.onWay.Add(-1)
		return nil, err
	}
	p.last = *req
	if n := len(req.Entries); n > 0 {
		p.last.PrevLogEntry, p.last.PrevLogTerm, p.last.Entries = req.Entries[n-1].Index, req.Entries[n-1].Term, nil
	}
	return f, nil
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.out }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() {
		p.commits.drop(p)
		close(p.closed)
	})
	return p.AppendPipeline.Close()
}
