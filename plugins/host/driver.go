package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Driver is an external driver. It implements drivers.Driver, Execer, Reporter and NetworkCreator.
type Driver struct {
	program *program
	name    string // of the instance
	label   string // of its plugin block
	args    []string
	log     *slog.Logger
	logs    Logs
	cfg     *Config

	mu      sync.Mutex
	config  []byte
	spec    hcldec.ObjectSpec // of a task
	caps    drivers.Capabilities
	current *process      // serves calls; nil while none does
	spare   *process      // configured, before Fingerprint serves with it
	why     error         // why none does
	changed chan struct{} // closed when current changes
	closed  bool
	tasks   map[string]*proto.TaskHandle // nil during a start
	doubt   map[string]time.Time         // first failure to recover a task
}

var (
	_ drivers.Driver         = (*Driver)(nil)
	_ drivers.Execer         = (*Driver)(nil)
	_ drivers.Reporter       = (*Driver)(nil)
	_ drivers.NetworkCreator = (*Driver)(nil)
)

func newDriver(p *program, name, label string, args []string) *Driver {
	return &Driver{program: p, name: name, label: label, args: args, log: p.log.With("driver", name), logs: p.host.cfg.Logs, cfg: &p.host.cfg,
		why: errors.New("it has not been started yet"), changed: make(chan struct{}), spec: hcldec.ObjectSpec{},
		tasks: map[string]*proto.TaskHandle{}, doubt: map[string]time.Time{}}
}

// Name implements drivers.Driver.
func (d *Driver) Name() string { return d.name }

// ConfigSpec implements drivers.Driver.
func (d *Driver) ConfigSpec() hcldec.Spec {
	spec, err := hclspec.Decode(d.program.schema)
	if err != nil {
		return hcldec.ObjectSpec{} // not reached: Open has decoded it
	}
	return spec
}

// TaskSpec implements drivers.Driver. It is empty until the program has been configured once.
func (d *Driver) TaskSpec() hcldec.Spec {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spec
}

// Capabilities implements drivers.Driver. They are none until the program has been configured once.
func (d *Driver) Capabilities() drivers.Capabilities {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.caps
}

// SetConfig implements drivers.Driver: it starts the program with its configuration. The refusal of a
// configuration is an error. Any other failure makes the driver unhealthy, and is retried.
func (d *Driver) SetConfig(cfg cty.Value) error {
	raw, err := wire.EncodeConfig(cfg)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.config = raw
	d.mu.Unlock()
	p, err := d.start(context.Background())
	if refused, ok := errors.AsType[*refusal](err); ok {
		return refused
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare, d.why = p, err
	if err != nil {
		d.log.Warn("start an external driver", "err", err)
	}
	return nil
}

// refusal is the program's refusal of its configuration.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// start starts a process and configures it.
func (d *Driver) start(ctx context.Context) (*process, error) {
	p, err := d.program.launch(ctx, d.args)
	if err != nil {
		return nil, err
	}
	if err := d.configure(ctx, p); err != nil {
		err = p.explain(err)
		p.stop()
		return nil, err
	}
	return p, nil
}

func (d *Driver) configure(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Patience)
	defer cancel()
	d.mu.Lock()
	req := &proto.SetConfigRequest{MsgpackConfig: d.config, PluginApiVersion: wire.APIVersion,
		NomadConfig: &proto.NomadConfig{Driver: &proto.NomadDriverConfig{
			ClientMinPort: uint32(d.cfg.MinPort), ClientMaxPort: uint32(d.cfg.MaxPort), Topology: d.cfg.Topology}}}
	d.mu.Unlock()
	_, err := p.base.SetConfig(ctx, req)
	switch status.Code(err) {
	case codes.OK:
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Unimplemented, codes.Internal:
		return fmt.Errorf("configure the driver: %w", wire.DecodeError(err))
	default:
		return &refusal{fmt.Errorf("the driver refuses its configuration: %w", wire.DecodeError(err))}
	}
	if _, err := p.driver.Init(ctx, &proto.InitRequest{}); err != nil && !wire.IsUnimplemented(err) {
		return fmt.Errorf("initialise the driver: %w", wire.DecodeError(err))
	}
	schema, err := p.driver.TaskConfigSchema(ctx, &proto.TaskConfigSchemaRequest{})
	if err != nil {
		return fmt.Errorf("read the schema of tasks: %w", wire.DecodeError(err))
	}
	spec, err := hclspec.Decode(schema.GetSpec())
	if err != nil {
		return fmt.Errorf("schema of tasks: %w", err)
	}
	given, err := p.driver.Capabilities(ctx, &proto.CapabilitiesRequest{})
	if err != nil {
		return fmt.Errorf("read the capabilities of the driver: %w", wire.DecodeError(err))
	}
	caps, err := wire.DecodeCapabilities(given.GetCapabilities())
	if err != nil {
		return err
	}
	if caps.FSIsolation == drivers.FSIsolationChroot {
		return errChroot
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spec, d.caps = spec, caps
	return nil
}

// live returns the process that serves calls. It waits for a restart until ctx ends.
func (d *Driver) live(ctx context.Context) (*process, error) {
	for {
		d.mu.Lock()
		p, why, changed, closed := d.current, d.why, d.changed, d.closed
		d.mu.Unlock()
		if p != nil && !p.over() {
			return p, nil
		}
		if closed {
			return nil, fmt.Errorf("driver %s: %w: the agent is stopping", d.name, drivers.ErrNotRunning)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("driver %s: %w: %w", d.name, drivers.ErrNotRunning, errors.Join(ctx.Err(), why))
		case <-time.After(retryLive): // the process has ended, and its successor is not known yet
		}
	}
}

// retryLive is the interval in which live looks at a process that has just ended.
const retryLive = 250 * time.Millisecond

// brief calls f with the process and the time limit of a short call.
func (d *Driver) brief(ctx context.Context, f func(ctx context.Context, p *process) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*d.cfg.Patience)
	defer cancel()
	p, err := d.live(ctx)
	if err != nil {
		return err
	}
	return wire.DecodeError(f(ctx, p))
}

// serve makes a process the one that serves calls, nil for none. It returns an error when the host is
// closed, and then the caller stops the process.
func (d *Driver) serve(p *process, why error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.current, d.why = p, why
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

var errClosed = errors.New("the agent is stopping")

// close ends the processes.
func (d *Driver) close() {
	d.mu.Lock()
	d.closed = true
	list := []*process{d.current, d.spare}
	d.current, d.spare = nil, nil
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	for _, p := range list {
		if p != nil {
			p.shutdown()
		}
	}
}

// rename returns the attributes of the program as those of the instance. Others are dropped: a driver
// must not set attributes of the node.
func (d *Driver) rename(given map[string]string) map[string]string {
	out := map[string]string{}
	var dropped []string
	for key, value := range given {
		rest, ok := strings.CutPrefix(key, "driver."+d.program.name)
		if !ok || rest != "" && rest[0] != '.' {
			dropped = append(dropped, key)
			continue
		}
		out["driver."+d.name+rest] = value
	}
	if len(dropped) > 0 {
		d.log.Debug("attributes of the driver that do not begin with its name are dropped", "attributes", dropped)
	}
	return out
}
