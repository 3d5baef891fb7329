package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// handleState is the driver's part of a task handle. It has no environment and no secret.
type handleState struct {
	Backend    string // kind of the driver
	Container  string
	Image      string // its ID
	Tty        bool
	AllocID    string
	Name       string
	AllocDir   string
	LogDir     string
	MaxFiles   int
	MaxFileMB  int
	NoLogs     bool
	Stdout     string // FIFOs of another collector
	Stderr     string
	MHzPerCore uint64
	PortMap    map[string]int `json:",omitempty"` // of the task's own network block, as published
	// AdvertiseIPv6 makes the IPv6 address of the container that of its services.
	AdvertiseIPv6 bool        `json:",omitempty"`
	Compared      *comparison `json:",omitempty"` // nil if the container was not compared
}

// task is a container with its goroutines.
type task struct {
	id        string
	container string
	state     *handleState
	pipes     *pipes

	cancel context.CancelFunc
	gone   sync.WaitGroup
	done   chan struct{} // closed when exit is set

	// exit, ended and started are set before done is closed, or before the task is added.
	exit           *drivers.ExitResult
	started, ended time.Time
}

func (d *Driver) newTask(id string, state *handleState) *task {
	return &task{id: id, container: state.Container, state: state, done: make(chan struct{}), started: time.Now()}
}

// over reports whether the task has ended.
func (t *task) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// add starts the goroutines of a task, and adds it to the driver's. The output of the container is
// copied that follows what was copied before.
func (d *Driver) add(t *task, have *copied) error {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[t.id] != nil {
		cancel()
		return fmt.Errorf("task %s is already started", t.id)
	}
	d.tasks[t.id] = t
	complete := make(chan struct{})
	t.gone.Go(func() {
		defer close(complete)
		d.copyLogs(ctx, t, have)
	})
	t.gone.Go(func() { d.watch(ctx, t, complete) })
	return nil
}

// drainPatience limits how long the end of a task waits for its output.
const drainPatience = 10 * time.Second

// watch waits for the end of a container and of its output, and sets the result.
func (d *Driver) watch(ctx context.Context, t *task, complete <-chan struct{}) {
	exit, ended := d.waitContainer(ctx, t)
	if exit == nil {
		return
	}
	select {
	case <-complete:
	case <-time.After(drainPatience):
		d.log.Warn("the output of an ended container is incomplete", "task", t.id)
	}
	t.pipes.Close() // ends copyLogs
	d.endLogs(t)
	t.exit, t.ended = exit, ended
	close(t.done)
}

