package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Limits of calls about a task's life.
const (
	startPatience   = time.Hour // a start may download an image
	logPatience     = 30 * time.Second
	stopPatience    = time.Minute // in addition to the kill timeout
	recoverPatience = time.Minute // after which a task that the driver does not recover is given up
	waitAgain       = time.Second
)

// StartTask implements drivers.Driver.
func (d *Driver) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if len(cfg.Files) > 0 {
		return nil, fmt.Errorf("driver %s: the client cannot mount files for an external driver", d.name)
	}
	given := *cfg
	if err := d.collect(ctx, &given); err != nil {
		return nil, &drivers.RecoverableError{Err: err}
	}
	d.remember(cfg.ID, nil) // its first events may come before the answer
	handle, err := d.startTask(ctx, &given)
	if err != nil {
		d.forget(cfg.ID)
		if errors.Is(err, drivers.ErrNotRunning) {
			err = &drivers.RecoverableError{Err: err}
		}
		return nil, err
	}
	return handle, nil
}

func (d *Driver) startTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	m, err := wire.EncodeTask(cfg)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, 2*d.cfg.Patience)
	defer cancel()
	p, err := d.live(waiting)
	if err != nil {
		return nil, err
	}
	resp, err := p.driver.StartTask(ctx, &proto.StartTaskRequest{Task: m})
	if err != nil {
		return nil, p.explainTask(wire.DecodeError(err))
	}
	switch resp.GetResult() {
	case proto.StartTaskResponse_SUCCESS:
	case proto.StartTaskResponse_RETRY:
		return nil, &drivers.RecoverableError{Err: errors.New(wire.Clip(resp.GetDriverErrorMsg()))}
	default:
		return nil, errors.New(wire.Clip(resp.GetDriverErrorMsg()))
	}
	h := resp.GetHandle()
	if h == nil {
		return nil, fmt.Errorf("driver %s started the task and returned no handle", d.name)
	}
	if h.GetConfig().GetId() == "" {
		h.Config = m
	}
	state, err := protobuf.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the handle of task %s: %w", cfg.ID, err)
	}
	d.remember(cfg.ID, h)
	return &drivers.TaskHandle{Driver: d.name, Version: int(h.GetVersion()), TaskID: cfg.ID, State: state,
		Network: wire.DecodeNetwork(resp.GetNetworkOverride())}, nil
}

// explainTask names the end of the process as the reason of an error.
func (p *process) explainTask(err error) error {
	if errors.Is(err, drivers.ErrNotRunning) {
		return fmt.Errorf("%w: %w", drivers.ErrNotRunning, p.explain(err))
	}
	return err
}

func (d *Driver) remember(id string, h *proto.TaskHandle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id] = h
	delete(d.doubt, id)
}

func (d *Driver) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.tasks[id]
	return ok
}

// collect has the output of a task collected, and sets its FIFOs.
func (d *Driver) collect(ctx context.Context, cfg *drivers.TaskConfig) error {
	if cfg.Stdout != "" || cfg.Stderr != "" {
		return nil
	}
	if cfg.Log.Disabled || cfg.LogDir == "" {
		cfg.Stdout, cfg.Stderr = "/dev/null", "/dev/null"
		return nil
	}
	dir, err := filepath.Rel(cfg.AllocDir, cfg.LogDir)
	if err != nil || !filepath.IsLocal(dir) {
		return fmt.Errorf("log directory %s is not inside the allocation's directory", cfg.LogDir)
	}
	ctx, cancel := context.WithTimeout(ctx, logPatience)
	defer cancel()
	cfg.Stdout, cfg.Stderr, err = d.logs.Collect(ctx, cfg.ID, proc.Logs{Root: cfg.AllocDir, Dir: dir, Name: cfg.Name,
		MaxFiles: max(cfg.Log.MaxFiles, 1), MaxBytes: int64(max(cfg.Log.MaxFileSizeMB, 1)) << 20})
	return err
}

// endLogs ends the collection of a task's output, when everything written is in the log files.
func (d *Driver) endLogs(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	if _, err := d.logs.Kill(ctx, id); err != nil && !errors.Is(err, proc.ErrUnknownTask) {
		d.log.Warn("end the collection of logs", "task", id, "err", err)
	}
}

