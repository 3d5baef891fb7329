package consensus

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// pipe is a pipeline without a buffer for answers.
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

// TestPipeline_Answers checks that a pipeline reads answers that raft does not read. Close may
// be called twice.
func TestPipeline_Answers(t *testing.T) {
	raw := newPipe()
	p := newPipeline(raw, &commits{})
	for n := range answerBuffer {
		select {
		case raw.answers <- nil:
		case <-time.After(time.Minute):
			t.Fatalf("answer %d was not read", n)
		}
	}
	for range answerBuffer {
		<-p.Consumer()
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPipeline_Commits checks that a follower gets each commit index once, after its answer to
// the last append. An index above its last entry, or sent with entries, is not sent again.
func TestPipeline_Commits(t *testing.T) {
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
				t.Fatalf("AppendEntries() sent another append, or failed: %v", err)
			}
		}
		nothing := func(when string) {
			t.Helper()
			synctest.Wait()
			select {
			case req := <-raw.sent:
				t.Errorf("%s: sent %+v, want nothing", when, req)
			default:
			}
		}
		commit := func(index, last, term uint64) {
			t.Helper()
			synctest.Wait()
			select {
			case req := <-raw.sent:
				if req.LeaderCommitIndex != index || req.PrevLogEntry != last || req.PrevLogTerm != term || req.Term != 3 || len(req.Entries) > 0 {
					t.Errorf("sent %+v, want commit index %d after entry %d of term %d", req, index, last, term)
				}
				raw.answers <- nil
			default:
				t.Errorf("commit index %d was not sent", index)
			}
		}
		all.advance(4)
		nothing("before the first append")
		appends(4, 5, 7)
		all.advance(6)
		nothing("while an append has no answer")
		raw.answers <- nil
		commit(6, 7, 3)
		all.advance(6)
		nothing("index sent before")
		all.advance(9)
		commit(7, 7, 3) // its last entry
		appends(9, 8, 9)
		raw.answers <- nil
		nothing("index sent with entries")
		appends(9, 10, 10)
		raw.answers <- nil
		synctest.Wait()
		raw.broken = true
		all.advance(10)
		nothing("broken connection")
		if p.inFlight.Load() != 0 {
			t.Error("an append that failed counts as in flight")
		}
		p.Close()
		all.advance(11)
		if nothing("after Close"); len(all.pipes) > 0 {
			t.Error("a closed pipeline is still registered")
		}
		if n := len(p.Consumer()); n != 5 {
			t.Errorf("raft has %d answers, want 5", n)
		}
	})
}
