package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// StartTask implements drivers.Driver.
func (d *Driver) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (_ *drivers.TaskHandle, err error) {
	o, err := config.DecodeTask(cfg.Config)
	if err != nil {
		return nil, err
	}
	if _, err := d.spec(cfg, &o, ""); err != nil { // before a pull
		return nil, err
	}
	if _, err := d.endpoint(ctx, cfg, &o); err != nil {
		return nil, err
	}
	imageID, err := d.images.Ensure(ctx, cfg, &o)
	if err != nil {
		return nil, err
	}
	t := d.newTask(cfg.ID, &handleState{Backend: Name, Image: imageID, Tty: o.TTY, AllocID: cfg.AllocID, Name: cfg.Name,
		AllocDir: cfg.AllocDir, LogDir: cfg.LogDir,
		MaxFiles: cfg.Log.MaxFiles, MaxFileMB: cfg.Log.MaxFileSizeMB, NoLogs: d.set.NoLogs || cfg.Log.Disabled || cfg.LogDir == "",
		Stdout: cfg.Stdout, Stderr: cfg.Stderr, MHzPerCore: cfg.Limits.MHzPerCore, PortMap: ownPorts(&o, cfg),
		AdvertiseIPv6: o.Endpoint.AdvertiseIPv6})
	defer func() {
		if err != nil {
			d.abandon(t)
		}
	}()
	pipes, err := d.openLogs(ctx, t)
	if err != nil {
		return nil, &drivers.RecoverableError{Err: err}
	}
	t.pipes = pipes
	lowered, err := d.run(ctx, cfg, &o, t)
	if err != nil {
		return nil, err
	}
	network, err := d.taskNetwork(ctx, t)
	if err != nil {
		return nil, &drivers.RecoverableError{Err: err}
	}
	raw, err := json.Marshal(t.state)
	if err != nil {
		return nil, fmt.Errorf("encode the handle of task %s: %w", cfg.ID, err)
	}
	if err := d.add(t, &copied{}); err != nil {
		return nil, err
	}
	return &drivers.TaskHandle{Driver: d.cfg.Name, Version: 1, TaskID: cfg.ID, State: raw, Network: network, Lowered: lowered}, nil
}

// abandon removes what a failed start has left.
func (d *Driver) abandon(t *task) {
	if t.container != "" {
		ctx, cancel := call(context.Background())
		defer cancel()
		if err := d.remove(ctx, t.container); err != nil {
			d.log.Warn("remove the container of a task that did not start", "task", t.id, "err", err)
		}
	}
	t.pipes.Close()
	d.forgetLogs(t)
	d.images.Release(t.state.Image, t.id)
}

// run creates, starts and verifies the container of a task. It returns the level of the task if that is lower than
// its options give.
func (d *Driver) run(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task, t *task) (lowered string, err error) {
	spec, err := d.spec(cfg, o, t.state.Image)
	if err != nil {
		return "", err
	}
	if err := d.setUser(ctx, cfg, o, spec); err != nil {
		return "", err
	}
	if err := d.setHealth(ctx, spec.Config); err != nil {
		return "", err
	}
	mounts, err := d.mountsOf(cfg, o)
	if err != nil {
		return "", err
	}
	defer func() { // the daemon mounts when it starts the container
		if err := mounts.reserved.Close(); err != nil {
			d.log.Warn("remove the mount points of a container", "task", cfg.ID, "err", err)
		}
	}()
	spec.HostConfig.Binds, spec.HostConfig.Mounts = mounts.binds, mounts.mounts
	at, err := d.endpoint(ctx, cfg, o)
	if err != nil {
		return "", err
	}
	at.set(spec)
	attempts := d.set.Attempts
	if o.Attempts > 0 {
		attempts = o.Attempts
	}
	if t.container, err = d.create(ctx, spec, attempts); err != nil {
		return "", err
	}
	t.state.Container = t.container
	if err := d.stored(ctx, t.container, spec); err != nil {
		return "", err
	}
	if err := d.free(ctx, at, t.container); err != nil {
		return "", err
	}
	if err := checkFree(ctx, o, cfg); err != nil { // an older container has released its ports
		return "", err
	}
	err = d.retry(ctx, attempts, func(ctx context.Context) error {
		_, err := d.api.ContainerStart(ctx, t.container, client.ContainerStartOptions{})
		return err
	})
	if err != nil {
		//lint:ignore ST1005 the text is that of Nomad
		return "", d.classify(fmt.Errorf("Failed to start container %s: %w", t.container, err))
	}
	t.state.Compared, lowered, err = d.verify(ctx, cfg, &request{spec, mounts.readOnly}, t.container)
	if err == nil {
		err = d.compareEndpoint(ctx, at, t.container)
	}
	if errors.As(err, &differs{}) {
		err = fmt.Errorf("%w: it was removed", err)
	}
	return lowered, err
}

