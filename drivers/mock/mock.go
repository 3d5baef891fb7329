// Package mock is the driver "mock_driver": tasks that run no process and behave as configured. It is
// for tests of schedulers, clients and restarts.
//
//	StartTask ──▶ running ──run_for, StopTask + kill_after──▶ exited ──DestroyTask──▶ gone
//	    └─start_error──▶ (error)          plugin_exit_after: WaitTask fails once
//
// There is one goroutine per running task and per stream that it prints, ended by its exit or by
// DestroyTask. A handle contains the config and the start time, so a recovered task ends at the
// original time. The driver writes only stdout_string and stderr_string to disk, in log files.
package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind.
const Name = "mock_driver"

// Driver runs mock tasks; it implements drivers.Driver.
type Driver struct {
	name string // of the instance
	log  *slog.Logger

	mu       sync.Mutex
	settings settings
	tasks    map[string]*task
}

// New returns an instance of the driver without tasks.
func New(name string, log *slog.Logger) *Driver {
	return &Driver{name: name, log: log.With("driver", name), tasks: map[string]*task{}}
}

var (
	_ drivers.Driver     = (*Driver)(nil)
	_ drivers.Privileger = (*Driver)(nil)
)

// Name implements drivers.Driver.
func (d *Driver) Name() string { return d.name }

// ConfigSpec implements drivers.Driver.
func (d *Driver) ConfigSpec() hcldec.Spec { return configSpec }

// TaskSpec implements drivers.Driver.
func (d *Driver) TaskSpec() hcldec.Spec { return taskSpec }

// SetConfig implements drivers.Driver.
func (d *Driver) SetConfig(cfg cty.Value) error {
	s, err := decodeSettings(cfg)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settings = s
	return nil
}

// Capabilities implements drivers.Driver.
func (d *Driver) Capabilities() drivers.Capabilities {
	return Kind().Capabilities
}

// Privilege implements drivers.Privileger.
func (d *Driver) Privilege() drivers.Privilege {
	d.mu.Lock()
	defer d.mu.Unlock()
	return drivers.Privilege{Offered: d.settings.privileged, Legacy: d.settings.legacy, Needs: needsPrivilege}
}

// Fingerprint implements drivers.Driver: healthy until shutdown_periodic_after has passed.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	d.mu.Lock()
	s := d.settings
	d.mu.Unlock()
	ch := make(chan drivers.Fingerprint, 1)
	ch <- drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy",
		Attributes: map[string]string{drivers.Attribute(d.name, ""): "1"}}
	go func() {
		defer close(ch)
		if s.periodic {
			select {
			case <-ctx.Done():
				return
			case <-time.After(s.unhealthyAfter):
			}
			select {
			case <-ctx.Done():
				return
			case ch <- drivers.Fingerprint{Health: drivers.HealthUndetected, Description: "shutdown_periodic_after has passed"}:
			}
		}
		<-ctx.Done()
	}()
	return ch
}

// handleState is the driver's part of a task handle.
type handleState struct {
	Backend string // kind of the driver; empty in handles of earlier versions
	Config  options
	Name    string
	Started time.Time
}

// StartTask implements drivers.Driver.
func (d *Driver) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	opts, err := decodeOptions(cfg.Config)
	if err != nil {
		return nil, err
	}
	if opts.StartBlockFor > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(opts.StartBlockFor):
		}
	}
	if opts.StartError != "" {
		err := errors.New(opts.StartError)
		if opts.StartErrorRecoverable {
			return nil, &drivers.RecoverableError{Err: err}
		}
		return nil, err
	}
	state := handleState{Backend: Name, Config: opts, Name: cfg.Name, Started: time.Now()}
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("encode handle of task %s: %w", cfg.ID, err)
	}
	t := newTask(cfg.ID, state)
	d.mu.Lock()
	if _, dup := d.tasks[cfg.ID]; dup {
		d.mu.Unlock()
		return nil, fmt.Errorf("task %s is already started", cfg.ID)
	}
	d.tasks[cfg.ID] = t
	d.mu.Unlock()
	go t.run()
	if !cfg.Log.Disabled {
		t.print(d.log, cfg.LogDir, cfg.Name)
	}
	return &drivers.TaskHandle{Driver: d.name, Version: 1, TaskID: cfg.ID, State: raw}, nil
}

// RecoverTask implements drivers.Driver. The task continues as if the agent had not been restarted.
func (d *Driver) RecoverTask(_ context.Context, h *drivers.TaskHandle) error {
	if len(h.State) == 0 { // the agent ended before it stored the result of StartTask
		_, err := d.task(h.TaskID)
		return err
	}
	var state handleState
	if err := json.Unmarshal(h.State, &state); err != nil {
		return fmt.Errorf("decode handle of task %s: %w", h.TaskID, err)
	}
	if state.Backend != "" && state.Backend != Name {
		return fmt.Errorf("task %s was started by %s with the backend %q, which is now %q: give it the earlier backend", h.TaskID, d.name,
			state.Backend, Name)
	}
	switch state.Config.RecoverError {
	case "":
	case drivers.ErrTaskNotFound.Error():
		return drivers.ErrTaskNotFound
	default:
		return errors.New(state.Config.RecoverError)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.tasks[h.TaskID]; known {
		return nil
	}
	t := newTask(h.TaskID, state)
	d.tasks[h.TaskID] = t
	go t.run()
	return nil
}

func (d *Driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.tasks[id]
	if !ok {
		return nil, drivers.ErrTaskNotFound
	}
	return t, nil
}

// WaitTask implements drivers.Driver.
func (d *Driver) WaitTask(ctx context.Context, id string) (*drivers.ExitResult, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	return t.wait(ctx)
}

// StopTask implements drivers.Driver.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if signal != "" {
		if _, err := drivers.ParseSignal(signal); err != nil {
			return err
		}
	}
	return t.stop(ctx, timeout)
}

// SignalTask implements drivers.Driver.
func (d *Driver) SignalTask(id, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	sig, err := drivers.ParseSignal(signal)
	if err != nil {
		return err
	}
	if t.opts.SignalError != "" {
		return errors.New(t.opts.SignalError)
	}
	d.log.Debug("signal received", "task", id, "signal", int(sig))
	return nil
}

// DestroyTask implements drivers.Driver.
func (d *Driver) DestroyTask(id string, force bool) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if t.status().State == drivers.TaskRunning {
		if !force {
			return errors.New("cannot destroy running task")
		}
		t.kill()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
	return nil
}

// InspectTask implements drivers.Driver.
func (d *Driver) InspectTask(id string) (*drivers.TaskStatus, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	s := t.status()
	return &s, nil
}

// TaskStats implements drivers.Driver. The samples measure only time.
func (d *Driver) TaskStats(ctx context.Context, id string, interval time.Duration) (<-chan *drivers.ResourceUsage, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	if interval <= 0 {
		return nil, fmt.Errorf("stats interval %v is not positive", interval)
	}
	ch := make(chan *drivers.ResourceUsage)
	go func() {
		defer close(ch)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case ch <- &drivers.ResourceUsage{Timestamp: time.Now()}:
			case <-ctx.Done():
				return
			case <-t.done:
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			case <-t.done:
				return
			}
		}
	}()
	return ch, nil
}
