package allocrunner_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// talker is a driver that sends an event of each task a second after its start.
type talker struct {
	drivers.Driver
	event   drivers.TaskEvent
	started chan string // buffered 1
}

func (d *talker) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	d.started <- cfg.ID
	return d.Driver.StartTask(ctx, cfg)
}

func (d *talker) Report(ctx context.Context, report func(*drivers.TaskEvent)) error {
	report(&drivers.TaskEvent{TaskID: "nobody's", Kill: true})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case id := <-d.started:
			time.Sleep(time.Second)
			e := d.event
			e.TaskID = id
			report(&e)
		}
	}
}

// A driver's event becomes a task event. With Kill set, it ends the task.
func TestDriverEvents(t *testing.T) {
	for _, tc := range []struct {
		name   string
		event  drivers.TaskEvent
		status string
		took   time.Duration
	}{
		{"denial", drivers.TaskEvent{Type: nomad.TaskSandboxDenial, Message: "refused", Details: map[string]string{"unveil": "[]"}},
			nomad.AllocClientStatusComplete, 9 * time.Second},
		{"mismatch", drivers.TaskEvent{Type: nomad.TaskSandboxMismatch, Message: "not as declared", Kill: true},
			nomad.AllocClientStatusFailed, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				log := slog.New(slog.DiscardHandler)
				set, err := driverset.New(driverset.Config{Log: log, Drivers: []drivers.Driver{
					&talker{Driver: mock.New(mock.Name, log), event: tc.event, started: make(chan string, 1)}}})
				if err != nil {
					t.Fatal(err)
				}
				w.set = set
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- set.Run(ctx) }()
				start := time.Now()
				got := w.run(allocation(nomad.JobTypeBatch, mockTask("main", map[string]any{"run_for": "9s", "kill_after": "0s"})))
				if took := time.Since(start); got.ClientStatus != tc.status || took < tc.took || took > tc.took+2*time.Second {
					t.Errorf("status %s after %v, want %s after %v", got.ClientStatus, took, tc.status, tc.took)
				}
				var found *nomad.TaskEvent
				for _, e := range got.TaskStates["main"].Events {
					if e.Type == tc.event.Type {
						found = e
					}
				}
				if found == nil || found.DisplayMessage != tc.event.Message || found.Details["unveil"] != tc.event.Details["unveil"] {
					t.Errorf("events are %+v, want the driver's", found)
				}
				cancel()
				<-ended
			})
		})
	}
}
