package taskhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
)

// The times of the supervisor.
const (
	csiProbeLimit = 5 * time.Second
	csiProbeEvery = 30 * time.Second
	// csiRetryMin and csiRetryMax are the delays between the first probes. A plugin needs some time to create its socket.
	csiRetryMin = 100 * time.Millisecond
	csiRetryMax = 5 * time.Second
	// csiQuietLimit limits how long a plugin that ends waits for volumes.
	csiQuietLimit = 30 * time.Second
)

// pluginProbe are the calls of a plugin about its health (csi.Plugin).
type pluginProbe interface {
	Probe(ctx context.Context) (ready bool, err error)
	Info(ctx context.Context) (csi.Info, error)
	Close() error
}

func dialProbe(ctx context.Context, s csi.Socket) (pluginProbe, error) { return csi.Dial(ctx, s) }

// supervise registers the plugin when it is healthy, and then reports changes of its health until ctx ends.
func (h *csiPluginHook) supervise(ctx context.Context) {
	if !h.registered() && !h.start(ctx) {
		return
	}
	healthy := true
	for backoff.Sleep(ctx, csiProbeEvery) == nil {
		err := h.connect(ctx, probeReady)
		if ctx.Err() != nil {
			return
		}
		if (err == nil) != healthy {
			healthy = err == nil
			h.control.Emit(h.event(err))
		}
	}
}

// errNoInfo is wrapped in the error of a plugin that is ready, but does not describe itself.
var errNoInfo = errors.New("failed to probe plugin")

// start waits until the plugin is healthy, and registers it. It restarts the task, and returns false, if one of them fails.
func (h *csiPluginHook) start(ctx context.Context) bool {
	limit := h.config.Timeout()
	info, err := h.await(ctx, limit)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil && !errors.Is(err, errNoInfo):
		h.control.Emit(h.event(fmt.Errorf("CSI plugin failed probe: %w", err)))
		h.restart(ctx, fmt.Sprintf("CSI plugin did not become healthy before configured %s health timeout", limit))
		return false
	case err == nil:
		err = h.register(info)
	}
	if err != nil {
		h.restart(ctx, fmt.Sprintf("CSI plugin failed to register: %v", err))
		return false
	}
	h.control.Emit(h.event(nil))
	return true
}

// await probes the plugin until it is ready, and returns its description. After the time limit, it returns the error of the last
// probe.
func (h *csiPluginHook) await(ctx context.Context, limit time.Duration) (info csi.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	describe := func(ctx context.Context, p pluginProbe) error {
		if err := probeReady(ctx, p); err != nil {
			return err
		}
		if info, err = p.Info(ctx); err == nil && info.Name == "" {
			err = errors.New("the name of the plugin is empty")
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: %w", errNoInfo, err)
		}
		return err
	}
	retry := backoff.Backoff{Min: csiRetryMin, Max: csiRetryMax}
	for {
		err := h.connect(ctx, describe)
		if err == nil || errors.Is(err, errNoInfo) || retry.Wait(ctx) != nil {
			return info, err
		}
	}
}

// connect connects to the plugin and calls use.
func (h *csiPluginHook) connect(ctx context.Context, use func(context.Context, pluginProbe) error) error {
	ctx, cancel := context.WithTimeout(ctx, csiProbeLimit)
	defer cancel()
	p, err := h.dial(ctx, h.socket())
	if err != nil {
		return err
	}
	defer p.Close() //nolint:errcheck // all calls have ended
	return use(ctx, p)
}

// probeReady returns an error if the plugin is not ready.
func probeReady(ctx context.Context, p pluginProbe) error {
	ready, err := p.Probe(ctx)
	if err == nil && !ready {
		err = errors.New("the plugin is not ready")
	}
	return err
}

// event returns the event of a change of the plugin's health. The error is nil if it became healthy.
func (h *csiPluginHook) event(err error) *nomad.TaskEvent {
	if err == nil {
		return &nomad.TaskEvent{Type: nomad.TaskPluginHealthy, Message: "plugin: " + h.config.ID}
	}
	return &nomad.TaskEvent{Type: nomad.TaskPluginUnhealthy, Message: "Error: " + err.Error()}
}

// restart restarts the task as after a failure. The end of the process ends ctx.
func (h *csiPluginHook) restart(ctx context.Context, why string) {
	err := h.control.RestartFailed(ctx, &nomad.TaskEvent{Type: nomad.TaskRestartSignal, RestartReason: why})
	if err != nil && ctx.Err() == nil {
		h.log.Warn("restart an unhealthy CSI plugin", "plugin", h.config.ID, "err", err)
	}
}

func (h *csiPluginHook) socket() csi.Socket { return csi.Socket{Dir: h.socketDir(), Name: csiSocket} }

// kinds returns the services that the plugin provides.
func (h *csiPluginHook) kinds() (out []instances.Kind) {
	if words.Controls(h.config) {
		out = append(out, instances.KindController)
	}
	if words.MountsVolumes(h.config) {
		out = append(out, instances.KindNode)
	}
	return out
}

// registered reports whether an earlier agent has registered the plugin.
func (h *csiPluginHook) registered() bool {
	return !slices.ContainsFunc(h.kinds(), func(k instances.Kind) bool { return !h.deps.Plugins.Has(k, h.config.ID, h.alloc.ID) })
}

func (h *csiPluginHook) register(info csi.Info) error {
	for _, kind := range h.kinds() {
		if err := h.deps.Plugins.Register(instances.Instance{Kind: kind, ID: h.config.ID, AllocID: h.alloc.ID, Provider: info.Name,
			Version: info.Version, Socket: h.socket(), Root: h.root(), TaskRoot: h.taskRoot,
			Privileged: h.privileged}); err != nil {
			return err
		}
	}
	return nil
}

func (h *csiPluginHook) deregister() error {
	var errs []error
	for _, kind := range h.kinds() {
		errs = append(errs, h.deps.Plugins.Deregister(kind, h.config.ID, h.alloc.ID))
	}
	return errors.Join(errs...)
}
