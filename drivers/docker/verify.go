package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/docker/observe"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// processRuntimes are the runtimes whose containers are processes of the node with exactly the options that were
// asked for. Another one, which the operator has listed in allow_runtimes, may run a virtual machine.
var processRuntimes = []string{"", "runc", "crun", "io.containerd.runc.v2", config.NvidiaRuntime}

// stored returns an error if the daemon has stored other options than those that it got. It is called before
// the start.
func (d *Driver) stored(ctx context.Context, id string, asked *client.ContainerCreateOptions) error {
	ctx, cancel := call(ctx)
	defer cancel()
	got, err := d.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("inspect container %s: %w", id, err)}
	}
	have, want := got.Container.HostConfig, asked.HostConfig
	if have == nil || got.Container.Config == nil {
		return fmt.Errorf("the daemon reports no options of container %s", id)
	}
	for name, same := range map[string]bool{
		"user":         asked.Config.User == "" || got.Container.Config.User == asked.Config.User,
		"privileged":   have.Privileged == want.Privileged,
		"cap_add":      slices.Equal(config.CapabilityNames(have.CapAdd), config.CapabilityNames(want.CapAdd)),
		"cap_drop":     slices.Equal(config.CapabilityNames(have.CapDrop), config.CapabilityNames(want.CapDrop)),
		"security_opt": !slices.ContainsFunc(want.SecurityOpt, func(o string) bool { return !slices.Contains(have.SecurityOpt, o) }),
		"group_add":    slices.Equal(have.GroupAdd, want.GroupAdd),
		"devices":      len(have.Devices) == len(want.Devices),
		"pid_mode":     have.PidMode == want.PidMode,
		"ipc_mode":     want.IpcMode == "" && !have.IpcMode.IsHost() && !have.IpcMode.IsContainer() || have.IpcMode == want.IpcMode,
		"network_mode": want.NetworkMode == "default" && !have.NetworkMode.IsHost() || have.NetworkMode == want.NetworkMode,
	} {
		if !same {
			return fmt.Errorf("the daemon has stored another %s of container %s than it got: the container is not started", name, id)
		}
	}
	if d.set.Volumes || want.Privileged {
		return nil // as the operator allows
	}
	return checkTargets(got.Container.Mounts, d.readLinks(ctx, id, len(got.Container.Mounts)))
}

// request is what the daemon was asked for.
type request struct {
	*client.ContainerCreateOptions
	readOnly []string // targets of mounts that are read-only by their source
}

// comparison is what a container must have. It is stored with the handle, so that a later agent can compare again.
type comparison struct {
	Expected  observe.Expected
	Isolation drivers.Isolation // by the options
	Level     drivers.Level     // that the task must have
	Users     string            // the user namespace of the first process after its start, "" if it is not readable
}

// differs is the error for a container that does not have what it must have.
type differs struct{ error }

// verify compares a started container with what was asked for, and with the level that its task must have. It
// returns the level if that is lower than the options give. A container that has ended is not compared.
func (d *Driver) verify(ctx context.Context, cfg *drivers.TaskConfig, asked *request,
	id string) (c *comparison, lowered string, err error) {
	p, found, err := d.firstProcess(ctx, id)
	if err != nil || p == nil {
		return nil, "", err
	}
	defer p.Close() //nolint:errcheck // read only
	c = &comparison{Expected: *d.expectedOf(found, asked.ContainerCreateOptions), Isolation: cfg.Isolation, Level: cfg.Level,
		Users: p.UserNamespace()}
	if c.Expected.Mounts != nil {
		c.Expected.ReadOnly = append(c.Expected.ReadOnly, asked.readOnly...)
	}
	lowered, err = d.compare(ctx, p, id, c)
	return c, lowered, err
}

