package consensus

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/wake"
)

// answerBuffer is how many answers of a follower wait for raft to read them.
const answerBuffer = 128

// transport is raft's network transport. Its pipelines are of type pipeline.
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

// commits is the commit index, and the pipelines that send it to the followers. A server has
// pipelines while it leads.
type commits struct {
	index atomic.Uint64

	mu    sync.Mutex
	pipes map[*pipeline]bool
}

// advance sets the commit index and wakes the pipelines.
func (c *commits) advance(index uint64) {
	c.index.Store(index)
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pipes {
		p.wake.Send()
	}
}

// add registers a pipeline until remove.
func (c *commits) add(p *pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pipes == nil {
		c.pipes = map[*pipeline]bool{}
	}
	c.pipes[p] = true
}

func (c *commits) remove(p *pipeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pipes, p)
}

// pipeline is raft's pipeline to one follower, with two additions.
//
// It reads all answers. Raft stops reading at the first refusal, which a follower with a full
// disk sends. An append in progress would then wait for a reader without end. The follower would
// get only heartbeats from this leader.
//
// It sends the commit index at once, as an append without entries. Raft sends it with the next
// entries, or after 50 to 100 ms. Workers and clients that use the follower would wait as long.
// Nothing is sent while another append has no answer. Raft receives the answers to these appends,
// too: they have no entries, so they only confirm the contact.
type pipeline struct {
	raft.AppendPipeline
	commits  *commits
	answers  chan raft.AppendFuture // for raft
	wake     wake.Signal            // buffered 1: the commit index or inFlight has changed
	inFlight atomic.Int64           // appends without an answer
	once     sync.Once
	closed   chan struct{}

	mu   sync.Mutex                // one append at a time
	last raft.AppendEntriesRequest // state of the follower after all appends: last entry, commit index
}

// newPipeline starts the two goroutines of a pipeline. Close ends them.
func newPipeline(p raft.AppendPipeline, c *commits) *pipeline {
	out := &pipeline{AppendPipeline: p, commits: c, answers: make(chan raft.AppendFuture, answerBuffer),
		wake: wake.New(), closed: make(chan struct{})}
	c.add(out)
	go out.forward()
	go out.sendCommits()
	return out
}

// forward passes the answers to raft.
func (p *pipeline) forward() {
	for {
		select {
		case <-p.closed:
			return
		case answer := <-p.AppendPipeline.Consumer():
			p.inFlight.Add(-1)
			p.wake.Send()
			select {
			case p.answers <- answer:
			case <-p.closed:
				return
			}
		}
	}
}

// sendCommits sends each new commit index.
func (p *pipeline) sendCommits() {
	for {
		select {
		case <-p.closed:
			return
		case <-p.wake:
		}
		p.mu.Lock()
		if req := p.newCommit(); req != nil {
			p.append(req, new(raft.AppendEntriesResponse)) //nolint:errcheck // raft's next append fails as well
		}
		p.mu.Unlock()
	}
}

// newCommit returns an append that carries the commit index. It returns nil when the follower
// has the index, and while an append has no answer. p.mu is held.
func (p *pipeline) newCommit() *raft.AppendEntriesRequest {
	if p.inFlight.Load() > 0 {
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

// append sends one append and records the state of the follower after it. p.mu is held.
func (p *pipeline) append(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.inFlight.Add(1)
	f, err := p.AppendPipeline.AppendEntries(req, resp)
	if err != nil {
		p.inFlight.Add(-1)
		return nil, err
	}
	p.last = *req
	if n := len(req.Entries); n > 0 {
		p.last.PrevLogEntry, p.last.PrevLogTerm, p.last.Entries = req.Entries[n-1].Index, req.Entries[n-1].Term, nil
	}
	return f, nil
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() {
		p.commits.remove(p)
		close(p.closed)
	})
	return p.AppendPipeline.Close()
}
