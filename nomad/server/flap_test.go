package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// flaps is the number of leadership changes, which are faster than establishing leadership.
const flaps = 15

// Leadership changes often under load. No term hangs. Every server accepts writes afterwards,
// and no acknowledged write is lost.
func TestLeadership_Flaps(t *testing.T) {
	all := servertest.Cluster(t, 3, func(c *server.Config) { c.Workers = 2 })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		writers sync.WaitGroup
		acked   sync.Map
		count   atomic.Int64
	)
	for w, m := range all {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil && i < 1000; {
				id := fmt.Sprintf("w%d-%d", w, i)
				req := &message.JobRegisterRequest{Job: servertest.BatchJob(id, 0), WriteRequest: message.WriteRequest{Region: "global"}}
				if err := m.Call(ctx, "Job.Register", req, &message.JobRegisterResponse{}); err != nil {
					<-time.After(time.Millisecond) // the leader is about to change
					continue
				}
				acked.Store(id, true)
				count.Add(1)
				i++
			}
		})
	}
	for i := range flaps {
		to := all[i%3].Self().Tags["id"]
		req := &message.RaftPeerRequest{RaftIDAddress: message.RaftIDAddress{ID: to}, WriteRequest: message.WriteRequest{Region: "global"}}
		short, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := all[(i+1)%3].Call(short, "Operator.TransferLeadershipToPeer", req, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("transfer %d hangs", i)
		}
	}
	servertest.Eventually(t, func() bool { return count.Load() >= flaps })
	stop()
	writers.Wait()
	servertest.WaitVoters(t, all, 3)
	for i, m := range all {
		servertest.Register(t, m.Server, servertest.BatchJob(fmt.Sprintf("after-%d", i), 0))
	}
	acked.Range(func(id, _ any) bool {
		if got := servertest.Read[message.SingleJobResponse](t, all[0].Server, "Job.GetJob", servertest.JobRequest(id.(string))); got.Job == nil {
			t.Errorf("job %s was acknowledged but is lost", id)
		}
		return true
	})
}
