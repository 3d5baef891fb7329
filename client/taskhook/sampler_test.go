package taskhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// One sampler measures every task in each interval, until the task has ended. Then the last sample is cleared.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSampler(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		var hooks []*statsHook
		calls, last := map[int]uint64{}, map[int]*message.TaskResourceUsage{}
		for i := range 3 {
			h := newStatsHook(Config{Deps: Deps{Sampler: s}, Usage: func(u *message.TaskResourceUsage) { last[i] = u }}).(*statsHook)
			req := &TaskPoststartRequest{Meter: func() (func() *drivers.ResourceUsage, error) {
				return func() *drivers.ResourceUsage {
					calls[i]++
					return &drivers.ResourceUsage{Timestamp: time.Now(), MemoryUsage: calls[i]}
				}, nil
			}}
			resp := &TaskPoststartResponse{}
			if err := h.Poststart(ctx, req, resp); err != nil || resp.Background != nil {
				t.Fatalf("Poststart() = %v, with a goroutine of its own: %t", err, resp.Background != nil)
			}
			hooks = append(hooks, h)
		}
		time.Sleep(4*time.Second + time.Millisecond)
		synctest.Wait()
		for i := range hooks {
			if calls[i] != 2 || last[i].ResourceUsage.MemoryStats.Usage != 2 {
				t.Errorf("task %d has %d samples, last %+v; want 2", i, calls[i], last[i])
			}
		}
		if err := hooks[0].Exited(ctx, nil, nil); err != nil {
			t.Error(err)
		}
		if err := hooks[1].Stop(ctx, nil, nil); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if calls[0] != 2 || calls[1] != 2 || calls[2] != 3 || last[0] != nil {
			t.Errorf("samples after the end of two tasks: %v, that of the first is %v; want 2, 2, 3 and none", calls, last[0])
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Run() = %v", err)
		}
	})
}