// create creates a container, and returns its ID. An older container with the name is replaced, if it is
// of this agent's allocation.
func (d *Driver) create(ctx context.Context, spec *client.ContainerCreateOptions, attempts int) (id string, err error) {
	err = d.retry(ctx, attempts, func(ctx context.Context) error {
		var err error
		id, err = d.createContainer(ctx, spec)
		if cerrdefs.IsConflict(err) {
			err = errors.Join(err, d.replace(ctx, spec))
		}
		return err
	})
	if err != nil {
		//lint:ignore ST1005 the text is that of Nomad
		return "", d.classify(fmt.Errorf("Failed to create container: %w", err))
	}
	return id, nil
}

// errForeign means that a container with the name exists and is not of this agent's allocation.
var errForeign = errors.New("it does not belong to the allocation: remove or rename it")

// replace removes the container with the name of a new one. It is what an earlier start has left.
func (d *Driver) replace(ctx context.Context, spec *client.ContainerCreateOptions) error {
	found, err := d.api.ContainerInspect(ctx, spec.Name, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c := found.Container
	if c.Config == nil || c.Config.Labels[allocLabel] != spec.Config.Labels[allocLabel] {
		return fmt.Errorf("container %s has the name %q: %w", c.ID, spec.Name, errForeign)
	}
	return d.remove(ctx, c.ID)
}

// maxRetry limits the delay between two attempts.
const maxRetry = 30 * time.Second

// retry repeats a call that fails because of a name that exists, or because the daemon is busy.
func (d *Driver) retry(ctx context.Context, attempts int, f func(context.Context) error) error {
	wait := d.cfg.Pace.Retry / 8
	for try := 1; ; try++ {
		limited, cancel := call(ctx)
		err := f(limited)
		cancel()
		again := cerrdefs.IsConflict(err) && !errors.Is(err, errForeign) || transient(err)
		if err == nil || try >= attempts || !again {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetry)
	}
}

// transient reports whether a call may succeed later.
func transient(err error) bool {
	return err != nil && (cerrdefs.IsInternal(err) || errors.Is(err, context.DeadlineExceeded) || strings.HasSuffix(err.Error(), "EOF"))
}

// classify marks the errors after which the restart policy applies: all but those of the job.
func (d *Driver) classify(err error) error {
	if cerrdefs.IsInvalidArgument(err) || errors.Is(err, errForeign) {
		return err
	}
	return &drivers.RecoverableError{Err: err}
}

// remove stops and removes a container. It is not an error if it does not exist.
func (d *Driver) remove(ctx context.Context, id string) error {
	_, err := d.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil || cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress") {
		return nil
	}
	return fmt.Errorf("remove container %s: %w", id, err)
}

// taskNetwork returns the network that the daemon has given a container of its own, nil for none.
func (d *Driver) taskNetwork(ctx context.Context, t *task) (*drivers.TaskNetwork, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	found, err := d.api.ContainerInspect(ctx, t.container, client.ContainerInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("inspect container %s: %w", t.container, err)
	}
	return networkOf(&found.Container, t.state), nil
}

// networkOf returns the network of a container, with the ports in it that services can name.
func networkOf(c *container.InspectResponse, state *handleState) *drivers.TaskNetwork {
	if c.NetworkSettings == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.NetworkSettings.Networks)) {
		n := c.NetworkSettings.Networks[name]
		switch {
		case n == nil:
		case state.AdvertiseIPv6 && n.GlobalIPv6Address.IsValid():
			return &drivers.TaskNetwork{IP: n.GlobalIPv6Address.String(), PortMap: state.PortMap, AutoAdvertise: true}
		case n.IPAddress.IsValid():
			return &drivers.TaskNetwork{IP: n.IPAddress.String(), PortMap: state.PortMap, AutoAdvertise: name != "bridge"}
		}
	}
	return nil
}
