package consensus

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// pipe is a pipeline that holds no answer, as raft's.
type pipe struct{ answers chan raft.AppendFuture }

func (p pipe) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	return nil, nil
}
func (p pipe) Consumer() <-chan raft.AppendFuture { return p.answers }
func (p pipe) Close() error                       { return nil }

// Answers that nobody reads do not stop a pipeline; closing it ends the reading.
func TestPipelineIsDrained(t *testing.T) {
	p := pipe{make(chan raft.AppendFuture)}
	d := drain(p)
	for n := range drained {
		select {
		case p.answers <- nil:
		case <-time.After(30 * time.Second):
			t.Fatalf("answer %d is not taken", n)
		}
	}
	for range drained {
		<-d.Consumer()
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
