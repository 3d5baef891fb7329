package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Labels of a network, which the client keeps for the tasks of the group.
const (
	sandboxLabel  = "docker_sandbox_container_id"
	hostnameLabel = "docker_sandbox_hostname"
)

// pauseName returns the name of the container that holds the network of an allocation.
func pauseName(allocID string) string { return "nomad_init_" + allocID }

// CreateNetwork implements drivers.NetworkCreator. The network is that of a container which does
// nothing, because the daemon lets a container join no other namespaces than those of containers.
func (d *Driver) CreateNetwork(ctx context.Context, allocID, hostname string) (*drivers.GroupNetwork, error) {
	d.mu.Lock()
	if !slices.Contains(d.networks, allocID) {
		d.networks = append(d.networks, allocID)
	}
	d.mu.Unlock()
	n, err := d.createNetwork(ctx, allocID, hostname)
	if err != nil {
		d.forgetNetwork(allocID)
		return nil, fmt.Errorf("create the network of allocation %s: %w", allocID, err)
	}
	return n, nil
}

func (d *Driver) createNetwork(ctx context.Context, allocID, hostname string) (*drivers.GroupNetwork, error) {
	n, err := d.pauseNetwork(ctx, pauseName(allocID), allocID, hostname)
	if err == nil || !cerrdefs.IsNotFound(err) && !errors.Is(err, errEnded) {
		return n, err // it exists, or may exist: tasks may be running in it
	}
	ref, err := config.ParseImage(d.set.InfraImage)
	if err != nil {
		return nil, fmt.Errorf("infra_image: %w", err)
	}
	image, err := d.images.Ensure(ctx, &drivers.TaskConfig{ID: allocID}, &config.Task{Image: ref, PullTimeout: d.set.InfraPullTimeout})
	if err != nil {
		return nil, err
	}
	spec := &client.ContainerCreateOptions{Name: pauseName(allocID),
		Config: &container.Config{Image: image, Hostname: hostname, Labels: map[string]string{
			allocLabel: allocID, instanceLabel: d.cfg.Name, agentLabel: d.cfg.Agent}},
		HostConfig: &container.HostConfig{NetworkMode: "none", RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped},
			CapDrop: []string{"all"}, SecurityOpt: []string{"no-new-privileges"}},
	}
	id, err := d.create(ctx, spec, d.set.Attempts)
	if err == nil {
		limited, cancel := call(ctx)
		defer cancel()
		_, err = d.api.ContainerStart(limited, id, client.ContainerStartOptions{})
	}
	if err != nil {
		d.images.Release(image, allocID)
		if id != "" {
			err = errors.Join(err, d.remove(context.WithoutCancel(ctx), id))
		}
		return nil, err
	}
	return d.pauseNetwork(ctx, id, allocID, hostname)
}

// errEnded means that a container exists and has ended, and so its network namespace.
var errEnded = errors.New("the container has ended")

// pauseNetwork returns the network of a container, which must run and belong to the allocation.
func (d *Driver) pauseNetwork(ctx context.Context, id, allocID, hostname string) (*drivers.GroupNetwork, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	found, err := d.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	c := found.Container
	switch {
	case c.Config == nil || c.Config.Labels[allocLabel] != allocID:
		return nil, fmt.Errorf("container %s has the name of the allocation's network: %w", c.ID, errForeign)
	case c.State == nil:
		return nil, fmt.Errorf("the daemon reports no state of container %s", id)
	case !c.State.Running:
		return nil, fmt.Errorf("container %s: %w", id, errEnded)
	}
	if c.NetworkSettings == nil || c.NetworkSettings.SandboxKey == "" {
		return nil, fmt.Errorf("the daemon reports no network namespace of container %s", id)
	}
	n := &drivers.GroupNetwork{Path: c.NetworkSettings.SandboxKey, Labels: map[string]string{sandboxLabel: c.ID}}
	if hostname != "" {
		n.Labels[hostnameLabel] = hostname
	}
	d.images.Acquire(c.Image, allocID)
	return n, nil
}

// DestroyNetwork implements drivers.NetworkCreator.
func (d *Driver) DestroyNetwork(ctx context.Context, allocID string, n *drivers.GroupNetwork) error {
	id := pauseName(allocID)
	if n != nil && n.Labels[sandboxLabel] != "" {
		id = n.Labels[sandboxLabel]
	}
	limited, cancel := call(ctx)
	defer cancel()
	found, err := d.api.ContainerInspect(limited, id, client.ContainerInspectOptions{})
	if ended(err) {
		d.forgetNetwork(allocID)
		return nil
	}
	if err != nil {
		if d.never(err) {
			return nil // a node that never had a daemon
		}
		return fmt.Errorf("inspect the network of allocation %s: %w", allocID, err)
	}
	if found.Container.Config == nil || found.Container.Config.Labels[allocLabel] != allocID {
		return fmt.Errorf("container %s is not of allocation %s", id, allocID)
	}
	if err := d.remove(limited, found.Container.ID); err != nil {
		return err
	}
	d.images.Release(found.Container.Image, allocID)
	d.forgetNetwork(allocID)
	return nil
}

func (d *Driver) forgetNetwork(allocID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.networks = slices.DeleteFunc(d.networks, func(id string) bool { return id == allocID })
}
