package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// drained is how many answers of a follower wait to be read.
const drained = 128

// transport is raft's transport with pipelines that are always drained. A leader stops
// reading the answers of a pipeline at the first refusal, which a follower with a full
// disk sends; an append that was just being sent would wait for a reader for ever then,
// and the follower would hear nothing from this leader again but heartbeats.
type transport struct{ *raft.NetworkTransport }

// AppendEntriesPipeline implements raft.Transport.
func (t transport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, addr)
	if err != nil {
		return nil, err
	}
	return drain(p), nil
}

// drainedPipeline reads the answers of a pipeline as they come.
type drainedPipeline struct {
	raft.AppendPipeline
	out    chan raft.AppendFuture
	once   sync.Once
	closed chan struct{}
}

// drain reads from p until it is closed.
func drain(p raft.AppendPipeline) *drainedPipeline {
	d := &drainedPipeline{AppendPipeline: p, out: make(chan raft.AppendFuture, drained), closed: make(chan struct{})}
	go d.forward()
	return d
}

func (d *drainedPipeline) forward() {
	for {
		select {
		case <-d.closed:
			return
		case answer := <-d.AppendPipeline.Consumer():
			select {
			case d.out <- answer:
			case <-d.closed:
				return
			}
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (d *drainedPipeline) Consumer() <-chan raft.AppendFuture { return d.out }

// Close implements raft.AppendPipeline.
func (d *drainedPipeline) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.AppendPipeline.Close()
}
