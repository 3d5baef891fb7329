package consensus

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// pipe is a pipeline that holds no answer, as raft's.
type pipe struct {
	answers chan raft.AppendFuture
	sent    chan *raft.AppendEntriesRequest
	broken  bool
}

func (p *pipe) AppendEntries(req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.broken {
		return nil, errors.New("broken")
	}
	p.sent <- req
	return nil, nil
}
func (p *pipe) Consumer() <-chan raft.AppendFuture { return p.answers }
func (p *pipe) Close() error                       { return nil }

func newPipe() *pipe {
	return &pipe{answers: make(chan raft.AppendFuture), sent: make(chan *raft.AppendEntriesRequest, 10)}
}

// Answers that nobody reads do not stop a pipeline; closing it ends the reading.
func TestPipelineIsDrained(t *testing.T) {
	raw := newPipe()
	p := newPipeline(raw, &commits{})
	for n := range drained {
		select {
		case raw.answers <- nil:
		case <-time.After(time.Minute):
			t.Fatalf("answer %d is not taken", n)
		}
	}
	for range drained {
		<-p.Consumer()
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A follower is told what is committed of what it has, when it has answered; once, and not
// what it was told with entries.
func TestPipelineTellsOfCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw, all := newPipe(), &commits{}
		p := newPipeline(raw, all)
		appends := func(committed, first, last uint64) {
			t.Helper()
			req := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: first - 1, PrevLogTerm: 2, LeaderCommitIndex: committed}
			for i := first; i <= last; i++ {
				req.Entries = append(req.Entries, &raft.Log{Index: i, Term: 3})
			}
			if _, err := p.AppendEntries(req, nil); err != nil || <-raw.sent != req {
				t.Fatalf("raft's own append is not what was sent: %v", err)
			}
		}
		quiet := func(when string) {
			t.Helper()
			synctest.Wait()
			select {
			case req := <-raw.sent:
				t.Errorf("%s came %+v", when, req)
			default:
			}
		}
		told := func(index, of, term uint64) {
			t.Helper()
			synctest.Wait()
			select {
			case req := <-raw.sent:
				if req.LeaderCommitIndex != index || req.PrevLogEntry != of || req.PrevLogTerm != term || req.Term != 3 || len(req.Entries) > 0 {
					t.Errorf("the follower was told %+v, want commit %d of %d, of term %d", req, index, of, term)
				}
				raw.answers <- nil
			default:
				t.Errorf("the follower was not told of commit %d", index)
			}
		}
		all.reached(4)
		quiet("before raft has sent anything")
		appends(4, 5, 7)
		all.reached(6)
		quiet("while an append is on its way")
		raw.answers <- nil
		told(6, 7, 3)
		all.reached(6)
		quiet("of what is known")
		all.reached(9)
		told(7, 7, 3) // it has no more
		appends(9, 8, 9)
		raw.answers <- nil
		quiet("of what came with the entries")
		appends(9, 10, 10)
		raw.answers <- nil
		synctest.Wait()
		raw.broken = true
		all.reached(10)
		quiet("over a broken pipeline")
		if p.onWay.Load() != 0 {
			t.Error("an append that was not sent is waited for")
		}
		p.Close()
		all.reached(11)
		if quiet("after the end"); len(all.pipes) > 0 {
			t.Error("a closed pipeline is told of commits")
		}
		if n := len(p.Consumer()); n != 5 {
			t.Errorf("raft gets %d answers, want all 5", n)
		}
	})
}
