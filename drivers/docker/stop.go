package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// StopTask implements drivers.Driver. Without a signal the daemon sends that of the image.
func (d *Driver) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	if signal != "" {
		if _, err := drivers.ParseSignal(signal); err != nil {
			return fmt.Errorf("failed to parse signal: %w", err)
		}
	}
	container, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+callTimeout)
	defer cancel()
	if signal != "" {
		if err := d.kill(ctx, container, signal); err != nil {
			return fmt.Errorf("send %s to task %s: %w", signal, id, err)
		}
		waiting, stop := context.WithTimeout(ctx, timeout)
		state, err := d.waitOnce(waiting, container)
		stop()
		if err == nil && !state.Running || cerrdefs.IsNotFound(err) {
			return nil
		}
		timeout = 0
	}
	return d.stop(ctx, container, timeout)
}

// stop ends a container within a timeout, which the daemon takes in seconds.
func (d *Driver) stop(ctx context.Context, container string, timeout time.Duration) error {
	seconds := int((timeout + time.Second - 1) / time.Second)
	_, err := d.api.ContainerStop(ctx, container, client.ContainerStopOptions{Timeout: &seconds})
	if err == nil || ended(err) {
		return nil
	}
	return fmt.Errorf("stop container %s: %w", container, err)
}

// kill sends a signal to a container. It is not an error if that has ended.
func (d *Driver) kill(ctx context.Context, container, signal string) error {
	_, err := d.api.ContainerKill(ctx, container, client.ContainerKillOptions{Signal: signal})
	if err == nil || ended(err) {
		return nil
	}
	return err
}

// ended reports whether an error means that the container does not run.
func ended(err error) bool {
	return cerrdefs.IsNotFound(err) || cerrdefs.IsNotModified(err) || cerrdefs.IsConflict(err) &&
		strings.Contains(err.Error(), "is not running")
}

// SignalTask implements drivers.Driver.
func (d *Driver) SignalTask(id, signal string) error {
	if _, err := drivers.ParseSignal(signal); err != nil {
		return err
	}
	t, err := d.task(id)
	if err != nil {
		return err
	}
	ctx, cancel := call(context.Background())
	defer cancel()
	_, err = d.api.ContainerKill(ctx, t.container, client.ContainerKillOptions{Signal: signal})
	switch {
	case err == nil:
		return nil
	case ended(err):
		return drivers.ErrTaskNotFound
	}
	return fmt.Errorf("send %s to task %s: %w", signal, id, err)
}

// DestroyTask implements drivers.Driver.
func (d *Driver) DestroyTask(id string, force bool) error {
	t, err := d.task(id)
	if err != nil {
		return d.destroyLost(id)
	}
	ctx, cancel := call(context.Background())
	defer cancel()
	if !t.over() {
		if !force {
			return errors.New("must call StopTask for the given task before Destroy or set force to true")
		}
		if err := d.stop(ctx, t.container, 0); err != nil {
			return err
		}
		if err := t.await(ctx); err != nil {
			return err
		}
	}
	if d.set.GCContainer {
		if err := d.remove(ctx, t.container); err != nil {
			return err
		}
	}
	t.cancel()
	t.gone.Wait()
	d.forgetLogs(t)
	d.images.Release(t.state.Image, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
	return nil
}

// await waits for the end of a task.
func (t *task) await(ctx context.Context) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of task %s: %w", t.id, ctx.Err())
	}
}

// destroyLost ends the container of a task that was not recovered, and removes it unless containers are kept.
func (d *Driver) destroyLost(id string) error {
	ctx, cancel := call(context.Background())
	defer cancel()
	container, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if err := d.discard(ctx, container); err != nil {
		return err
	}
	d.forgetLogs(&task{id: id, state: &handleState{}})
	return nil
}

// discard ends a container, and removes it unless containers are kept.
func (d *Driver) discard(ctx context.Context, container string) error {
	if d.set.GCContainer {
		return d.remove(ctx, container)
	}
	return d.stop(ctx, container, 0)
}

// InspectTask implements drivers.Driver.
func (d *Driver) InspectTask(id string) (*drivers.TaskStatus, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	out := &drivers.TaskStatus{ID: id, Name: t.state.Name, State: drivers.TaskRunning, StartedAt: t.started,
		Attributes: map[string]string{"container_id": t.container}}
	if t.over() {
		out.State, out.Exit, out.CompletedAt = drivers.TaskExited, t.exit, t.ended
		return out, nil
	}
	ctx, cancel := withTimeout(context.Background())
	defer cancel()
	found, err := d.api.ContainerInspect(ctx, t.container, client.ContainerInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("inspect container %s: %w", t.container, err)
	}
	out.Network = networkOf(&found.Container, t.state)
	return out, nil
}