// compare compares the first process of a container. A difference is an error of type differs.
func (d *Driver) compare(ctx context.Context, p *observe.Process, id string, c *comparison) (lowered string, err error) {
	different, err := p.Differences(&c.Expected)
	if errors.Is(err, observe.ErrGone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if len(different) > 0 {
		return "", differs{fmt.Errorf("container %s does not have what the daemon was asked for: %s", id, strings.Join(different, "; "))}
	}
	live := c.Isolation
	if live.Seccomp && !d.filtered(ctx, p, id) {
		live.Seccomp = false
	}
	if err := live.CheckLevel(c.Level); err != nil {
		return "", differs{fmt.Errorf("container %s: %w", id, err)}
	}
	if l := live.Level(); l < c.Isolation.Level() {
		return l.String(), nil
	}
	return "", nil
}

// differenceEvent is the event of a container that an earlier agent started, and that has changed.
const differenceEvent = "Container Changed"

// verifyAgain compares a container that an earlier agent started. If it has changed and its task must have a level, it is
// removed. Else an event has the difference.
func (d *Driver) verifyAgain(ctx context.Context, t *task) error {
	if t.state.Compared == nil { // it had ended, its runtime is not compared, or the agent was older
		return nil
	}
	p, _, err := d.firstProcess(ctx, t.container)
	if err != nil || p == nil {
		return err
	}
	defer p.Close() //nolint:errcheck // read only
	c := *t.state.Compared
	if p.UserNamespace() != c.Users {
		// It has made a user namespace, in which it has all capabilities and may mount. That gives it no right outside.
		c.Expected = observe.Expected{Capabilities: ^uint64(0), NoPrivileges: c.Expected.NoPrivileges, Namespaces: c.Expected.Namespaces}
	}
	_, err = d.compare(ctx, p, t.container, &c)
	var different differs
	if !errors.As(err, &different) {
		return err
	}
	if c.Level == drivers.LevelNone {
		d.log.Warn("a container has changed since its start", "task", t.id, "err", err)
		d.event(t.id, differenceEvent, err.Error(), nil)
		return nil
	}
	limited, cancel := call(ctx)
	defer cancel()
	if rerr := d.remove(limited, t.container); rerr != nil {
		return errors.Join(err, rerr)
	}
	d.forgetLogs(t)
	return fmt.Errorf("%w: %w since its start, and was removed, because its task must have the isolation level %s", drivers.ErrTaskNotFound,
		err, c.Level)
}

// filterPatience limits the wait for the filter of a container, which a runtime sets last.
const filterPatience = 2 * time.Second

// filtered reports whether a filter of system calls applies to a container.
func (d *Driver) filtered(ctx context.Context, p *observe.Process, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, filterPatience)
	defer cancel()
	for !p.Filtered() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d.cfg.Pace.Retry / 32):
		}
		again, _, err := d.firstProcess(ctx, id)
		if err != nil {
			return false
		}
		if again == nil {
			return true // it has ended
		}
		p = again
		defer p.Close() //nolint:errcheck // read only
	}
	return true
}

// firstProcess returns the first process of a container, nil if it has ended or if it is not one of the node.
func (d *Driver) firstProcess(ctx context.Context, id string) (*observe.Process, *container.InspectResponse, error) {
	before, err := d.running(ctx, id)
	if err != nil || before == nil || !slices.Contains(processRuntimes, before.HostConfig.Runtime) {
		return nil, nil, err
	}
	p, err := observe.Open(before.State.Pid)
	if errors.Is(err, observe.ErrGone) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	after, err := d.running(ctx, id) // the process was that of the container when it was opened
	if err != nil || after == nil || after.State.Pid != before.State.Pid {
		return nil, nil, errors.Join(err, p.Close())
	}
	return p, after, nil
}

// running returns a container that runs, nil if it does not.
func (d *Driver) running(ctx context.Context, id string) (*container.InspectResponse, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	got, err := d.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, &drivers.RecoverableError{Err: fmt.Errorf("inspect container %s: %w", id, err)}
	}
	c := &got.Container
	if c.State == nil || !c.State.Running || c.State.Pid <= 0 || c.HostConfig == nil {
		return nil, nil
	}
	return c, nil
}

// expectedOf returns what a container with these options must have.
func (d *Driver) expectedOf(c *container.InspectResponse, asked *client.ContainerCreateOptions) *observe.Expected {
	host := asked.HostConfig
	e := &observe.Expected{Capabilities: config.CapabilitySet(host),
		NoPrivileges: slices.Contains(host.SecurityOpt, config.OptNoNewPrivileges)}
	changing := config.CapabilityBit("SETUID") | config.CapabilityBit("SETGID") | config.CapabilityBit("SYS_ADMIN")
	fixed := e.NoPrivileges && e.Capabilities&changing == 0
	if fixed { // otherwise, the program may have changed its user by now
		e.User, e.Groups = asked.Config.User, host.GroupAdd
	}
	if os.Geteuid() != 0 || host.Privileged {
		return e // an agent without root cannot read the rest
	}
	e.Namespaces = []string{"mnt"}
	for kind, mode := range map[string]string{"pid": string(host.PidMode), "ipc": string(host.IpcMode), "net": string(host.NetworkMode),
		"uts": string(host.UTSMode)} {
		if mode != "host" && (kind == "net" || !strings.HasPrefix(mode, config.ContainerMode)) {
			e.Namespaces = append(e.Namespaces, kind)
		}
	}
	if e.Capabilities&config.CapabilityBit("SYS_ADMIN") == 0 && c.HostConfig.Runtime != config.NvidiaRuntime {
		e.Mounts, e.ReadOnly = mountPoints(c, asked)
		e.Masked, e.OwnTrees = c.HostConfig.MaskedPaths, !d.set.Volumes
	}
	return e
}

// mountPoints returns the mount points that a container may have, and those that must be read-only.
func mountPoints(c *container.InspectResponse, asked *client.ContainerCreateOptions) (all, readOnly []string) {
	all = []string{}
	for _, bind := range asked.HostConfig.Binds {
		parts := strings.Split(bind, ":") // source and target have no colon
		if len(parts) < 2 {
			continue
		}
		all = append(all, parts[1])
		if len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro") {
			readOnly = append(readOnly, parts[1])
		}
	}
	for _, m := range asked.HostConfig.Mounts {
		all = append(all, m.Target)
		if m.ReadOnly {
			readOnly = append(readOnly, m.Target)
		}
	}
	if c.Config != nil {
		for target := range c.Config.Volumes { // of the image
			all = append(all, target)
		}
	}
	return all, readOnly
}
