package docker

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Fingerprint implements drivers.Driver. It also removes containers without a task, while the daemon
// answers.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	go func() {
		defer close(ch)
		every := time.NewTicker(d.cfg.Pace.Fingerprint)
		defer every.Stop()
		next := time.Now().Add(max(d.set.Dangling.Period, d.set.Dangling.Grace))
		for {
			f := d.fingerprint(ctx)
			select {
			case <-ctx.Done():
				return
			case ch <- f:
			}
			if d.set.Dangling.Enabled && f.Health == drivers.HealthHealthy && time.Now().After(next) {
				d.removeDangling(ctx)
				next = time.Now().Add(d.set.Dangling.Period)
			}
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
		}
	}()
	return ch
}

// fingerprintPatience is below the time that a client waits for the first fingerprint.
const fingerprintPatience = 4 * time.Second

// fingerprint asks the daemon once.
func (d *Driver) fingerprint(ctx context.Context) drivers.Fingerprint {
	ctx, cancel := context.WithTimeout(ctx, fingerprintPatience)
	defer cancel()
	version, err := d.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		d.log.Debug("ask the daemon for its version", "err", err)
		return drivers.Fingerprint{Health: d.absent(), Description: "Failed to connect to docker daemon"}
	}
	d.mu.Lock()
	d.detected = true
	d.mu.Unlock()
	attrs := map[string]string{"": "true", "version": version.Version, "os_type": version.Os}
	if d.set.Volumes {
		attrs["volumes.enabled"] = "true"
	}
	if d.set.PidsLimit > 0 {
		attrs["pids.limit"] = strconv.FormatInt(d.set.PidsLimit, 10)
	}
	d.describe(ctx, attrs)
	out := map[string]string{}
	for key, value := range attrs {
		out[drivers.Attribute(d.cfg.Name, key)] = value
	}
	return drivers.Fingerprint{Health: drivers.HealthHealthy, Description: "Healthy", Attributes: out}
}

// describe adds what the daemon reports about itself. It may be missing.
func (d *Driver) describe(ctx context.Context, attrs map[string]string) {
	info, err := d.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		d.log.Warn("ask the daemon for its configuration", "err", err)
	} else {
		attrs["runtimes"] = strings.Join(slices.Sorted(maps.Keys(info.Info.Runtimes)), ",")
	}
	networks, err := d.api.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		d.log.Warn("ask the daemon for its networks", "err", err)
		return
	}
	for _, n := range networks.Items {
		if n.Name == "bridge" && len(n.IPAM.Config) > 0 && n.IPAM.Config[0].Gateway.IsValid() {
			attrs["bridge_ip"] = n.IPAM.Config[0].Gateway.String()
		}
	}
}

// absent returns the health while the daemon does not answer.
func (d *Driver) absent() drivers.Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.detected {
		return drivers.HealthUnhealthy
	}
	return drivers.HealthUndetected
}

// never reports whether an error shows that the node has no daemon: nothing answers, nothing has answered this agent, and
// no earlier agent has started a container.
func (d *Driver) never(err error) bool {
	if !client.IsErrConnectionFailed(err) || d.absent() != drivers.HealthUndetected {
		return false
	}
	_, err = os.Lstat(d.cfg.Dir) // made for the first container
	return d.cfg.Dir == "" || errors.Is(err, fs.ErrNotExist)
}

// removeDangling removes the running containers of this instance that have no task.
func (d *Driver) removeDangling(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(30*time.Second, d.set.Dangling.Period))
	defer cancel()
	list, err := d.list(ctx, nil)
	if err != nil {
		d.log.Warn("list the containers", "err", err)
		return
	}
	for _, c := range list {
		if c.State != "running" || time.Since(time.Unix(c.Created, 0)) < d.set.Dangling.Grace || d.tracked(c.ID, c.Labels) {
			continue
		}
		if d.set.Dangling.DryRun {
			d.log.Info("a container without a task would be removed", "container", c.ID, "alloc", c.Labels[allocLabel])
			continue
		}
		d.log.Warn("remove a container without a task", "container", c.ID, "alloc", c.Labels[allocLabel])
		if err := d.remove(ctx, c.ID); err != nil {
			d.log.Warn("remove a container without a task", "container", c.ID, "err", err)
		}
	}
}

// tracked reports whether a container belongs to a task, or to an allocation with one.
func (d *Driver) tracked(container string, labels map[string]string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tasks {
		if t.container == container || labels[taskLabel] == "" && t.state.AllocID == labels[allocLabel] {
			return true
		}
	}
	return slices.Contains(d.networks, labels[allocLabel]) && labels[taskLabel] == ""
}