// forget drops a task.
func (d *Driver) forget(id string) {
	d.endLogs(id)
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	if err := d.logs.Forget(ctx, id); err != nil {
		d.log.Warn("drop the collection of logs", "task", id, "err", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
	delete(d.doubt, id)
}

// RecoverTask implements drivers.Driver. Drivers report a task that no longer exists by any error. So
// one that the driver does not recover for a while is destroyed and given up, as in Nomad.
func (d *Driver) RecoverTask(ctx context.Context, h *drivers.TaskHandle) error {
	if h.Driver != d.name {
		return fmt.Errorf("handle of task %s is of driver %s, not %s", h.TaskID, h.Driver, d.name)
	}
	if len(h.State) == 0 { // the agent ended before the driver answered, and the program with it
		d.forget(h.TaskID)
		return drivers.ErrTaskNotFound
	}
	if d.has(h.TaskID) {
		return nil
	}
	state := &proto.TaskHandle{}
	if err := protobuf.Unmarshal(h.State, state); err != nil {
		return fmt.Errorf("decode the handle of task %s: %w", h.TaskID, err)
	}
	waiting, cancel := context.WithTimeout(ctx, 2*d.cfg.Patience)
	defer cancel()
	p, err := d.live(waiting)
	if err != nil {
		return err
	}
	err = d.recoverTask(ctx, p, state)
	switch {
	case err == nil:
		d.remember(h.TaskID, state)
		return nil
	case errors.Is(err, drivers.ErrNotRunning), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, drivers.ErrTaskNotFound):
	case !d.giveUp(h.TaskID):
		return err
	default:
		d.log.Error("a task that the driver does not recover is given up", "task", h.TaskID, "err", err)
		if _, derr := p.driver.DestroyTask(ctx, &proto.DestroyTaskRequest{TaskId: h.TaskID, Force: true}); derr != nil {
			d.log.Warn("destroy a task that was not recovered", "task", h.TaskID, "err", wire.DecodeError(derr))
		}
	}
	d.forget(h.TaskID)
	return drivers.ErrTaskNotFound
}

// giveUp reports whether a task could not be recovered for too long.
func (d *Driver) giveUp(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first, ok := d.doubt[id]
	if !ok {
		d.doubt[id] = time.Now()
		return false
	}
	return time.Since(first) > recoverPatience
}

func (d *Driver) recoverTask(ctx context.Context, p *process, h *proto.TaskHandle) error {
	ctx, cancel := context.WithTimeout(ctx, 2*d.cfg.Patience)
	defer cancel()
	_, err := p.driver.RecoverTask(ctx, &proto.RecoverTaskRequest{TaskId: h.GetConfig().GetId(), Handle: h})
	return wire.DecodeError(err)
}

// shutText is part of the error of a call that a shutdown of the program ended.
const shutText = "plugin is shut down"

// WaitTask implements drivers.Driver. It continues with the next process of the program.
func (d *Driver) WaitTask(ctx context.Context, id string) (*drivers.ExitResult, error) {
	for {
		p, err := d.live(ctx)
		if err != nil {
			return nil, err
		}
		exit, err := d.wait(ctx, p, id)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			d.endLogs(id)
			return exit, nil
		case !errors.Is(err, drivers.ErrNotRunning) && !p.over():
			return nil, err
		}
		select { // the process may still be about to end
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.runner.ended:
		case <-time.After(waitAgain):
		}
	}
}

func (d *Driver) wait(ctx context.Context, p *process, id string) (*drivers.ExitResult, error) {
	resp, err := p.driver.WaitTask(ctx, &proto.WaitTaskRequest{TaskId: id})
	if err != nil {
		return nil, wire.DecodeError(err)
	}
	if strings.Contains(resp.GetErr(), shutText) {
		return nil, drivers.ErrNotRunning
	}
	exit := wire.DecodeExit(resp.GetResult())
	if exit == nil {
		exit = &drivers.ExitResult{ExitCode: -1}
		if resp.GetErr() == "" {
			return nil, fmt.Errorf("driver %s reported the end of the task without a result", d.name)
		}
	}
	if text := resp.GetErr(); text != "" {
		exit.Err = errors.New(wire.Clip(text))
	}
	return exit, nil
}

// StopTask implements drivers.Driver.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout+stopPatience)
	defer cancel()
	p, err := d.live(ctx)
	if err != nil {
		return err
	}
	_, err = p.driver.StopTask(ctx, &proto.StopTaskRequest{TaskId: id, Timeout: wire.EncodeDuration(timeout), Signal: signal})
	return wire.DecodeError(err)
}

// SignalTask implements drivers.Driver. The client checks the name, since drivers do not agree on
// unknown ones.
func (d *Driver) SignalTask(id, signal string) error {
	if _, err := drivers.ParseSignal(signal); err != nil {
		return err
	}
	return d.brief(context.Background(), func(ctx context.Context, p *process) error {
		_, err := p.driver.SignalTask(ctx, &proto.SignalTaskRequest{TaskId: id, Signal: signal})
		return err
	})
}

// DestroyTask implements drivers.Driver.
func (d *Driver) DestroyTask(id string, force bool) error {
	err := d.brief(context.Background(), func(ctx context.Context, p *process) error {
		_, err := p.driver.DestroyTask(ctx, &proto.DestroyTaskRequest{TaskId: id, Force: force})
		return err
	})
	if err == nil || errors.Is(err, drivers.ErrTaskNotFound) {
		d.forget(id)
	}
	return err
}

// InspectTask implements drivers.Driver.
func (d *Driver) InspectTask(id string) (out *drivers.TaskStatus, err error) {
	err = d.brief(context.Background(), func(ctx context.Context, p *process) error {
		resp, err := p.driver.InspectTask(ctx, &proto.InspectTaskRequest{TaskId: id})
		if err == nil {
			out, err = wire.DecodeStatus(resp)
		}
		return err
	})
	return out, err
}

// CreateNetwork implements drivers.NetworkCreator.
func (d *Driver) CreateNetwork(ctx context.Context, allocID, hostname string) (n *drivers.GroupNetwork, err error) {
	err = d.brief(ctx, func(ctx context.Context, p *process) error {
		resp, err := p.driver.CreateNetwork(ctx, &proto.CreateNetworkRequest{AllocId: allocID, Hostname: hostname})
		n = wire.DecodeGroupNetwork(resp.GetIsolationSpec())
		return err
	})
	if err == nil && (n == nil || !filepath.IsAbs(n.Path)) {
		return nil, fmt.Errorf("driver %s created no network namespace", d.name)
	}
	return n, err
}

// DestroyNetwork implements drivers.NetworkCreator.
func (d *Driver) DestroyNetwork(ctx context.Context, allocID string, n *drivers.GroupNetwork) error {
	return d.brief(ctx, func(ctx context.Context, p *process) error {
		_, err := p.driver.DestroyNetwork(ctx, &proto.DestroyNetworkRequest{AllocId: allocID, IsolationSpec: wire.EncodeGroupNetwork(n)})
		return err
	})
}