// waitContainer returns the result of a container, or nil if ctx ends. It continues while the daemon is
// away.
func (d *Driver) waitContainer(ctx context.Context, t *task) (*drivers.ExitResult, time.Time) {
	wait := d.cfg.Pace.Retry
	for {
		state, err := d.waitOnce(ctx, t.container)
		switch {
		case ctx.Err() != nil:
			return nil, time.Time{}
		case cerrdefs.IsNotFound(err):
			return &drivers.ExitResult{ExitCode: -1, Err: errGone}, time.Now()
		case err == nil && !state.Running:
			ended, perr := time.Parse(time.RFC3339Nano, state.FinishedAt)
			if perr != nil {
				ended = time.Now()
			}
			return exitOf(state), ended
		case err != nil:
			d.log.Debug("wait for a container", "task", t.id, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, time.Time{}
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetry)
	}
}

// waitOnce waits until a container does not run, and returns its state.
func (d *Driver) waitOnce(ctx context.Context, id string) (*container.State, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutine of the request
	result := d.api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case err := <-result.Error:
		return nil, err
	case <-result.Result:
	}
	limited, stop := withTimeout(ctx)
	defer stop()
	found, err := d.api.ContainerInspect(limited, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	if found.Container.State == nil {
		return nil, fmt.Errorf("the daemon reports no state of container %s", id)
	}
	return found.Container.State, nil
}

// exitText begins the text of Nomad for a container that failed.
const exitText = "Docker container exited with non-zero exit code: "

// exitOf returns the result of a container that has ended. The daemon reports no signal, and a task
// that ends with 137 itself looks like a killed one.
func exitOf(s *container.State) *drivers.ExitResult {
	exit := &drivers.ExitResult{ExitCode: s.ExitCode, OOMKilled: s.OOMKilled}
	switch {
	case s.OOMKilled:
		exit.Err = errors.New("OOM Killed")
	case s.ExitCode != 0:
		exit.Err = errors.New(exitText + strconv.Itoa(s.ExitCode))
	}
	return exit
}

// RecoverTask implements drivers.Driver. A start that the agent did not survive has no container ID in
// its handle, and its output was not copied. Its container is ended.
func (d *Driver) RecoverTask(ctx context.Context, h *drivers.TaskHandle) error {
	if h.Driver != "" && h.Driver != d.cfg.Name {
		return fmt.Errorf("handle of task %s is of driver %s, not %s", h.TaskID, h.Driver, d.cfg.Name)
	}
	if _, err := d.task(h.TaskID); err == nil {
		return nil
	}
	if len(h.State) == 0 {
		id, err := d.find(ctx, h.TaskID)
		if err == nil {
			err = d.discard(ctx, id)
		}
		if err != nil {
			return err
		}
		return drivers.ErrTaskNotFound
	}
	state := &handleState{}
	if err := json.Unmarshal(h.State, state); err != nil {
		return fmt.Errorf("decode the handle of task %s: %w", h.TaskID, err)
	}
	if state.Backend != Name {
		return fmt.Errorf("task %s was started by %s with the backend %q, which is now %q: give it the earlier backend", h.TaskID, d.cfg.Name,
			state.Backend, Name)
	}
	return d.recover(ctx, h.TaskID, state)
}

func (d *Driver) recover(ctx context.Context, id string, state *handleState) error {
	limited, cancel := withTimeout(ctx)
	defer cancel()
	found, err := d.api.ContainerInspect(limited, state.Container, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		d.forgetLogs(d.newTask(id, state))
		return drivers.ErrTaskNotFound
	}
	if err != nil {
		return fmt.Errorf("inspect container %s: %w", state.Container, err)
	}
	t := d.newTask(id, state)
	if s := found.Container.State; s != nil {
		if started, err := time.Parse(time.RFC3339Nano, s.StartedAt); err == nil {
			t.started = started
		}
	}
	if err := d.verifyAgain(ctx, t); err != nil {
		return err
	}
	if t.pipes, err = d.openLogs(ctx, t); err != nil {
		return err
	}
	have, err := d.resume(ctx, t)
	if err != nil {
		t.pipes.Close()
		return fmt.Errorf("continue the logs of task %s: %w", id, err)
	}
	d.images.Acquire(state.Image, id)
	if err := d.add(t, have); err != nil {
		t.pipes.Close()
		return err
	}
	return nil
}

// WaitTask implements drivers.Driver.
func (d *Driver) WaitTask(ctx context.Context, id string) (*drivers.ExitResult, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.done:
		return t.exit, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find returns the container of a task that was not recovered.
func (d *Driver) find(ctx context.Context, id string) (string, error) {
	if t, err := d.task(id); err == nil {
		return t.container, nil
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	list, err := d.list(ctx, map[string]string{taskLabel: id})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", drivers.ErrTaskNotFound
	}
	return list[0].ID, nil
}

// uuid matches the ID of an allocation.
var uuid = pattern.Lazy(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// isOwn reports whether a container has the name that an agent gives to one of its allocation. Its labels do not show
// whose it is: a container also has those of its image, whose author can write any.
func isOwn(c container.Summary) bool {
	alloc := c.Labels[allocLabel]
	return uuid().MatchString(alloc) && slices.ContainsFunc(c.Names, func(name string) bool {
		return name == "/"+pauseName(alloc) || strings.HasSuffix(name, "-"+alloc)
	})
}

// list returns the containers of this instance, with further labels.
func (d *Driver) list(ctx context.Context, labels map[string]string) ([]container.Summary, error) {
	filter := client.Filters{}
	for name, value := range map[string]string{instanceLabel: d.cfg.Name, agentLabel: d.cfg.Agent} {
		filter = filter.Add("label", name+"="+value)
	}
	for name, value := range labels {
		filter = filter.Add("label", name+"="+value)
	}
	found, err := d.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fmt.Errorf("list the containers: %w", err)
	}
	return slices.DeleteFunc(found.Items, func(c container.Summary) bool { return !isOwn(c) }), nil
}

// ListTasks implements drivers.Lister.
func (d *Driver) ListTasks(ctx context.Context) ([]drivers.TaskStatus, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	list, err := d.list(ctx, nil)
	if err != nil && d.never(err) {
		return nil, nil // a node without a daemon
	}
	var out []drivers.TaskStatus
	for _, c := range list {
		if c.Labels[taskLabel] == "" {
			continue
		}
		state := drivers.TaskExited
		if c.State == "running" || c.State == "paused" || c.State == "restarting" {
			state = drivers.TaskRunning
		}
		out = append(out, drivers.TaskStatus{ID: c.Labels[taskLabel], State: state, StartedAt: time.Unix(c.Created, 0)})
	}
	return out, err
}
