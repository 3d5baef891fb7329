package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// TaskStats implements drivers.Driver. It continues with the next process of the program.
func (d *Driver) TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *drivers.ResourceUsage, error) {
	if interval <= 0 {
		return nil, fmt.Errorf("stats interval %v is not positive", interval)
	}
	if !d.has(id) {
		return nil, drivers.ErrTaskNotFound
	}
	ch := make(chan *drivers.ResourceUsage)
	go func() {
		defer close(ch)
		for d.has(id) {
			p, err := d.live(ctx)
			if err != nil {
				return
			}
			err = p.sample(ctx, id, interval, ch)
			if !errors.Is(err, drivers.ErrNotRunning) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(interval):
			}
		}
	}()
	return ch, nil
}

// sample passes on the samples of a task until their stream ends.
func (p *process) sample(ctx context.Context, id string, interval time.Duration, ch chan<- *drivers.ResourceUsage) error {
	stream, err := p.driver.TaskStats(ctx, &proto.TaskStatsRequest{TaskId: id, CollectionInterval: wire.EncodeDuration(interval)})
	for err == nil {
		var m *proto.TaskStatsResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ch <- wire.DecodeStats(m.GetStats()):
		}
	}
	return wire.DecodeError(err)
}
