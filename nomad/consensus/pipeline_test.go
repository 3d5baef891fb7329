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
	return appended{req: req}, nil
}
func (p *pipe) Consumer() <-chan raft.AppendFuture { return p.answers }
func (p *pipe) Close() error                       { return nil }

// appendRequest is an append that raft sends.
type appendRequest = raft.AppendEntriesRequest

// appended is the answer to an append.
type appended struct {
	raft.AppendFuture
	req *raft.AppendEntriesRequest
}

func (a appended) Request() *raft.AppendEntriesRequest { return a.req }

// appendOf is an append of entries that raft, or this package, sends. None is 0.
func appendOf(committed, first, last uint64) *raft.AppendEntriesRequest {
	req := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: first - 1, PrevLogTerm: 2, LeaderCommitIndex: committed}
	for i := first; i <= last; i++ {
		req.Entries = append(req.Entries, &raft.Log{Index: i, Term: 3})
	}
	return req
}

func newPipe() *pipe {
	return &pipe{answers: make(chan raft.AppendFuture), sent: make(chan *raft.AppendEntriesRequest, 10)}
}

// Answers that nobody reads do not stop a pipeline; closing it ends the reading.
func TestPipelineIsDrained(t *testing.T) {
	raw := newPipe()
	p := newPipeline(raw, &followers{})
	for n := range drained {
		select {
		case raw.answers <- appended{req: &raft.AppendEntriesRequest{}}:
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
		raw, all := newPipe(), &followers{}
		p := newPipeline(raw, all)
		appends := func(committed, first, last uint64) {
			t.Helper()
			req := appendOf(committed, first, last)
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
				raw.answers <- appended{req: &raft.AppendEntriesRequest{}}
			default:
				t.Errorf("the follower was not told of commit %d", index)
			}
		}
		all.reached(4)
		quiet("before raft has sent anything")
		appends(4, 5, 7)
		all.reached(6)
		quiet("while an append is on its way")
		raw.answers <- appended{req: &raft.AppendEntriesRequest{}}
		told(6, 7, 3)
		all.reached(6)
		quiet("of what is known")
		all.reached(9)
		told(7, 7, 3) // it has no more
		appends(9, 8, 9)
		raw.answers <- appended{req: &raft.AppendEntriesRequest{}}
		quiet("of what came with the entries")
		appends(9, 10, 10)
		raw.answers <- appended{req: &raft.AppendEntriesRequest{}}
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

// Entries that are being written are sent to a follower that has all before them, once; raft
// is given the answer when it sends them itself.
func TestPipelineSendsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw, all := newPipe(), &followers{}
		p := newPipeline(raw, all)
		defer p.Close()
		none := func(when string) {
			t.Helper()
			if synctest.Wait(); len(raw.sent) > 0 {
				t.Fatalf("%s the follower is sent %+v", when, <-raw.sent)
			}
		}
		raft := func(req *raft.AppendEntriesRequest) {
			t.Helper()
			if _, err := p.AppendEntries(req, nil); err != nil {
				t.Fatal(err)
			}
		}
		sent := func(first, last, before, term uint64) {
			t.Helper()
			synctest.Wait()
			select {
			case req := <-raw.sent:
				if req.Term != 3 || req.PrevLogEntry != before || req.PrevLogTerm != term || len(req.Entries) != int(last-first+1) || req.Entries[0].Index != first {
					t.Fatalf("the follower is sent %+v, want the entries %d to %d behind %d of term %d", req, first, last, before, term)
				}
				raw.answers <- appended{req: req}
			default:
				t.Fatalf("the follower is not sent the entries %d to %d", first, last)
			}
		}
		heard := func(n int, what string) {
			t.Helper()
			synctest.Wait()
			if got := len(p.Consumer()); got != n {
				t.Fatalf("raft has %d answers, want %d: %s", got, n, what)
			}
		}
		all.ahead(appendOf(0, 5, 6).Entries)
		none("before it is known what it has")
		raft(appendOf(0, 5, 6))
		sent(5, 6, 4, 2)
		heard(1, "of what raft sent")
		all.ahead(appendOf(0, 7, 9).Entries)
		sent(7, 9, 6, 3)
		heard(1, "of what is not on the leader's disk")
		raft(&appendRequest{Term: 3, PrevLogEntry: 6, PrevLogTerm: 3})
		if synctest.Wait(); len((<-raw.sent).Entries) > 0 {
			t.Fatal("a heartbeat has entries")
		}
		raft(appendOf(0, 7, 9))
		none("of what it was sent ahead")
		heard(2, "of what was sent ahead, when raft sends it")
		all.ahead(appendOf(0, 10, 10).Entries)
		sent(10, 10, 9, 3) // not 6: the heartbeat came later
		raft(appendOf(0, 10, 12))
		sent(11, 12, 10, 3)
		heard(4, "of both parts")
		all.ahead(appendOf(0, 14, 15).Entries)
		none("while entry 13 is missing")
		others := appendOf(0, 13, 14).Entries
		others[0].Term = 4
		all.ahead(others)
		none("of another leader")
	})
}
