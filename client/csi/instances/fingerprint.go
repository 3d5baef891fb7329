package instances

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad"
)

// The texts of the health of plugins. Those of errors have the error added.
const (
	initial     = "initial fingerprint not completed"
	healthy     = "healthy"
	unhealthy   = "unhealthy"
	initialFail = "failed initial fingerprint with err: "
	laterFail   = "failed fingerprinting with error: "
)

// fingerprint is what a watch knows about its instance.
type fingerprint struct {
	instance Instance
	plugin   describer // nil until it is connected
	calls    *csi.Plugin

	described bool
	traits    csi.Traits
	node      *nomad.CSINodeInfo
}

// watch fingerprints an instance until ctx ends.
func (s *Set) watch(ctx context.Context, w *watch) {
	f := &fingerprint{instance: w.instance}
	defer f.close()
	for {
		info := f.run(ctx, s.dial)
		if ctx.Err() != nil {
			return // the error is that of ctx, not of the plugin
		}
		s.set(w, f, info)
		w.first()
		wait := interval
		if !info.Healthy {
			wait = retryInterval
		}
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// close ends the connection. The plugin goes on running.
func (f *fingerprint) close() {
	if f.plugin != nil {
		f.plugin.Close() // the socket belongs to this process alone: nothing is lost
	}
}

// run asks the plugin for its health, and for its description if that is not known.
func (f *fingerprint) run(ctx context.Context, dial dialer) nomad.CSIInfo {
	i := &f.instance
	info := nomad.CSIInfo{PluginID: i.ID, AllocID: i.AllocID, Provider: i.Provider, ProviderVersion: i.Version}
	err := f.ask(ctx, dial, &info)
	info.RequiresControllerPlugin, info.RequiresTopologies = f.traits.RequiresController, f.traits.RequiresTopologies
	info.UpdateTime = time.Now()
	switch {
	case err == nil:
		info.Healthy, info.HealthDescription = true, healthy
	case errors.Is(err, errNotReady):
		info.HealthDescription = unhealthy
	case f.described:
		info.HealthDescription = laterFail + err.Error()
	default:
		info.HealthDescription = initialFail + err.Error()
	}
	return info
}

// errNotReady means that the plugin answers, but is not ready.
var errNotReady = errors.New("the plugin is not ready")

// ask makes the calls of a fingerprint.
func (f *fingerprint) ask(ctx context.Context, dial dialer, info *nomad.CSIInfo) (err error) {
	if f.plugin == nil {
		if f.plugin, f.calls, err = dial(ctx, f.instance.Socket); err != nil {
			f.plugin = nil
			return err
		}
	}
	if !f.described {
		if err := f.describe(ctx); err != nil {
			return err
		}
	}
	ready, err := f.plugin.Probe(ctx)
	if err != nil {
		return fmt.Errorf("probe the plugin: %w", err)
	}
	switch f.instance.Kind {
	case KindController:
		info.ControllerInfo, err = f.plugin.ControllerInfo(ctx)
	case KindNode:
		info.NodeInfo, err = f.plugin.NodeCapabilities(ctx, f.node)
	}
	if err == nil && !ready {
		err = errNotReady
	}
	return err
}

// describe asks what does not change while the instance runs.
func (f *fingerprint) describe(ctx context.Context) (err error) {
	if f.traits, err = f.plugin.Traits(ctx); err != nil {
		return err
	}
	if f.instance.Kind == KindNode {
		if f.node, err = f.plugin.NodeInfo(ctx); err != nil {
			return err
		}
	}
	f.described = true
	return nil
}

// set stores a fingerprint, unless another instance serves now. Without a new description, the last one stays.
func (s *Set) set(w *watch, f *fingerprint, info nomad.CSIInfo) {
	var out report
	k := w.instance.key()
	s.mu.Lock()
	if e := s.entries[k]; e != nil && e.owner == w {
		e.calls, e.instance = f.calls, f.instance
		if !f.described {
			info.RequiresControllerPlugin, info.RequiresTopologies = e.info.RequiresControllerPlugin, e.info.RequiresTopologies
		}
		if info.ControllerInfo == nil {
			info.ControllerInfo = e.info.ControllerInfo
		}
		if info.NodeInfo == nil {
			info.NodeInfo = e.info.NodeInfo
		}
		if !e.reported || differs(&e.info, &info) {
			e.info, e.reported = info, true
			e.emit(k, &out)
		}
	}
	s.mu.Unlock()
	s.publish(&out)
}

// differs reports whether a fingerprint is to be reported. While a plugin is unhealthy, a new text is reported once in an
// interval: its author may be the plugin.
func differs(old, now *nomad.CSIInfo) bool {
	a, b := *old, *now
	a.UpdateTime, b.UpdateTime = time.Time{}, time.Time{}
	if !old.Healthy && !now.Healthy && now.UpdateTime.Sub(old.UpdateTime) < interval {
		a.HealthDescription, b.HealthDescription = "", ""
	}
	return !reflect.DeepEqual(a, b)
}
